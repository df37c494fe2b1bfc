package calibrate

import (
	"cmp"
	"slices"

	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/enginesim"
)

// served is an answer as its server has made it. Times are in ms since any moment.
type served struct {
	sent, first, end float64 // first is when its prompt was done: of an answer that is no stream, its end
	computed         float64 // tokens of the prompt that were not cached
	tokens           float64 // of the answer
	whole            bool    // it is a stream that has shown its usage
}

// timeline is what one server has done, by the log, in the order in which it was sent.
type timeline []served

// add adds a line of the log about the server.
func (t *timeline) add(r *accesslog.Request) {
	ms := func(at int64) float64 { return float64(at) / 1e6 }
	s := served{
		sent: ms(r.SentAt().UnixNano()), end: ms(r.Start.Add(r.Duration).UnixNano()),
		computed: float64(max(0, r.Prompt-r.Cached)), tokens: float64(r.Output),
	}
	s.first = s.end
	if r.Prefill > 0 {
		s.first = min(s.end, s.sent+float64(r.Prefill)/1e6)
	}
	s.whole = r.Served() && s.first > s.sent && s.end > s.first && r.Output > 1
	if s.end > s.sent {
		*t = append(*t, s)
	}
}

func (t timeline) sort() {
	slices.SortFunc(t, func(a, b served) int { return cmp.Compare(a.sent, b.sent) })
}

// most is how many answers before one, and behind it, are looked at.
const most = 4096

// beside calls f for all answers that were under way within a time of that with the number, itself left out.
func (t timeline) beside(i int, f func(o *served)) {
	for k := i - 1; k >= max(0, i-most); k-- {
		if t[k].end > t[i].sent {
			f(&t[k])
		}
	}
	for k := i + 1; k < min(len(t), i+most) && t[k].sent < t[i].end; k++ {
		f(&t[k])
	}
}

// overlap returns how long two periods have in common.
func overlap(a, b, c, d float64) float64 { return max(0, min(b, d)-max(a, c)) }

// rows returns what the times of an answer are made up of: until its first output, and from then on.
func (t timeline) rows(i int) (first, rest row) {
	s := &t[i]
	untilFirst, afterFirst := s.first-s.sent, s.end-s.first
	first.observed, rest.observed = untilFirst, afterFirst
	begun, computed, besideFirst, besideRest := 1.0, s.computed, 0.0, afterFirst
	t.beside(i, func(o *served) {
		besideFirst += overlap(s.sent, s.first, o.first, o.end)
		besideRest += overlap(s.first, s.end, o.first, o.end)
		if prefill := o.first - o.sent; prefill > 0 {
			share := overlap(s.first, s.end, o.sent, o.first) / prefill
			rest.times[promptMS] += share
			rest.times[tokenMS] += share * o.computed
			if o.sent < s.sent { // first come, first served
				share = overlap(s.sent, s.first, o.sent, o.first) / prefill
				begun += share
				computed += share * o.computed
			}
		}
	})
	decodes := besideFirst / untilFirst
	beside := min(1, decodes)
	// It comes in the middle of a step, and the prompts take one step more at least.
	batch := float64(enginesim.DefaultConfig().MaxBatchedTokens)
	steps := 0.5 + max(1, computed/batch)
	first.times = [unknowns]float64{begun, computed, steps * beside, steps * decodes}
	n := s.tokens - 1
	rest.times[stepMS], rest.times[sequenceMS] = n, n*besideRest/afterFirst
	return first, rest
}
