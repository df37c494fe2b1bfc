package main

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/lab"
)

// adapterRequests is how many requests the trial sends for each adapter.
const adapterRequests = 12

// adapters checks that requests for a LoRA adapter go to the server that has it in its batch.
func (t *trial) adapters(ctx context.Context) {
	t.startScrapes(ctx)
	for i, name := range held {
		defer t.hold(ctx, t.servers[i], name, 1)()
	}
	t.awaitScrapes(ctx)
	for i, name := range held {
		counts := t.adapted(ctx, name)
		t.found(counts[i] >= adapterRequests-strays, fmt.Sprintf("endpoint_metrics, requests for adapter %s, in use "+
			"by others on server %d", name, i+1),
			fmt.Sprintf("≥ %d of %d there", adapterRequests-strays, adapterRequests), "%s", joined(counts))
	}
	// The same with a policy that ignores adapters.
	lab.Check(t.gateway.PushPlugin(ctx, byCounts))
	counts := t.adapted(ctx, held[0])
	t.found(counts[1] > strays, "the same with global_least_request, "+held[0], fmt.Sprintf("> %d elsewhere", strays),
		"%s", joined(counts))
}

// adapted sends requests for an adapter, one after another, and returns how many each server took, by its own counters.
func (t *trial) adapted(ctx context.Context, name string) []float64 {
	before := t.intake(ctx)
	p := t.prober()
	defer p.client.Close()
	p.model = name
	p.inTurn(ctx, adapterRequests, 1, trialPrompt, trialAnswer)
	return t.requestsSince(ctx, before, adapterRequests)
}
