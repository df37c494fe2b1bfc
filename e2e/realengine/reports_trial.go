package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
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
func (t *trial) loadReports(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byLoadReports); err != nil {
		return err
	}
	before, err := t.gateway.Sum(ctx, statScrapes)
	if err != nil {
		return err
	}
	idle, _, err := t.chats(ctx)
	if err != nil {
		return err
	}
	t.found(slices.Min(idle) >= reportRequests/6,
		"endpoint_metrics by load reports (ORCA), both idle: requests by the engines' counters",
		fmt.Sprintf("%d, each ≥ %d", reportRequests, reportRequests/6), "%s", joined(idle))
	for i := range t.servers {
		counts, ms, err := t.pressed(ctx, i)
		if err != nil {
			return err
		}
		t.found(counts[i] <= reportRequests/4, fmt.Sprintf("… %d clients of others on server %d", reportClients, i+1),
			fmt.Sprintf("≤ %d there", reportRequests/4), "%s, answer after %.0f ms", joined(counts), ms)
	}
	after, err := t.gateway.Sum(ctx, statScrapes)
	if err != nil {
		return err
	}
	t.found(after == before, "… scrapes", "none", "%.0f", after-before)
	return t.pressedByCounts(ctx)
}

// pressedByCounts does the same with a policy that counts only the gateway's own requests.
func (t *trial) pressedByCounts(ctx context.Context) error {
	if err := t.gateway.PushPlugin(ctx, byCounts); err != nil {
		return err
	}
	counts, ms, err := t.pressed(ctx, 0)
	if err != nil {
		return err
	}
	t.found(counts[0] > reportRequests/4, "the same with global_least_request, server 1", fmt.Sprintf("> %d there",
		reportRequests/4),
		"%s, answer after %.0f ms", joined(counts), ms)
	return nil
}

// pressed sends the trial's requests while others keep a server busy.
func (t *trial) pressed(ctx context.Context, server int) (counts []float64, ms float64, err error) {
	stop := t.press(ctx, t.servers[server])
	counts, ms, err = t.chats(ctx)
	return counts, ms, errors.Join(err, stop())
}

// press keeps clients busy with one server, past the gateway, until stop.
func (t *trial) press(ctx context.Context, s server) (stop func() error) {
	t.prompts++
	p := newProber(target{url: s.url, servers: servers{s}, prompts: t.prompts})
	leave, cancel := context.WithCancel(ctx)
	errs := make([]error, reportClients)
	var wg sync.WaitGroup
	for i := range errs {
		ids := p.tokens(foreignPrompt)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for leave.Err() == nil && errs[i] == nil {
				if _, err := p.send(leave, ids, reportAnswer); leave.Err() == nil {
					errs[i] = err
				}
			}
		}()
	}
	return func() error {
		cancel()
		wg.Wait()
		p.client.Close()
		return errors.Join(errs...)
	}
}

// chats sends the trial's requests, which are not streamed, and returns how many each server counted and the mean time
// of an answer, ms. They come one after another, so that the number in flight does not decide where the next goes.
func (t *trial) chats(ctx context.Context) (counts []float64, ms float64, err error) {
	before, err := t.chatCounts(ctx)
	if err != nil {
		return nil, 0, err
	}
	p := t.prober()
	defer p.client.Close()
	client := loadgen.NewClient(loadgen.Options{
		URL:         p.url + "/v1/chat/completions",
		KeepHeaders: []string{reportHeader},
	})
	defer client.Close()
	plan, err := p.chatRequests(reportRequests)
	if err != nil {
		return nil, 0, err
	}
	total := 0.
	for i := range plan {
		s := client.Do(ctx, &plan[i], time.Now())
		if !s.OK() || s.Header != nil {
			return nil, 0, fmt.Errorf("status %d %s %s, and a report that was not requested: %v", s.Status, s.Error,
				s.Detail, s.Header)
		}
		total += bench.MS(s.Total)
	}
	counts, err = t.chatsSince(ctx, before)
	return counts, total / reportRequests, err
}

// chatRequests returns n of the trial's requests.
func (p *prober) chatRequests(n int) (plan []loadgen.Request, _ error) {
	for i := range n {
		body, err := loadgen.ChatBody(model, p.words(trialPrompt), trialAnswer, false)
		if err != nil {
			return nil, err
		}
		plan = append(plan, loadgen.Request{ID: i, Body: body, MaxTokens: trialAnswer})
	}
	return plan, nil
}

// chatsSince returns how many of the trial's requests each server has counted since then; together these must be all.
func (t *trial) chatsSince(ctx context.Context, then []float64) (counts []float64, err error) {
	after, err := t.chatCounts(ctx)
	sum := 0.
	for i := range after {
		counts = append(counts, after[i]-then[i])
		sum += counts[i]
	}
	if err == nil && sum != reportRequests {
		err = fmt.Errorf("%d requests were sent, the engines counted %v", reportRequests, counts)
	}
	return counts, err
}

func (t *trial) chatCounts(ctx context.Context) ([]float64, error) {
	var counts []float64
	for _, s := range t.servers {
		text, err := get(ctx, s.url+"/metrics")
		if err != nil {
			return nil, err
		}
		n := 0.
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), chatsCounted+" "); ok {
				if n, err = strconv.ParseFloat(value, 64); err != nil {
					return nil, err
				}
			}
		}
		counts = append(counts, n)
	}
	return counts, nil
}
