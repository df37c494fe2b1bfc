package attacks

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// learnt is how long after the beginning a server that answers 404 at once must have been found out.
const learnt = 10 * time.Second

// result is what an attack did in one round, against two runs without it.
type result struct {
	displacement
	maxShare, maxShareNull float64 // of honest requests, at the server that has most
	ejected, native        float64 // endpoints: by the plugin, by Envoy
	ejectedNull            float64 // by the plugin, in the runs without attack
	passed, passedNull     float64 // requests above the cap
	fast, fastNull         float64 // share of the server that answers at once, after learnt, and of the same without
	lost, lostNull         float64 // of the matched share; between the two runs without attack
	p99, p99Null           float64 // ratio of p99 latency; of the two runs without attack
	failed, failedNull     float64 // share of honest requests
	script, scriptNull     float64 // longest script, ms
	slow, slowNull         float64 // scripts above scriptLimit
}

// resultOf compares an arm with the controls of its scenario.
func resultOf(a, first, second *arm, s settings) result {
	n, server := a.scenario.servers, a.round%a.scenario.servers
	with, one, two := a.measured(s.warm), first.measured(s.warm), second.measured(s.warm)
	both := slices.Concat(one, two)
	r := result{
		maxShare: slices.Max(shares(counts(with, n))), maxShareNull: slices.Max(shares(counts(both, n))),
		ejected: a.ejected, native: a.native, ejectedNull: first.ejected + second.ejected,
		passed: float64(a.passed), passedNull: float64(max(first.passed, second.passed)),
		fast: shareAfter(with, n, server, learnt), fastNull: shareAfter(both, n, server, learnt),
		p99:     ratio(p99(with), p99(both)),
		p99Null: ratio(p99(one), p99(two)),
		failed:  failedShare(with), failedNull: failedShare(both),
		script: bench.MS(a.slowest), scriptNull: bench.MS(max(first.slowest, second.slowest)),
		slow: float64(a.slow), slowNull: float64(max(first.slow, second.slow)),
	}
	if a.attack.share > 0 {
		r.displacement = displaced(with, one, two, a.held, n, a.attack.share)
	}
	lengths := make([]int, len(a.traffic))
	for i := range a.traffic {
		lengths[a.traffic[i].ID] = len(a.traffic[i].Body)
	}
	without := [2]float64{matched(one, lengths), matched(two, lengths)}
	r.lost, r.lostNull = (without[0]+without[1])/2-matched(with, lengths), without[0]-without[1]
	return r
}

// measured returns the samples of what was due after warming up.
func (a *arm) measured(warm time.Duration) []loadgen.Sample { return dueFrom(a.samples, warm) }

func dueFrom(samples []loadgen.Sample, from time.Duration) []loadgen.Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(x loadgen.Sample) bool { return x.Due < from })
}

// shareAfter is the share that one of n servers has of what was due at the given time or later and that a server
// answered.
func shareAfter(samples []loadgen.Sample, n, server int, from time.Duration) float64 {
	return shares(counts(dueFrom(samples, from), n))[server]
}

// p99 is the 99th percentile of the time to the first token of complete answers; of those that are not streamed, of the
// whole.
func p99(samples []loadgen.Sample) float64 {
	var took []time.Duration
	for i := range samples {
		if samples[i].OK() {
			took = append(took, samples[i].TTFT)
		}
	}
	return bench.MS(loadgen.QuantilesOf(took).P99)
}

// failedShare is the share of honest requests without a complete answer.
func failedShare(samples []loadgen.Sample) float64 {
	failed := 0
	for i := range samples {
		if !samples[i].OK() {
			failed++
		}
	}
	return ratio(float64(failed), float64(len(samples)))
}

// ratio is a/b, 0 if there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
