package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
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
func (t *trial) endpointMetrics(ctx context.Context) {
	t.startScrapes(ctx)
	t.awaitScrapes(ctx)
	t.idle(ctx, "endpoint_metrics, both idle: requests by the engines' counters")
	for i := range t.servers {
		t.occupied(ctx, i)
	}
	// What the engines did in the meantime must not make one of them seem much faster than the other.
	t.awaitScrapes(ctx)
	t.idle(ctx, "… both idle again")
	t.control(ctx)
}

// startScrapes switches to endpoint_metrics. Scrapes begin with the first request that needs them.
func (t *trial) startScrapes(ctx context.Context) {
	lab.Check(t.gateway.PushPlugin(ctx, byMetrics))
	p := t.prober()
	defer p.client.Close()
	p.send(ctx, p.tokens(trialPrompt), 1)
}

// occupied checks that requests avoid the server of this number while others use it.
func (t *trial) occupied(ctx context.Context, i int) {
	stop := t.occupy(ctx, t.servers[i])
	var counts []float64
	var samples []loadgen.Sample
	var waiting []int
	lab.Each(func() {
		t.awaitScrapes(ctx)
		watch := watchQueues(ctx, t.servers[i:i+1])
		lab.Each(func() { counts, samples = t.placed(ctx, 2) }, func() { _, waiting = watch() })
	}, stop)
	t.found(counts[i] <= strays, fmt.Sprintf("… %d running and %d waiting on server %d by others", slots,
		slots, i+1),
		fmt.Sprintf("≤ %d there", strays), "%s, first token %.0f ms", joined(counts), medianTTFT(samples))
	t.found(waiting[0] <= slots+strays, "… most waiting there", fmt.Sprintf("the others' %d", slots),
		"%d", waiting[0])
}

// idle checks that requests are spread over servers of which none has other work.
func (t *trial) idle(ctx context.Context, what string) {
	counts, samples := t.placed(ctx, slots)
	t.found(slices.Min(counts) >= trialRequests/4, what, fmt.Sprintf("%d, each ≥ %d", trialRequests, trialRequests/4),
		"%s, first token %.0f ms", joined(counts), medianTTFT(samples))
}

// awaitScrapes waits until the metrics of all servers have been read twice from now on.
func (t *trial) awaitScrapes(ctx context.Context) {
	before := lab.Must(t.gateway.Sum(ctx, statScrapesOK))
	n, p, sent := float64(len(t.servers)), t.prober(), time.Now()
	defer p.client.Close()
	err := lab.Try(func() {
		lab.Within(ctx, settleTime, func() {
			now := lab.Must(t.gateway.Sum(ctx, statScrapesOK))
			// a new VM may have left the first request to the gateway
			if now == before && time.Since(sent) > 3*time.Second {
				p.send(ctx, p.tokens(trialPrompt), 1)
				sent = time.Now()
			}
			fresh := lab.Must(t.gateway.Sum(ctx, statFresh))
			lab.FailIf(now-before < 3*n || fresh != n,
				"the plugin has read metrics %v times, lately of %v servers, not %v", now-before, fresh, n)
		})
	})
	if err != nil {
		stats, _ := t.gateway.Stats(ctx, `^wasmcustom\.warmgate_metrics`)
		lab.Check(fmt.Errorf("%w; statistics %v, log\n%s", err, stats, t.gateway.Logs()))
	}
}

// placed sends the requests of the trial and returns how many each server took, by its own counters.
func (t *trial) placed(ctx context.Context, atOnce int) (counts []float64, samples []loadgen.Sample) {
	before := t.intake(ctx)
	p := t.prober()
	defer p.client.Close()
	samples = p.inTurn(ctx, trialRequests, atOnce, trialPrompt, trialAnswer)
	return t.requestsSince(ctx, before, trialRequests), samples
}

// requestsSince returns how many of the trial's requests each server has counted since then; all in all they must be n.
func (t *trial) requestsSince(ctx context.Context, then []counters, n float64) (counts []float64) {
	sum := 0.
	for _, c := range t.since(ctx, then) {
		counts = append(counts, c.prompts()/trialPrompt)
		sum += c.prompts() / trialPrompt
	}
	lab.FailIf(sum != n, "%.0f requests were sent, the engines counted %v", n, counts)
	return counts
}

// control does the same with a policy that counts only the gateway's own requests: they queue behind the others.
func (t *trial) control(ctx context.Context) {
	lab.Check(t.gateway.PushPlugin(ctx, byCounts))
	stop := t.occupy(ctx, t.servers[0])
	p := t.prober()
	defer p.client.Close()
	done := make(chan error, 1)
	go func() {
		done <- lab.Try(func() { p.inTurn(ctx, slots, slots, trialPrompt, trialAnswer) })
	}()
	most := 0.
	lab.Each(func() { most = t.servers[0].maxWaiting(ctx) }, stop, func() { lab.Check(<-done) })
	t.found(most > slots, "the same with global_least_request: most waiting there",
		fmt.Sprintf("> %d: ours queue", slots), "%.0f", most)
}

// maxWaiting watches a server for 5 s, or until more requests wait than it has slots, and returns how many these were.
func (s server) maxWaiting(ctx context.Context) (most float64) {
	for end := time.Now().Add(5 * time.Second); most <= slots && time.Now().Before(end); {
		most = max(most, s.scrape(ctx).waiting)
		lab.Check(wait.For(ctx, 20*time.Millisecond))
	}
	return most
}

// joined writes counts side by side.
func joined(v []float64) string {
	var s []string
	for _, x := range v {
		s = append(s, fmt.Sprintf("%.0f", x))
	}
	return strings.Join(s, " + ")
}
