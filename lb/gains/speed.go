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
	// minSpread is by how many tokens the long prompts must be longer than the short ones. With fewer, what else
	// differs between prompts counts for more than their length.
	minSpread = 80
	// maxError is the relative error above which a speed is not shown.
	maxError = 0.25
	// groups is how many parts of the streams are looked at each by itself, for the error.
	groups = 4
)

// Speed learns how many tokens of prompts an engine computes in a second. The time to first output is a constant, the
// tokens over the speed, and what the request has waited for others. The last is never negative, often 0 where few
// others are, and much at times; so of prompts of about the same length those count that were fast, at endpoints that
// had few requests. A client can send what it likes: a tenth of the streams does not move the speed.
//
// Where nearly all of every prompt is cached, streams show little, or nothing. What was learned before is kept then.
type Speed struct {
	ring []Prefill // since kept was last brought up to date
	next int
	best estimate  // the surest one that the streams in the ring have shown
	kept knowledge // from streams before those
	told estimate  // kept and best together: what PerToken returns
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
	if off := s.told.off(); off <= maxError {
		return s.told.rate, off, true
	}
	return 0, 0, false
}

// Learn learns from the streams so far. It is called now and then: it costs about a millisecond.
func (s *Speed) Learn(now time.Duration) {
	// the first streams after a start find empty caches, and show the most: what comes then does not blur it, unless it
	// shows another speed
	fresh := shows(now, s.ring)
	if s.best.none() ||
		!fresh.none() && (fresh.off() <= math.Sqrt2*s.best.off() || fresh.differs(s.best) > contradicts) {
		s.best = fresh
	}
	over := len(s.ring) >= maxPrefills || len(s.ring) > 0 && now-s.ring[0].At > prefillAge
	s.kept.age(now)
	if fresh = s.best.aged(now); !s.kept.none() && !over && fresh.off() > sure {
		fresh = estimate{}
	}
	with := s.kept.with(fresh)
	if s.told = with.estimate; !over { // metrics report it, but there are too few streams to keep it
		return
	}
	if s.best = (estimate{}); s.told.off() <= maxError {
		s.kept, s.ring, s.next = with, s.ring[:0], 0
	}
}

// shows returns what streams show by themselves, nothing if they are too few, or of about the same length.
func shows(now time.Duration, streams []Prefill) estimate {
	all := make([]Prefill, 0, len(streams))
	for _, p := range streams {
		if now-p.At <= prefillAge {
			all = append(all, p)
		}
	}
	quiet := quietest(all)
	if len(all) < minPrefills || spread(quiet) < minSpread {
		return estimate{}
	}
	rate, variance := slope(quiet)
	part, sum := make([]Prefill, 0, len(quiet)/groups+1), 0.0
	for g := range groups {
		part = part[:0]
		for i := g; i < len(quiet); i += groups {
			part = append(part, quiet[i])
		}
		of, _ := slope(part)
		sum += square(of - rate)
	}
	// of the mean of the parts, which is what all of them together are about as good as
	variance = max(variance, sum/(groups-1)/groups)
	return estimate{rate: rate, variance: variance + square(systematic*rate), at: now}
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

// spread returns by how many tokens prompts differ, but for a sixth at each end: more than may lie.
func spread(all []Prefill) float64 {
	if len(all) < groups {
		return 0
	}
	tokens := make([]float64, len(all))
	for i := range all {
		tokens[i] = all[i].Tokens
	}
	order.Up(tokens)
	return tokens[len(tokens)*5/6] - tokens[len(tokens)/6]
}

// bins is how many groups of prompts of about the same length are told apart. One liar in ten fills at most one of
// them, and what by chance there are more do not fill three tenths of the next.
const bins = 8

// point is what prompts of about the same length take that are fast, and the variance of that.
type point struct{ tokens, took, variance float64 }

// slope returns the seconds per token, by Siegel's repeated medians: of the slopes from a bin to the others the median,
// and of those of all bins the median. It sorts the list. Inside of a bin lengths still differ, so a point follows from
// the slope, and the slope from the points, a few times.
func slope(all []Prefill) (rate, variance float64) {
	order.By(all, func(a, b *Prefill) bool { return a.Tokens < b.Tokens })
	n := min(bins, len(all)/2)
	points, rest := make([]point, n), make([]float64, 0, len(all))
	each, medians, gaps := make([]float64, 0, n), make([]float64, 0, n), make([]float64, 0, n)
	for range 4 {
		for b := range points {
			points[b] = pointOf(all[b*len(all)/n:(b+1)*len(all)/n], rate, rest[:0])
		}
		medians, gaps = medians[:0], gaps[:0]
		for _, p := range points {
			each = each[:0]
			for _, q := range points {
				if d := q.tokens - p.tokens; d != 0 {
					each = append(each, (q.took-p.took)/d)
				}
			}
			if len(each) > 0 {
				medians, gaps = append(medians, median(each)), append(gaps, gap(each))
			}
		}
		rate = max(0, median(medians))
	}
	return rate, noise(points) + square(median(gaps))
}

// noise returns the variance of a slope over points of which each is as good as the median of them.
func noise(points []point) float64 {
	each, mean, sum := make([]float64, 0, len(points)), 0.0, 0.0
	for _, p := range points {
		each = append(each, p.variance)
		mean += p.tokens / float64(len(points))
	}
	for _, p := range points {
		sum += square(p.tokens - mean)
	}
	return median(each) / sum
}

// median returns the median of numbers, which it sorts, 0 without any.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	order.Up(of)
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// gap returns by how much the median of sorted numbers moves when liars have a bin or two more on one side of it.
func gap(of []float64) float64 {
	below, above := (len(of)-1)/2-1, len(of)/2+1
	return (of[min(above, len(of)-1)] - of[max(below, 0)]) / 2
}

const (
	// fast is which of the streams of a bin, from the fastest on, counts as not having waited: above a tenth, which may
	// lie.
	fast = 0.3
	// beside is how far from it others are looked at, for how dense streams are there.
	beside = 0.1
)

func pointOf(in []Prefill, rate float64, rest []float64) point {
	tokens := in[len(in)/2].Tokens
	for i := range in {
		rest = append(rest, in[i].Took-rate*(in[i].Tokens-tokens))
	}
	order.Up(rest)
	n := float64(len(rest))
	density := 2 * beside / (rest[int((fast+beside)*n)] - rest[int((fast-beside)*n)])
	return point{tokens, rest[int(fast*n)], fast * (1 - fast) / n / square(density)} // of a quantile, about
}
