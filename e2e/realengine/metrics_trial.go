package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// The requests of the trial of endpoint_metrics. A server's counter of prompt tokens shows how many of them it got.
const (
	trialRequests = 24
	trialPrompt   = 64
	trialAnswer   = 4
	// strays is how many of them may reach a busy server: its load is known after two samples, and on a machine that
	// stalls these may be stale.
	strays = 1
)

// Statistics of the plugin, as Envoy names them.
const (
	statFresh     = `^wasmcustom\.warmgate_metrics_fresh_endpoints;cluster=llm$`
	statScrapesOK = `^wasmcustom\.warmgate_metrics_scrapes_total;result=ok$`
	statScrapes   = `^wasmcustom\.warmgate_metrics_scrapes_total`
	statPrompt    = `^wasmcustom\.warmgate_prompt_tokens_total$`
	statCached    = `^wasmcustom\.warmgate_cached_tokens_total$`
	statExpect    = `^wasmcustom\.warmgate_expected_cached_tokens_total$`
)

// endpointMetrics checks that load which only the engines know of is seen and avoided, whichever server has it.
func (t *trial) endpointMetrics(ctx context.Context) error {
	if err := t.startScrapes(ctx); err != nil {
		return err
	}
	if err := t.awaitScrapes(ctx); err != nil {
		return err
	}
	if err := t.idle(ctx, "endpoint_metrics, both idle: requests by the engines' counters"); err != nil {
		return err
	}
	for i := range t.servers {
		if err := t.occupied(ctx, i); err != nil {
			return err
		}
	}
	// What the engines did in the meantime must not make one of them seem much faster than the other.
	if err := t.awaitScrapes(ctx); err != nil {
		return err
	}
	if err := t.idle(ctx, "… both idle again"); err != nil {
		return err
	}
	return t.control(ctx)
}

// startScrapes switches to endpoint_metrics. Scrapes begin with the first request that needs them.
func (t *trial) startScrapes(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byMetrics); err != nil {
		return err
	}
	p := t.prober()
	defer p.client.Close()
	_, err := p.send(ctx, p.tokens(trialPrompt), 1)
	return err
}

// occupied checks that requests avoid the server of this number while others use it.
func (t *trial) occupied(ctx context.Context, i int) error {
	stop, err := t.occupy(ctx, t.servers[i])
	if err != nil {
		return err
	}
	if err := t.awaitScrapes(ctx); err != nil {
		return err
	}
	watch := watchQueues(ctx, t.servers[i:i+1])
	counts, samples, err := t.placed(ctx, 2)
	_, waiting, watchErr := watch()
	if err := errors.Join(err, watchErr, stop()); err != nil {
		return err
	}
	t.found(counts[i] <= strays, fmt.Sprintf("… %d running and %d waiting on server %d by others", slots,
		slots, i+1),
		fmt.Sprintf("≤ %d there", strays), "%s, first token %.0f ms", joined(counts), medianTTFT(samples))
	t.found(waiting[0] <= slots+strays, "… most waiting there", fmt.Sprintf("the others' %d", slots),
		"%d", waiting[0])
	return nil
}

// idle checks that requests are spread over servers of which none has other work.
func (t *trial) idle(ctx context.Context, what string) error {
	counts, samples, err := t.placed(ctx, slots)
	if err != nil {
		return err
	}
	t.found(slices.Min(counts) >= trialRequests/4, what, fmt.Sprintf("%d, each ≥ %d", trialRequests, trialRequests/4),
		"%s, first token %.0f ms", joined(counts), medianTTFT(samples))
	return nil
}

// awaitScrapes waits until the metrics of all servers have been read twice from now on.
func (t *trial) awaitScrapes(ctx context.Context) error {
	before, err := t.gateway.Sum(ctx, statScrapesOK)
	if err != nil {
		return err
	}
	n, p, sent := float64(len(t.servers)), t.prober(), time.Now()
	defer p.client.Close()
	err = await(ctx, "the plugin reads the engines' metrics", settleTime, func() (bool, error) {
		now, err := t.gateway.Sum(ctx, statScrapesOK)
		if err != nil {
			return false, err
		}
		// a new VM may have left the first request to the gateway
		if now == before && time.Since(sent) > 3*time.Second {
			if _, err := p.send(ctx, p.tokens(trialPrompt), 1); err != nil {
				return false, err
			}
			sent = time.Now()
		}
		fresh, err := t.gateway.Sum(ctx, statFresh)
		return now-before >= 3*n && fresh == n, err
	})
	if err != nil {
		stats, _ := t.gateway.Stats(ctx, `^wasmcustom\.warmgate_metrics`)
		err = fmt.Errorf("%w; statistics %v, log\n%s", err, stats, t.gateway.Logs())
	}
	return err
}

// placed sends the requests of the trial and returns how many each server took, by its own counters.
func (t *trial) placed(ctx context.Context, atOnce int) (counts []float64, samples []loadgen.Sample, err error) {
	before, err := t.intake(ctx)
	if err != nil {
		return nil, nil, err
	}
	p := t.prober()
	defer p.client.Close()
	if samples, err = p.inTurn(ctx, trialRequests, atOnce, trialPrompt, trialAnswer); err != nil {
		return nil, nil, err
	}
	counts, err = t.requestsSince(ctx, before, trialRequests)
	return counts, samples, err
}

// requestsSince returns how many of the trial's requests each server has counted since then; all in all they must be n.
func (t *trial) requestsSince(ctx context.Context, then []counters, n float64) (counts []float64, err error) {
	taken, err := t.since(ctx, then)
	sum := 0.
	for _, c := range taken {
		counts = append(counts, c.prompts()/trialPrompt)
		sum += c.prompts() / trialPrompt
	}
	if err == nil && sum != n {
		err = fmt.Errorf("%.0f requests were sent, the engines counted %v", n, counts)
	}
	return counts, err
}

// control does the same with a policy that counts only the gateway's own requests: they queue behind the others.
func (t *trial) control(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byCounts); err != nil {
		return err
	}
	stop, err := t.occupy(ctx, t.servers[0])
	if err != nil {
		return err
	}
	p := t.prober()
	defer p.client.Close()
	done := make(chan error, 1)
	go func() {
		_, err := p.inTurn(ctx, slots, slots, trialPrompt, trialAnswer)
		done <- err
	}()
	most, err := t.servers[0].maxWaiting(ctx)
	if err := errors.Join(err, stop(), <-done); err != nil {
		return err
	}
	t.found(most > slots, "the same with global_least_request: most waiting there",
		fmt.Sprintf("> %d: ours queue", slots), "%.0f", most)
	return nil
}

// maxWaiting watches a server for 5 s, or until more requests wait than it has slots, and returns how many these were.
func (s server) maxWaiting(ctx context.Context) (most float64, err error) {
	err = await(ctx, "requests queue", 5*time.Second, func() (bool, error) {
		c, err := s.scrape(ctx)
		most = max(most, c.waiting)
		return most > slots, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // that none queues is a finding
	}
	return most, err
}

// joined writes counts side by side.
func joined(v []float64) string {
	var s []string
	for _, x := range v {
		s = append(s, fmt.Sprintf("%.0f", x))
	}
	return strings.Join(s, " + ")
}
