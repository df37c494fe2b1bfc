package simload

import (
	"fmt"
	"math"
	"time"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
)

// quarter is vLLM 0.26 with the shapes of Llama-3.2-3B on a quarter of the SMs of an H200; four of them shared one GPU.
// The configuration is that of the engines; the times are those by which the medians below fit best.
var quarter = simulate.Engine{
	Config: enginesim.Config{
		MaxNumSeqs: 64, MaxQueued: -1, MaxBatchedTokens: 2048, NumBlocks: 5449, MaxModelLen: 16384,
	}.WithDefaults(),
	Times: enginesim.Times{
		Speed: 1, PrefillOverheadMS: 1, PrefillTokenMS: 0.0465, DecodeStepMS: 7, DecodeSeqMS: 1.35,
	},
}

// outside is what a first token took beside the engine's steps, in ms: HTTP, the gateway, the tokenizer.
const outside = 31

// phase is one of the loads that real engines had: sessions of four turns over four system prompts.
type phase struct {
	name     string
	users    int // at once, 0: sessions begin at random, 2.43 a second
	sessions int
	seed     uint64
	pause    time.Duration // between turns, on average
	real     map[string]figures
}

// figures are what a policy had: the median of TTFT in ms, and the cached share.
type figures struct{ ttft, cached float64 }

var phases = []phase{
	{"calibration", 40, 48, 77, 0, map[string]figures{"round_robin": {283, 0.625}}},
	{"open 1", 0, 36, 1, 700 * time.Millisecond, map[string]figures{
		"round_robin": {154, 0.627}, "least_request": {164, 0.606}, "global_least_request": {161, 0.633},
		"ring_hash": {91, 0.781}, "prefix_cache": {91, 0.806},
	}},
	{"open 2", 0, 36, 2, 700 * time.Millisecond, map[string]figures{
		"round_robin": {160, 0.630}, "least_request": {205, 0.618}, "global_least_request": {174, 0.632},
		"ring_hash": {102, 0.783}, "prefix_cache": {89, 0.823},
	}},
	{"closed 1", 40, 48, 11, 0, map[string]figures{
		"round_robin": {239, 0.637}, "least_request": {247, 0.647}, "global_least_request": {159, 0.753},
		"ring_hash": {129, 0.789}, "prefix_cache": {114, 0.823},
	}},
	{"closed 2", 40, 48, 12, 0, map[string]figures{
		"least_request": {230, 0.653}, "global_least_request": {136, 0.766}, "ring_hash": {127, 0.786},
		"prefix_cache": {122, 0.809},
	}},
}

// scripts returns the sessions of a phase, with the lengths, pauses and beginnings that the real engines had. Their
// words were of one token each.
func (p *phase) scripts() []traffic.Script {
	chats := traffic.Chats{
		Seed: p.seed, Words: 8, Sessions: p.sessions, Turns: 4, Systems: []int{2903, 3517, 4211, 4979},
		Question: traffic.Spread{Median: 900, Sigma: 0.6, Least: 60, Most: 4000},
		Answer:   traffic.Spread{Median: 70, Sigma: 0.5, Least: 8, Most: 400}, Rate: 2.43, Pause: p.pause,
	}
	return chats.Scripts()
}

// LikeRealEngines returns by which part the median TTFT of a policy differs from what it was on real engines, at most,
// and by how much cached shares do on average. show is told of each.
func LikeRealEngines(show func(format string, figures ...any)) (ttft, cached float64, err error) {
	n := 0
	for _, p := range phases {
		for policy, want := range p.real {
			got, err := simulated(&p, policy, quarter)
			if err != nil {
				return 0, 0, fmt.Errorf("%s, %s: %w", p.name, policy, err)
			}
			got.ttft += outside
			show("%s, %s: TTFT %.0f ms, real %.0f; cached %.3f, real %.3f", p.name, policy, got.ttft, want.ttft,
				got.cached, want.cached)
			ttft = max(ttft, math.Abs(got.ttft/want.ttft-1))
			cached += math.Abs(got.cached - want.cached)
			n++
		}
	}
	return ttft, cached / float64(n), nil
}

// simulated plays a phase with a policy, five times with other random choices of the policy, and returns the means.
func simulated(p *phase, policy string, e simulate.Engine) (got figures, err error) {
	c, err := simulate.OfPolicy(policy)
	if err != nil {
		return got, err
	}
	c.NoMetrics = true
	const times = 5
	for seed := range uint64(times) {
		play := Play{Scripts: p.scripts(), Users: p.users, Apart: 20 * time.Millisecond}
		r, err := simulate.Run(play.New(), simulate.Alike(4, e), c, seed, nil)
		if err != nil {
			return got, err
		}
		got.ttft += r.TTFT.P50 * 1e3 / times
		got.cached += r.Cached / times
	}
	return got, nil
}
