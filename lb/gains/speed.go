package gains

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// Prefill is what a stream has shown of how fast its prompt was computed.
type Prefill struct {
	At     time.Duration
	Tokens float64 // of the prompt that were not cached
	Took   float64 // seconds from when it was sent on to the first output
	Load   float64 // requests that the endpoint had then, this one included
}

const (
	// maxPrefills is of how many streams, the latest, a speed is learned.
	maxPrefills = 512
	// minPrefills is how many there must be.
	minPrefills = 96
	// prefillAge is how long one counts.
	prefillAge = time.Hour
	// minSpread is by how many tokens the long prompts must be longer than the short ones.
	minSpread = 128
	// maxError is the relative error above which a speed is not shown.
	maxError = 0.25
	// groups is how many parts of the streams are looked at each by itself, for the error.
	groups = 4
)

// Speed learns how many tokens of prompts an engine computes in a second. The time to first output is a constant, the
// tokens over the speed, and what the request has waited for others. The last is never negative, often 0 where few
// others are, and much at times; so of prompts of about the same length those count that were fast, at endpoints that
// had few requests. A client can send what it likes: a tenth of the streams does not move the speed.
type Speed struct {
	ring []Prefill
	next int
	rate float64 // seconds per token, 0 while that is not known
	off  float64 // relative error
}

// Add takes a stream over.
func (s *Speed) Add(p Prefill) {
	if !(p.Tokens > 0) || !(p.Took > 0) || math.IsInf(p.Tokens+p.Took, 1) {
		return
	}
	if len(s.ring) < maxPrefills {
		s.ring = append(s.ring, p)
		return
	}
	s.ring[s.next] = p
	s.next = (s.next + 1) % maxPrefills
}

// PerToken returns the seconds that a token takes, and their relative error, if that is known.
func (s *Speed) PerToken() (seconds, relativeError float64, known bool) {
	return s.rate, s.off, s.rate > 0
}

// Learn learns from the streams so far. It is called now and then: it costs about a millisecond.
func (s *Speed) Learn(now time.Duration) {
	all := make([]Prefill, 0, len(s.ring))
	for _, p := range s.ring {
		if now-p.At <= prefillAge {
			all = append(all, p)
		}
	}
	quiet := quietest(all)
	s.rate, s.off = 0, 0
	if len(all) < minPrefills || spread(quiet) < minSpread {
		return
	}
	rate := slope(quiet)
	part, sum := make([]Prefill, 0, len(quiet)/groups+1), 0.0
	for g := range groups {
		part = part[:0]
		for i := g; i < len(quiet); i += groups {
			part = append(part, quiet[i])
		}
		d := slope(part)/rate - 1
		sum += d * d
	}
	// of the mean of the parts, which is what all of them together are about as good as
	off := math.Sqrt(sum / (groups - 1) / groups)
	if rate > 0 && off <= maxError {
		s.rate, s.off = rate, off
	}
}

// quietest returns the streams whose endpoints had the fewest requests: of a half of them, and all that had no more.
func quietest(all []Prefill) []Prefill {
	if len(all) == 0 {
		return nil
	}
	loads := make([]float64, len(all))
	for i := range all {
		loads[i] = all[i].Load
	}
	order.Up(loads)
	most, out := loads[len(loads)/2], make([]Prefill, 0, len(all))
	for _, p := range all {
		if p.Load <= most {
			out = append(out, p)
		}
	}
	return out
}

// spread returns by how many tokens prompts differ, but for a tenth at each end.
func spread(all []Prefill) float64 {
	if len(all) < groups {
		return 0
	}
	tokens := make([]float64, len(all))
	for i := range all {
		tokens[i] = all[i].Tokens
	}
	order.Up(tokens)
	return tokens[len(tokens)*9/10] - tokens[len(tokens)/10]
}

// bins is how many groups of prompts of about the same length are told apart. One liar in ten fills at most one or two
// of them, and with fewer than a quarter of all the slope does not go where they want it.
const bins = 10

// point is what prompts of about the same length take that are fast.
type point struct{ tokens, took float64 }

// slope returns the seconds per token, by Siegel's repeated medians: of the slopes from a bin to the others the median,
// and of those of all bins the median. It sorts the list. Inside of a bin lengths still differ, so a point follows from
// the slope, and the slope from the points, a few times.
func slope(all []Prefill) (rate float64) {
	order.By(all, func(a, b *Prefill) bool { return a.Tokens < b.Tokens })
	n := min(bins, len(all)/2)
	points, rest := make([]point, n), make([]float64, 0, len(all))
	each, medians := make([]float64, 0, n), make([]float64, 0, n)
	for range 4 {
		for b := range points {
			points[b] = pointOf(all[b*len(all)/n:(b+1)*len(all)/n], rate, rest[:0])
		}
		medians = medians[:0]
		for _, p := range points {
			each = each[:0]
			for _, q := range points {
				if d := q.tokens - p.tokens; d != 0 {
					each = append(each, (q.took-p.took)/d)
				}
			}
			if len(each) > 0 {
				medians = append(medians, median(each))
			}
		}
		rate = max(0, median(medians))
	}
	return rate
}

// median returns the median of numbers, which it sorts, 0 without any.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	order.Up(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// fast is which of the streams of a bin, from the fastest on, counts as not having waited: above a tenth, which may
// lie.
const fast = 0.3

func pointOf(in []Prefill, rate float64, rest []float64) point {
	tokens := in[len(in)/2].Tokens
	for i := range in {
		rest = append(rest, in[i].Took-rate*(in[i].Tokens-tokens))
	}
	order.Up(rest)
	return point{tokens, rest[int(fast*float64(len(rest)))]}
}
