package main

import (
	"context"
	"errors"
	"fmt"
)

// held are the LoRA adapters that others use in the trial, each on the server of that number.
var held = []string{"first", "second"}

// adapterRequests is how many requests the trial sends for each adapter.
const adapterRequests = 12

// adapters checks that requests for a LoRA adapter go to the server that has it in its batch.
func (t *trial) adapters(ctx context.Context) (err error) {
	if err := t.startScrapes(ctx); err != nil {
		return err
	}
	for i, name := range held {
		stop, holdErr := t.hold(ctx, t.servers[i], name, 1)
		if holdErr != nil {
			return holdErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := t.awaitScrapes(ctx); err != nil {
		return err
	}
	for i, name := range held {
		counts, err := t.adapted(ctx, name)
		if err != nil {
			return err
		}
		t.found(counts[i] >= adapterRequests-strays, fmt.Sprintf("endpoint_metrics, requests for adapter %s, in use "+
			"by others on server %d", name, i+1),
			fmt.Sprintf("≥ %d of %d there", adapterRequests-strays, adapterRequests), "%s", joined(counts))
	}
	return t.adaptersByCounts(ctx)
}

// adaptersByCounts does the same with a policy that ignores adapters.
func (t *trial) adaptersByCounts(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byCounts); err != nil {
		return err
	}
	counts, err := t.adapted(ctx, held[0])
	if err != nil {
		return err
	}
	t.found(counts[1] > strays, "the same with global_least_request, "+held[0], fmt.Sprintf("> %d elsewhere", strays),
		"%s", joined(counts))
	return nil
}

// adapted sends requests for an adapter, one after another, and returns how many each server took, by its own counters.
func (t *trial) adapted(ctx context.Context, name string) ([]float64, error) {
	before, err := t.intake(ctx)
	if err != nil {
		return nil, err
	}
	p := t.prober()
	defer p.client.Close()
	p.model = name
	if _, err := p.inTurn(ctx, adapterRequests, 1, trialPrompt, trialAnswer); err != nil {
		return nil, err
	}
	return t.requestsSince(ctx, before, adapterRequests)
}
