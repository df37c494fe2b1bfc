package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/overload"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Each contender has so many servers, which run so many requests at once and queue the rest. Together they have the
// slots that the circuit breakers of [overload.PriorityBreakers] know.
const (
	serverCount = 12
	slots       = overload.Slots / serverCount
)

// contenders is how many get the same requests side by side. The last one is Warmgate, the others are its rivals.
const contenders = 3

// span is how long the requests of an act arrive, in a whole demo.
const span = 26 * time.Second

// act is one kind of traffic, and what each contender does with it.
type act struct {
	name     string // of what it shows
	about    string // a sentence
	servers  []vllmsim.Config
	policies [contenders]compare.Policy
	play     func(ctx context.Context, s *compare.Stage, who int) result
	figures  []figure // those of the table
	headline int      // how many of them, from the first on, the summary names
	note     string   // to say with the summary; "" = nothing
}

// result is what one contender did in an act.
type result struct {
	ttft, latency loadgen.Quantiles  // of answers; under overload of those in time, and from the first attempt on
	free          float64            // seconds in which requests queued at a server while another had a free slot
	cached        float64            // share of the prompts' tokens that servers had in their caches
	good          map[string]float64 // share of a class that was answered in time
	goodput       float64            // answered in time, a second
	failed        int
	failures      []string // the first of each kind, in words
}

// resultOf is what has come of samples that a stage measured.
func resultOf(r *compare.Result) result {
	var prompt, cached int
	for i := range r.Samples {
		prompt += r.Samples[i].Usage.Prompt
		cached += r.Samples[i].Usage.Cached
	}
	return result{
		ttft: r.Summary.TTFT, latency: r.Summary.Latency, free: r.Fleet.QueueingWhileFree,
		cached: float64(cached) / float64(max(1, prompt)), failed: r.Summary.Failed(), failures: failures(r.Samples),
	}
}

// server is what the simulated servers have in common.
func server() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = slots, -1
	return c
}

// even returns servers that are alike.
func even(t enginesim.Times) []vllmsim.Config {
	c := server()
	c.Tuning.Times = t
	return slices.Repeat([]vllmsim.Config{c}, serverCount)
}

// speeds of servers of three generations. No policy knows them.
var speeds = []float64{1.6, 1.6, 1.6, 1.6, 1, 1, 1, 1, 0.6, 0.6, 0.6, 0.6}

// chats are heavy-tailed chats on servers of unequal speed.
func chats(load float64, span time.Duration, policies [contenders]compare.Policy) *act {
	c := server()
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 14, 0.8
	a := &act{
		name: "Unequal servers",
		about: "chats of very unequal length; the first four servers are fast, the last four slow, and no policy is " +
			"told",
		servers: compare.Servers(c, speeds...), policies: policies,
		figures: []figure{ttft90, waste, ttft50, ttft99, latency50, latency99}, headline: 2,
	}
	reqs := lab.Must(compare.AtLoad(loadgen.Workload{
		Seed: 7, Stream: true,
		Prompt: loadgen.LogNormal{Median: 120, Sigma: 1, Min: 8, Max: 2000},
		Output: loadgen.LogNormal{Median: 30, Sigma: 1, Min: 2, Max: 200},
	}, a.servers, load, span))
	a.play = func(ctx context.Context, s *compare.Stage, who int) result {
		r := s.Play(ctx, policies[who], reqs, 0)
		return resultOf(&r)
	}
	return a
}

// conversations come back with all that was said before.
func conversations(span time.Duration) *act {
	const turns, question, answer, prompts, prompt, perSecond = 5, 150, 30, 4, 600, 6.5
	a := &act{
		name: "Conversations",
		about: "each turn has all of the conversation before it: whoever finds the server that still has it in its " +
			"KV cache saves most of the prefill",
		servers: even(enginesim.Times{
			Speed: 1, PrefillOverheadMS: 5, PrefillTokenMS: 0.3, DecodeStepMS: 9.5, DecodeSeqMS: 0.5,
		}),
		policies: [contenders]compare.Policy{
			compare.LeastRequest, compare.BoundedRingHash(scripted.SessionHeader),
			named("Warmgate prefix_cache", compare.PrefixCache),
		},
		figures: []figure{ttft90, fromCache, ttft50, ttft99, latency50, latency99}, headline: 2,
	}
	r := rand.New(rand.NewPCG(7, 2))
	texts := make([][]loadgen.Message, prompts)
	for i := range texts {
		texts[i] = []loadgen.Message{traffic.System(loadgen.Text(r, prompt))}
	}
	n := int(perSecond * span.Seconds())
	begin := func(i int) []loadgen.Message { return texts[i%prompts] }
	scripts := traffic.Conversations(r, n, begin, turns, question, answer)
	for i := range scripts {
		scripts[i].Due = time.Duration(float64(i) / perSecond * float64(time.Second))
		for k := 1; k < turns; k++ {
			scripts[i].Turns[k].Think = 300*time.Millisecond + time.Duration(r.Int64N(int64(1200*time.Millisecond)))
		}
	}
	a.play = func(ctx context.Context, s *compare.Stage, who int) result {
		p := scripted.Player{Client: s.Client(), Until: span}
		r := s.Measure(a.policies[who], 0, func() []loadgen.Sample { return p.Play(ctx, scripts, 0) })
		return resultOf(&r)
	}
	return a
}

// tooMany are twice as many requests as the servers can answer.
func tooMany(span time.Duration) *act {
	const load = 2
	warm := span / 8
	list := [contenders]overload.Contender{
		overload.PriorityBreakers(1, overload.Slots), overload.PriorityBreakers(2, overload.Slots/6),
		overload.Pending(),
	}
	a := &act{
		name: "Overload",
		about: "twice as many requests as the servers can answer, of three classes with deadlines; clients that are " +
			"refused try again. Envoy's circuit breakers, with one or two classes in priority HIGH, refuse who comes " +
			"when all slots are taken; Warmgate has the urgent ones wait for the next. TTFT is that of each " +
			"answered try; the table has it from the first try on",
		servers: even(enginesim.DefaultTimes()),
		figures: []figure{inTime("critical"), inTime("interactive"), inTime("batch"), goodput, ttftInTime}, headline: 3,
	}
	for i, name := range [contenders]string{"one class HIGH", "two classes HIGH", "Warmgate queue"} {
		a.policies[i] = named(name, list[i].Policy)
	}
	calls := lab.Must(overload.Calls(7, load, a.servers, span, true))
	a.play = func(ctx context.Context, s *compare.Stage, who int) result {
		r := lab.Must(list[who].Play(ctx, s, warm, span-warm, calls))
		return result{ttft: r.TTFT, good: r.Good, goodput: r.Goodput, failed: r.Failed}
	}
	return a
}

// named is the policy under a name for the screen.
func named(name string, p compare.Policy) compare.Policy {
	p.Name = name
	return p
}

// failures describes the first failure of every kind.
func failures(samples []loadgen.Sample) (out []string) {
	seen := map[string]bool{}
	for i := range samples {
		if s := &samples[i]; s.Error != "" && !seen[s.Error] {
			seen[s.Error] = true
			out = append(out, describe(s))
		}
	}
	return out
}

// title is the act in a line.
func (a *act) title() string { return a.name + ": " + strings.TrimSuffix(a.about, ".") }

// hardware is what the servers are, in words.
func (a *act) hardware() string {
	c, speeds := a.servers[0], map[float64]bool{}
	c.Tuning.Speed = 1
	for i := range a.servers {
		speeds[a.servers[i].Tuning.Speed] = true
	}
	return fmt.Sprintf("%s; speeds %v", compare.Describe(c), slices.Sorted(maps.Keys(speeds)))
}
