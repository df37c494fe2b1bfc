package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// column is a contender: gateways, and servers behind them, that are its own.
type column struct {
	name  string // in all acts
	token string // for what the plugin shows
	stage *compare.Stage

	mu     sync.Mutex
	policy compare.Policy
	ended  []end // requests of the last ten seconds, oldest first
}

// inspectPath is where the plugin shows what it knows.
const inspectPath = "/warmgate/inspect"

// shown is the policy that also shows what it knows, to those who have the token.
func (c *column) shown(p compare.Policy) compare.Policy {
	p.Plugin = strings.Replace(p.Plugin, `"lb_config":{`, fmt.Sprintf(`"lb_config":{"inspect":{"path":%q,"token":%q},`,
		inspectPath, c.token), 1)
	return p
}

// source is where the first gateway of the column can be asked.
func (c *column) source() snapshot.Source {
	g := c.stage.Gateway
	s := snapshot.Source{Name: c.name, Admin: "unix:" + filepath.Join(g.Dir(), "admin.sock")}
	if c.policy.Plugin != "" {
		s.Inspect, s.Token = g.URL()+inspectPath, c.token
	}
	return s
}

// end is the end of a request.
type end struct {
	at             time.Time
	ttft           time.Duration // 0: none
	prompt, cached int           // tokens
	expected       float64       // of the prompt's tokens, to be cached; by the plugin
	refused        bool
}

// window is the time that quantiles and shares of frames are of, moment the time that rates are of.
const window, moment = 10 * time.Second, 2 * time.Second

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
}

// complete adds to what a gateway tells of itself what only the demo knows: what its servers do, what clients saw, and
// how the policy is called.
func (c *column) complete(g *live.Gateway, now time.Time) {
	cluster := live.Cluster{Name: "llm"}
	if i := slices.IndexFunc(g.Clusters, func(x live.Cluster) bool { return x.Name == cluster.Name }); i >= 0 {
		cluster = g.Clusters[i]
	}
	told := cluster.Endpoints
	cluster.Endpoints = nil
	for _, s := range c.stage.Servers {
		st := s.State()
		e := live.Endpoint{Addr: s.Addr(), Health: "healthy", Requests: st.Inflight}
		if i := slices.IndexFunc(told, func(x live.Endpoint) bool { return x.Addr == e.Addr }); i >= 0 {
			e = told[i]
		}
		running, waiting := float64(st.Running), float64(st.Waiting)
		e.Running, e.Waiting, e.KVCache = &running, &waiting, &st.KVUsage
		cluster.Endpoints = append(cluster.Endpoints, e)
	}
	c.count(&cluster, now)
	g.Name, g.Clusters = c.name, []live.Cluster{cluster}
}

// count fills in what the clients saw.
func (c *column) count(to *live.Cluster, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to.Policy, to.PerS, to.RefusedS, to.TTFT, to.Expected, to.Reported = c.policy.Name, 0, 0, nil, nil, nil
	old := slices.IndexFunc(c.ended, func(e end) bool { return now.Sub(e.at) < window })
	if old < 0 {
		old = len(c.ended)
	}
	c.ended = slices.Delete(c.ended, 0, old)
	var ttft []time.Duration
	var prompt, cached, expected float64
	for _, e := range c.ended {
		if now.Sub(e.at) < moment {
			to.PerS += 1 / moment.Seconds()
			if e.refused {
				to.RefusedS += 1 / moment.Seconds()
			}
		}
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
	lab.Check(c.stage.Switch(ctx, c.shown(a.policies[who])))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy, c.ended = a.policies[who], nil
}
