package page

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/state"
)

// begin is the time of the first frame of a story.
const begin = 1_790_000_000_000

// story is a number of frames, one a second, such as three gateways might show: chats on servers of unequal speed, then
// conversations, of which the third gateway knows the caches, then too much of everything.
func story(seconds int) []live.Frame {
	random := rand.New(rand.NewPCG(1, 2))
	var frames []live.Frame
	for i := range seconds {
		act := 3 * i / seconds
		frames = append(frames, live.Frame{
			AtMS: begin + 1000*int64(i),
			Note: []string{
				"Chats of unequal length, on servers of unequal speed", "Conversations, whose prompts are cached",
				"Twice as much as the servers can do",
			}[act],
			Gateways: []live.Gateway{
				gateway(random, "round_robin", act, i, 1), gateway(random, "least_request", act, i, 0.6),
				gateway(random, "Warmgate", act, i, 0.3),
			},
		})
	}
	return frames
}

// gateway returns one gateway of a frame; with uneven 1 some servers get far more than they can do.
func gateway(random *rand.Rand, name string, act, second int, uneven float64) live.Gateway {
	own := name == "Warmgate"
	slow := 1 + 3*uneven*uneven + 2*float64(act)*uneven
	cluster := live.Cluster{
		Name: "models", Policy: name, PerS: 14 + 3*random.Float64(),
		TTFT: &live.Quantiles{
			N: 150, P50: slow * (150 + 60*random.Float64()), P90: slow * (500 + 100*random.Float64()),
		},
	}
	if act == 1 && !own {
		cluster.Policy = "ring_hash"
	}
	if own {
		cluster.Policy = []string{"global_least_request", "prefix_cache", "prefix_cache"}[act]
		cluster.Unit, cluster.Store = "tokens", "embedded"
		cluster.Expected, cluster.Reported = pointer(0.1+0.3*float64(act)), pointer(0.08+0.31*float64(act))
	}
	for i := range 6 {
		mean := 6 * math.Pow(1+float64(i%3), uneven)
		running := math.Round(min(12, mean*(0.7+0.6*random.Float64())))
		waiting := math.Round(max(0, mean*(1+0.4*random.Float64())-12) * float64(1+act) / 2)
		endpoint := live.Endpoint{
			Addr: fmt.Sprintf("10.0.0.%d:8000", i+1), Zone: []string{"a", "b"}[i%2], Health: "healthy", Weight: 1,
			Requests: int64(running + waiting), Running: &running, Waiting: &waiting,
			KVCache: pointer(min(1, running/14)),
		}
		if own {
			endpoint.Cap, endpoint.PushLimit, endpoint.Waiting = 16, 13, pointer(0.0)
			endpoint.Requests, endpoint.Tokens = int64(running), int64(running)*1400
			if i == 5 && second%40 > 25 {
				endpoint.Health, endpoint.Requests, endpoint.Running = "ejected", 0, pointer(0.0)
			}
		}
		cluster.Endpoints = append(cluster.Endpoints, endpoint)
	}
	g := live.Gateway{Name: name, Up: true, Version: "0.1.0", Clusters: []live.Cluster{cluster}}
	if own {
		warm(random, &g, act, second)
	}
	return g
}

// warm adds what the plugin alone shows.
func warm(random *rand.Rand, g *live.Gateway, act, second int) {
	g.Region = "eu"
	cluster := &g.Clusters[0]
	if act == 2 {
		cluster.Classes = []live.Class{
			{Name: "interactive", Waiting: int64(random.IntN(4))},
			{Name: "batch", Waiting: 24 + int64(random.IntN(20)), RefusedS: 3.5},
		}
		cluster.RefusedS = 3.5
		g.Regions = []live.Region{
			{Name: "us", Available: true, RTTMS: 82, ForwardedS: 2.5},
			{Name: "asia", RTTMS: 160, ServedS: 0.5},
		}
	}
	g.Reasons = []live.Reason{
		{Policy: cluster.Policy, Reason: "cost", Total: 15 * int64(second+1), PerS: 15},
		{Policy: cluster.Policy, Reason: "queue_full", Total: 3 * int64(second+1), PerS: cluster.RefusedS},
	}
	for i := range 3 {
		g.Decisions = append(g.Decisions, decision(random, cluster, second, i))
	}
}

// decision returns one whose cheapest candidate was chosen.
func decision(random *rand.Rand, cluster *live.Cluster, second, i int) state.Decision {
	d := state.Decision{
		ID: fmt.Sprintf("%d-%d", second, i), AtMS: begin + 1000*int64(second) - 300*int64(i), API: "chat",
		Model: "llama", Cluster: cluster.Name, Policy: cluster.Policy, Class: "interactive", Reason: "cost",
		Prompt: 1200, Output: 180, Blocks: 18, Ended: i > 0, TTFTMS: 140 + int64(random.IntN(200)), TookMS: 2300,
		Result: "served", Used: &state.Usage{Prompt: 1204, Cached: 900, Output: 171},
	}
	base := 0.2 + 0.1*random.Float64()
	for k, e := range cluster.Endpoints[:4] {
		c := state.Candidate{
			Addr: e.Addr, Base: 0.01 * float64(k), Load: base + 0.15*float64(k), Credit: 0.1 / float64(k+1),
			Matched: 0.75 / float64(k+1), Requests: e.Requests, Tokens: e.Tokens,
		}
		c.Cost = c.Base + c.Load + c.Over - c.Credit
		d.Candidates = append(d.Candidates, c)
	}
	d.Endpoint, d.Others = d.Candidates[0].Addr, 2
	return d
}

func pointer(v float64) *float64 { return &v }
