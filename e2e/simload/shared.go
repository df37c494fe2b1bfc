package simload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// shared is the engine of quarter, and what it loses to the others on the same GPU while these are at work. It was
// fitted to all of the figures below, by coordinate descent on the squares of the logarithms of their ratios.
var shared = simulate.Engine{
	Config: quarter.Config,
	Times: enginesim.Times{
		Speed: 1, PrefillOverheadMS: 5, PrefillTokenMS: 0.039, DecodeStepMS: 4.4, DecodeSeqMS: 0.5,
	},
	Shares: &engine.Interference{Prefill: 0.045, Decode: 0.13},
}

// besideShared is outside for shared.
const besideShared = 37

// H200 returns an engine on a quarter of an H200. All of them in a pool are on the same one.
func H200() simulate.Engine { return shared }

// latencies are means of a run, in ms: the first token, and each one behind it.
type latencies struct{ ttft, token float64 }

// measured are the latencies of real engines in the phases.
var measured = map[string]map[string]latencies{
	"calibration": {"round_robin": {316, 26.3}},
	"open 1": {
		"round_robin": {183, 9.8}, "least_request": {192, 10.0}, "global_least_request": {179, 9.2},
		"ring_hash": {116, 8.8}, "prefix_cache": {106, 8.5},
	},
	"open 2": {
		"round_robin": {188, 12.6}, "least_request": {223, 12.8}, "global_least_request": {189, 12.3},
		"ring_hash": {132, 10.4}, "prefix_cache": {103, 9.8},
	},
	"closed 1": {
		"round_robin": {295, 23.5}, "least_request": {302, 22.5}, "global_least_request": {227, 18.5},
		"ring_hash": {224, 17.9}, "prefix_cache": {141, 17.3},
	},
	"closed 2": {
		"least_request": {330, 21.6}, "global_least_request": {225, 18.0}, "ring_hash": {235, 17.8},
		"prefix_cache": {168, 17.6},
	},
}

// probe is a prompt for itself on real engines, or one on each of three at the same moment.
type probe struct {
	name   string
	copies int // one after the other, of which the last counts
	beside int // others at the same moment, on engines of their own
	real   latencies
}

var probes = []probe{
	{"a prompt alone", 1, 0, latencies{332, 4.3}},
	{"a prompt that is cached", 2, 0, latencies{49, 4.3}},
	{"three prompts at once", 1, 2, latencies{367, 6.0}},
}

// Off is by which part something is off, on average and at most.
type Off struct{ Mean, Most float64 }

// add adds one of n.
func (o *Off) add(got, want float64, n int) {
	off := math.Abs(got/want - 1)
	o.Mean, o.Most = o.Mean+off/float64(n), max(o.Most, off)
}

// SharedError returns by how much the simulated engines on one GPU differ from real ones: the mean TTFT and the mean
// time between tokens of a policy, and those of single prompts. show is told of each.
func SharedError(show func(format string, figures ...any)) (ttft, token, single Off, err error) {
	n := 0
	for _, of := range measured {
		n += len(of)
	}
	for i := range phases {
		p := &phases[i]
		for policy, want := range measured[p.name] {
			got, err := p.latencies(policy)
			if err != nil {
				return ttft, token, single, fmt.Errorf("%s, %s: %w", p.name, policy, err)
			}
			show("%s, %s: TTFT %.0f ms, real %.0f; %.1f ms between tokens, real %.1f", p.name, policy, got.ttft,
				want.ttft, got.token, want.token)
			ttft.add(got.ttft, want.ttft, n)
			token.add(got.token, want.token, n)
		}
	}
	for i := range probes {
		got, err := probes[i].play()
		if err != nil {
			return ttft, token, single, fmt.Errorf("%s: %w", probes[i].name, err)
		}
		want := probes[i].real
		show("%s: TTFT %.0f ms, real %.0f; %.1f ms between tokens, real %.1f", probes[i].name, got.ttft, want.ttft,
			got.token, want.token)
		single.add(got.ttft, want.ttft, 2*len(probes))
		single.add(got.token, want.token, 2*len(probes))
	}
	return ttft, token, single, nil
}

// latencies plays a phase with a policy, five times with other random choices of the policy.
func (p *phase) latencies(policy string) (got latencies, err error) {
	c, err := simulate.OfPolicy(policy)
	if err != nil {
		return got, err
	}
	c.NoMetrics = true
	const times = 5
	play := Play{Scripts: p.scripts(), Users: p.users, Apart: 20 * time.Millisecond}
	for seed := range uint64(times) {
		r, err := simulate.Run(play.New(), simulate.Alike(4, shared), c, seed, nil)
		if err != nil {
			return got, err
		}
		got.ttft += (r.TTFT.Mean*1e3 + besideShared) / times
		got.token += r.PerToken * 1e3 / times
	}
	return got, nil
}

// play plays a probe.
func (p *probe) play() (got latencies, err error) {
	const tokens, answer = 8126, 60
	rng := rand.New(rand.NewPCG(1, 2))
	script := func() traffic.Script {
		return traffic.Script{Turns: []traffic.Turn{{
			Parent: -1, Add: []loadgen.Message{traffic.User(loadgen.Text(rng, tokens))}, Answer: answer,
		}}}
	}
	engines, play := 1, Play{Users: 1}
	first := script()
	for range p.copies {
		play.Scripts = append(play.Scripts, first)
	}
	for range p.beside {
		engines++
		play.Users++
		play.Scripts = append(play.Scripts, script())
	}
	play.Warm = func(script, _ int) bool { return script < p.copies-1 }
	c, err := simulate.OfPolicy("round_robin")
	if err != nil {
		return got, err
	}
	r, err := simulate.Run(play.New(), simulate.Alike(engines, shared), c, 1, nil)
	if err != nil {
		return got, err
	}
	return latencies{r.TTFT.Mean*1e3 + besideShared, r.PerToken * 1e3}, nil
}
