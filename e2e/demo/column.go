package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/live"
)

// column is a contender: gateways, and servers behind them, that are its own.
type column struct {
	name  string // in all acts
	stage *compare.Stage

	mu     sync.Mutex
	policy compare.Policy
	ended  []end // requests of the last ten seconds, oldest first
	since  int   // of these: ended after the latest frame
}

// end is the end of a request.
type end struct {
	at             time.Time
	ttft           time.Duration // 0: none
	prompt, cached int           // tokens
	expected       float64       // of the prompt's tokens, to be cached; by the plugin
	refused        bool
}

// window is the time that quantiles and shares of frames are of.
const window = 10 * time.Second

// saw keeps what a client saw of a request.
func (c *column) saw(s loadgen.Sample) {
	e := end{
		at: time.Now(), ttft: s.TTFT, prompt: s.Usage.Prompt, cached: s.Usage.Cached,
		refused: s.Status == 429 || s.Status == 503,
	}
	if match, err := strconv.ParseFloat(s.Header.Get(compare.MatchHeader), 64); err == nil {
		e.expected = match * float64(s.Usage.Prompt)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, e)
	c.since++
}

// frame is what is to be seen of the column now, some time after the frame before.
func (c *column) frame(ctx context.Context, now time.Time, after time.Duration) live.Gateway {
	cluster := live.Cluster{Name: "llm"}
	for _, s := range c.stage.Servers {
		st := s.State()
		running, waiting := float64(st.Running), float64(st.Waiting)
		cluster.Endpoints = append(cluster.Endpoints, live.Endpoint{
			Addr: s.Addr(), Health: "healthy", Requests: st.Inflight, Running: &running, Waiting: &waiting,
			KVCache: &st.KVUsage,
		})
	}
	c.count(&cluster, now, after)
	cluster.Classes = c.queued(ctx)
	return live.Gateway{Name: c.name, Up: true, Clusters: []live.Cluster{cluster}}
}

// count fills in what the clients saw.
func (c *column) count(to *live.Cluster, now time.Time, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.Policy = c.policy.Name
	old := slices.IndexFunc(c.ended, func(e end) bool { return now.Sub(e.at) < window })
	if old < 0 {
		old = len(c.ended)
	}
	for _, e := range c.ended[len(c.ended)-c.since:] {
		to.PerS += 1 / after.Seconds()
		if e.refused {
			to.RefusedS += 1 / after.Seconds()
		}
	}
	c.ended, c.since = slices.Delete(c.ended, 0, old), 0
	var ttft []time.Duration
	var prompt, cached, expected float64
	for _, e := range c.ended {
		if e.ttft > 0 {
			ttft = append(ttft, e.ttft)
		}
		prompt, cached, expected = prompt+float64(e.prompt), cached+float64(e.cached), expected+e.expected
	}
	if len(ttft) > 0 {
		q := loadgen.QuantilesOf(ttft)
		to.TTFT = &live.Quantiles{N: len(ttft), P50: q.P50.Seconds() * 1e3, P90: q.P90.Seconds() * 1e3}
	}
	if prompt > 0 {
		cached /= prompt
		to.Reported = &cached
		if expected > 0 {
			expected /= prompt
			to.Expected = &expected
		}
	}
}

// take has the column play an act from now on: its policy, and its servers.
func (c *column) take(ctx context.Context, a *act, who int) {
	for i, s := range c.stage.Servers {
		lab.Check(s.SetTuning(a.servers[i].Tuning))
	}
	lab.Check(c.stage.Switch(ctx, a.policies[who]))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy, c.ended, c.since = a.policies[who], nil, 0
}

// queued is what waits in the gateways, by class. With Redis all of them say the same.
func (c *column) queued(ctx context.Context) (classes []live.Class) {
	const stat = "warmgate_queue_length;"
	stats, err := c.stage.Gateway.Stats(ctx, stat)
	if err != nil {
		return nil // the gateway is about to stop
	}
	for name, n := range stats {
		if _, class, ok := strings.Cut(name, ";class="); ok {
			classes = append(classes, live.Class{Name: class, Waiting: int64(n)})
		}
	}
	slices.SortFunc(classes, func(a, b live.Class) int { return strings.Compare(a.Name, b.Name) })
	return classes
}
