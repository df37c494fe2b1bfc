package attacks

import (
	"math"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

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
