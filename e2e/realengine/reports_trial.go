package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// The trial of load reports. A saturated engine reports when it answers, so the load on it is a queue that moves:
// clients that request short answers, again and again.
const (
	reportClients  = 2 * slots // past the gateway, on one server
	reportAnswer   = 48        // tokens of their answers
	reportRequests = 24
	reportHeader   = "endpoint-load-metrics"
)

// chatsCounted is the engine's own count of what came to the API that only the trial's requests use.
const chatsCounted = `http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}`

// loadReports checks that load is learned from the reports in responses alone, without scrapes.
func (t *trial) loadReports(ctx context.Context) {
	lab.Check(t.gateway.PushPlugin(ctx, byLoadReports))
	before := lab.Must(t.gateway.Sum(ctx, statScrapes))
	idle, _ := t.chats(ctx)
	t.found(slices.Min(idle) >= reportRequests/6,
		"endpoint_metrics by load reports (ORCA), both idle: requests by the engines' counters",
		fmt.Sprintf("%d, each ≥ %d", reportRequests, reportRequests/6), "%s", joined(idle))
	for i := range t.servers {
		counts, ms := t.pressed(ctx, i)
		t.found(counts[i] <= reportRequests/4, fmt.Sprintf("… %d clients of others on server %d", reportClients, i+1),
			fmt.Sprintf("≤ %d there", reportRequests/4), "%s, answer after %.0f ms", joined(counts), ms)
	}
	more := lab.Must(t.gateway.Sum(ctx, statScrapes)) - before
	t.found(more == 0, "… scrapes", "none", "%.0f", more)
	// The same with a policy that counts only the gateway's own requests.
	lab.Check(t.gateway.PushPlugin(ctx, byCounts))
	counts, ms := t.pressed(ctx, 0)
	t.found(counts[0] > reportRequests/4, "the same with global_least_request, server 1",
		fmt.Sprintf("> %d there", reportRequests/4), "%s, answer after %.0f ms", joined(counts), ms)
}

// pressed sends the trial's requests while others keep a server busy.
func (t *trial) pressed(ctx context.Context, server int) (counts []float64, ms float64) {
	stop := t.press(ctx, t.servers[server])
	lab.Each(func() { counts, ms = t.chats(ctx) }, func() { lab.Check(stop()) })
	return counts, ms
}

// press keeps clients busy with one server, past the gateway, until stop.
func (t *trial) press(ctx context.Context, s server) (stop func() error) {
	return t.foreign(ctx, s, model, reportClients, reportAnswer, true)
}

// chats sends the trial's requests, which are not streamed, and returns how many each server counted and the mean time
// of an answer, ms. They come one after another, so that the number in flight does not decide where the next goes.
func (t *trial) chats(ctx context.Context) (counts []float64, ms float64) {
	before := t.chatCounts(ctx)
	p := t.prober()
	defer p.client.Close()
	client := loadgen.NewClient(loadgen.Options{
		URL:         p.url + "/v1/chat/completions",
		KeepHeaders: []string{reportHeader},
	})
	defer client.Close()
	total, sum := 0., 0.
	for i := range reportRequests {
		body := lab.Must(loadgen.ChatBody(model, p.words(trialPrompt), trialAnswer, false))
		s := client.Do(ctx, &loadgen.Request{ID: i, Body: body, MaxTokens: trialAnswer}, time.Now())
		lab.FailIf(!s.OK() || s.Header != nil, "status %d %s %s, and a report that was not requested: %v", s.Status,
			s.Error, s.Detail, s.Header)
		total += bench.MS(s.Total)
	}
	counts = t.chatCounts(ctx)
	for i := range counts {
		counts[i] -= before[i]
		sum += counts[i]
	}
	lab.FailIf(sum != reportRequests, "%d requests were sent, the engines counted %v", reportRequests, counts)
	return counts, total / reportRequests
}

func (t *trial) chatCounts(ctx context.Context) (counts []float64) {
	for _, s := range t.servers {
		n := 0.
		for line := range strings.Lines(lab.Ask(ctx, s.url+"/metrics", true, nil).Body) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), chatsCounted+" "); ok {
				n = lab.Must(strconv.ParseFloat(value, 64))
			}
		}
		counts = append(counts, n)
	}
	return counts
}
