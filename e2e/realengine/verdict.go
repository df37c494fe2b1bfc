package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// Tolerances: how far the simulated value may be from the real one.
const (
	// timeFactor bounds single times. The simulation's times were fitted to other requests, its prefill is linear where
	// attention is quadratic, and the real engine shares two cores with everything else.
	timeFactor = 2.
	// busyFactor takes its place where two real engines work at once: they, Envoy and the client share two cores, while
	// the simulated ones do not slow each other down.
	busyFactor = 3.
	// warmFactor bounds times of a few milliseconds, in which one late wake-up counts as much as the work.
	warmFactor = 3.
	// shareSlack bounds shares of a prompt: vLLM and the simulation cache whole blocks (16 of 2,000 tokens), llama.cpp
	// single tokens.
	shareSlack = .02
	// minSpeedup is the least a cached prompt gains, in both.
	minSpeedup = 5.
)

// check is one line of the comparison.
type check struct {
	what      string
	real, sim string
	rule      string
	ok        bool
}

// verdict compares what the real and the simulated servers did.
func verdict(real, sim report) []check {
	var list []check
	for _, size := range promptSizes {
		list = append(list,
			within(fmt.Sprintf("first token, %d tokens cold, ms", size), real.cold[size], sim.cold[size], timeFactor),
			within(fmt.Sprintf("first token, %d tokens cached, ms", size), real.warm[size], sim.warm[size], warmFactor))
	}
	longest, busy := promptSizes[len(promptSizes)-1], timeFactor
	if len(real.queue.running) > 1 {
		busy = busyFactor
	}
	list = append(list,
		speedup(longest, real, sim),
		within("first token, half cached, ms", real.half, sim.half, timeFactor),
		near("cached share, repeated prompt", real.cachedWarm, sim.cachedWarm),
		near("cached share, half repeated", real.cachedHalf, sim.cachedHalf),
		within("between tokens, alone, ms", real.decodeAlone, sim.decodeAlone, timeFactor),
		within("between tokens, all slots busy, ms", real.decodeFull, sim.decodeFull, busy),
	)
	return append(append(list, queueChecks(real.queue, sim.queue, busy)...), counterChecks(real, sim)...)
}

func queueChecks(real, sim queueReport, factor float64) []check {
	list := []check{
		same(fmt.Sprintf("%d at once: most running, per server", burst), real.running, sim.running),
		same(fmt.Sprintf("%d at once: most waiting, per server", burst), real.waiting, sim.waiting),
		within("… first token of the first slots, ms", real.firstMS, sim.firstMS, factor),
		within("… first token of the last slots, ms", real.lastMS, sim.lastMS, factor),
		within("… all answered after, ms", real.totalMS, sim.totalMS, factor),
	}
	if len(real.running) > 1 {
		list = append(list, same("… requests per endpoint", shares(real.perEndpoint), shares(sim.perEndpoint)))
	}
	return list
}

// counterChecks compares the servers' counters with what their clients saw.
func counterChecks(real, sim report) []check {
	count := func(what string, of func(counters) float64) check {
		rc, rs, sc, ss := of(real.clients), of(real.counted), of(sim.clients), of(sim.counted)
		return check{
			what: what,
			real: fmt.Sprintf("%.0f / %.0f", rs, rc),
			sim:  fmt.Sprintf("%.0f / %.0f", ss, sc),
			rule: "server = clients",
			ok:   rc == rs && sc == ss,
		}
	}
	return []check{
		count("prompt tokens computed, server / clients", func(c counters) float64 { return c.computed }),
		count("prompt tokens cached", func(c counters) float64 { return c.cached }),
		count("tokens generated", func(c counters) float64 { return c.generated }),
		count("running when all is done", func(c counters) float64 { return c.running }),
		count("waiting when all is done", func(c counters) float64 { return c.waiting }),
	}
}

// within checks that two times differ by at most a factor.
func within(what string, real, sim, factor float64) check {
	return check{
		what: what, real: fmt.Sprintf("%.1f", real), sim: fmt.Sprintf("%.1f", sim),
		rule: fmt.Sprintf("× %.2f, at most × or ÷ %g", sim/real, factor),
		ok:   real > 0 && sim > 0 && math.Abs(math.Log(sim/real)) <= math.Log(factor),
	}
}

func near(what string, real, sim float64) check {
	return check{
		what: what, real: fmt.Sprintf("%.3f", real), sim: fmt.Sprintf("%.3f", sim),
		rule: fmt.Sprintf("± %g", shareSlack),
		ok:   math.Abs(real-sim) <= shareSlack,
	}
}

func same(what string, real, sim []int) check {
	return check{what: what, real: fmt.Sprint(real), sim: fmt.Sprint(sim), rule: "equal", ok: slices.Equal(real, sim)}
}

func speedup(size int, real, sim report) check {
	r, s := real.cold[size]/real.warm[size], sim.cold[size]/sim.warm[size]
	return check{
		what: fmt.Sprintf("cold / cached, %d tokens", size), real: fmt.Sprintf("%.1f", r), sim: fmt.Sprintf("%.1f", s),
		rule: fmt.Sprintf("both at least %g", minSpeedup),
		ok:   r >= minSpeedup && s >= minSpeedup,
	}
}

// shares returns the counts in ascending order: which server has which name differs between the kinds.
func shares(byEndpoint map[string]int) []int {
	var n []int
	for _, c := range byEndpoint {
		n = append(n, c)
	}
	slices.Sort(n)
	return n
}

// printVerdict writes the comparison as a table and reports whether every line holds.
func printVerdict(w io.Writer, title string, real, sim report) bool {
	t := &bench.Table{Head: []string{title, "real", "simulated", "simulated to real", ""}}
	alike := true
	for _, c := range verdict(real, sim) {
		t.Add(c.what, c.real, c.sim, c.rule, markOf(c.ok, "UNLIKE"))
		alike = alike && c.ok
	}
	show(w, t)
	return alike
}
