package attacks

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
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

// counts returns how many of the requests each of n servers answered.
func counts(samples []loadgen.Sample, n int) []int {
	out := make([]int, n)
	for i := range samples {
		if id := compare.Server(&samples[i], n); id >= 0 {
			out[id]++
		}
	}
	return out
}

// shares are counts as parts of their sum, all 0 if that is 0.
func shares(counts []int) []float64 {
	sum := 0
	for _, k := range counts {
		sum += k
	}
	out := make([]float64, len(counts))
	for i, k := range counts {
		out[i] = float64(k) / float64(max(1, sum))
	}
	return out
}

// apart is the total variation distance of two distributions: the share of one that has to move to make it the other.
func apart(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / 2
}

// avoided returns the share of the requests that went elsewhere because of the attacker: those that would have gone to
// a server that had a request of the attacker when they were sent, had they the usual shares, less those that did.
// Unlike a distribution over the whole run, it also detects an attacker that moves from server to server. It is
// negative if more requests went there.
func avoided(samples []loadgen.Sample, held []interval, usual []float64) float64 {
	var expected, seen float64
	total := 0
	for i := range samples {
		id := compare.Server(&samples[i], len(usual))
		if id < 0 {
			continue
		}
		total++
		for server, attacked := range attackedAt(held, samples[i].Sent, len(usual)) {
			if attacked {
				expected += usual[server]
				if server == id {
					seen++
				}
			}
		}
	}
	return (expected - seen) / float64(max(1, total))
}

// attackedAt returns which of n servers have a request of the attacker at that time.
func attackedAt(held []interval, at time.Duration, n int) []bool {
	out := make([]bool, n)
	for _, h := range held {
		if h.from <= at && at < h.to {
			out[h.server] = true
		}
	}
	return out
}

// displacement is how many honest requests an attacker has moved.
type displacement struct {
	apart, apartNull     float64 // total variation distance to a run without attacker, and that of two of these
	avoided, avoidedNull float64 // what stays away from the attacker, and the same with requests of such runs
	share                float64 // the attacker's, of all requests
}

// moved is the larger of both measures, each less what runs without attacker show.
func (d displacement) moved() float64 {
	return max(0, d.apart-d.apartNull, d.avoided-d.avoidedNull)
}

// perShare is moved over the attacker's share.
func (d displacement) perShare() float64 { return d.moved() / d.share }

// null is how far off from 0 the measure is where nothing was moved, over the attacker's share.
func (d displacement) null() float64 { return max(d.apartNull, math.Abs(d.avoidedNull)) / d.share }

// displaced compares a run with two that had no attacker, on n servers.
func displaced(with, first, second []loadgen.Sample, held []interval, n int, share float64) displacement {
	a, b, c := counts(with, n), counts(first, n), counts(second, n)
	both := make([]int, n)
	for i := range both {
		both[i] = b[i] + c[i]
	}
	usual := shares(both)
	return displacement{
		apart:       (apart(shares(a), shares(b)) + apart(shares(a), shares(c))) / 2,
		apartNull:   apart(shares(b), shares(c)),
		avoided:     avoided(with, held, usual),
		avoidedNull: (avoided(first, held, usual) + avoided(second, held, usual)) / 2,
		share:       share,
	}
}

// matched is the share of the prompts that the gateway expected to be cached where it sent them, by their length, 0 if
// no answer has the header.
func matched(samples []loadgen.Sample, lengths []int) float64 {
	var found, all float64
	for i := range samples {
		match, err := strconv.ParseFloat(samples[i].Header.Get(compare.MatchHeader), 64)
		if err != nil {
			continue
		}
		length := float64(lengths[samples[i].ID])
		found += match * length
		all += length
	}
	if all == 0 {
		return 0
	}
	return found / all
}
