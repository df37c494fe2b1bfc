package overload

import (
	"net/http"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const aboutLimit = "not a gateway but what is left to win: a schedule in simulated time, on the same model of the " +
	"servers, that holds every call until a slot is free, takes no time to decide, and does not begin what it " +
	"expects to end after the deadline. A higher class goes first. "

// margins are what a schedule multiplies the time with that it expects an answer to take in a full batch, to tell
// whether it would end too late. The prefills of others delay it, and without lengths it may be longer than expected.
var margins = []float64{0.5, 1, 1.1, 1.2, 1.3, 1.6, 2, 2.7}

// foreseen plays the calls in simulated time, with the lengths of all answers known, or with the mean alone. It returns
// the best of the schedules with each of the margins: that with the fewest calls of the critical class lost, and of
// these that with the most answers in time. It is a very good schedule, no upper bound.
func foreseen(calls []Call, lengths bool) []outcome {
	var best []outcome
	least, most := 0, 0
	for _, margin := range margins {
		s := schedule{calls: calls, margin: margin, out: make([]outcome, len(calls))}
		var mean time.Duration
		for i := range calls {
			s.takes = append(s.takes, calls[i].takes())
			mean += s.takes[i] / time.Duration(len(calls))
		}
		for i := range s.takes {
			if !lengths {
				s.takes[i] = mean
			}
		}
		s.play()
		lost, good := 0, 0
		for i := range s.out {
			switch o := &s.out[i]; {
			case o.good:
				good++
			case o.class.name == critical:
				lost++
			}
		}
		if best == nil || lost < least || lost == least && good > most {
			best, least, most = s.out, lost, good
		}
	}
	return best
}

// schedule is a run in simulated time.
type schedule struct {
	calls  []Call
	takes  []time.Duration // expected
	margin float64

	engines  []*enginesim.Engine
	inflight []int           // by engine
	until    []time.Duration // the end of its step; 0 = it is idle
	waiting  []int           // indices of calls, as they came
	out      []outcome
}

// play plays all calls.
func (s *schedule) play() {
	for _, c := range fleet() {
		s.engines = append(s.engines, enginesim.New(c.Config, c.Tuning.Times))
	}
	s.inflight, s.until = make([]int, len(s.engines)), make([]time.Duration, len(s.engines))
	for next := 0; next < len(s.calls) || slices.Max(s.inflight) > 0; {
		first := -1 // the engine whose step ends first
		for i, end := range s.until {
			if end > 0 && (first < 0 || end < s.until[first]) {
				first = i
			}
		}
		now := time.Duration(0)
		if first < 0 || next < len(s.calls) && s.calls[next].Due < s.until[first] {
			now = s.calls[next].Due
			s.out[next] = outcome{
				class: s.calls[next].class, due: now, end: now,
				attempts: []loadgen.Sample{{Status: http.StatusTooManyRequests, Error: "status_429"}},
			}
			s.waiting = append(s.waiting, next)
			next++
		} else {
			now = s.until[first]
			for _, r := range s.engines[first].Finish(now) {
				if r.Done() {
					s.end(now, first, r.Owner.(int))
				}
			}
			s.until[first] = 0
		}
		s.hand(now)
		for i := range s.engines {
			if took := time.Duration(0); s.until[i] == 0 && s.inflight[i] > 0 {
				took = s.engines[i].Begin(now)
				s.until[i] = now + took
			}
		}
	}
}

// end has a call answered.
func (s *schedule) end(now time.Duration, engine, i int) {
	s.inflight[engine]--
	o := &s.out[i]
	o.end, o.good = now, now <= o.due+o.class.deadline
	o.attempts[0] = loadgen.Sample{Status: http.StatusOK, Due: o.due, Total: now - o.due}
}

// hand gives waiting calls to the engines with most slots free. Those that would end too late are given up.
func (s *schedule) hand(now time.Duration) {
	for {
		engine := 0
		for i, n := range s.inflight {
			if n < s.inflight[engine] {
				engine = i
			}
		}
		if s.inflight[engine] >= slots {
			return
		}
		begins, best := max(now, s.until[engine]), -1
		kept := s.waiting[:0]
		for _, i := range s.waiting {
			c := &s.calls[i]
			if begins+time.Duration(s.margin*float64(s.takes[i])) > c.Due+c.class.deadline {
				continue
			}
			if best < 0 || s.before(i, s.waiting[best]) {
				best = len(kept)
			}
			kept = append(kept, i)
		}
		if s.waiting = kept; best < 0 {
			return
		}
		i := s.waiting[best]
		s.waiting = append(s.waiting[:best], s.waiting[best+1:]...)
		s.give(now, engine, i)
	}
}

// before reports whether a call goes before one that came earlier: in a class the shortest, as far as that is known.
func (s *schedule) before(a, b int) bool {
	if x, y := rank(s.calls[a].class), rank(s.calls[b].class); x != y {
		return x < y
	}
	return s.takes[a] < s.takes[b]
}

func (s *schedule) give(now time.Duration, engine, i int) {
	c := &s.calls[i]
	prompt, err := vllmsim.PromptOf(c.Body)
	if err != nil {
		panic(err) // it is one of ours
	}
	s.inflight[engine]++
	r := &enginesim.Request{Prompt: prompt, Tokens: c.MaxTokens, Owner: i}
	if err := s.engines[engine].Add(r, now); err != nil {
		panic(err) // its queue has no limit
	}
}

// takes returns how long the answer takes in a full batch.
func (c *Call) takes() time.Duration {
	step := tuning.DecodeStepMS + tuning.DecodeSeqMS*slots
	ms := tuning.PrefillOverheadMS + tuning.PrefillTokenMS*float64(c.Prompt) + step*float64(c.MaxTokens)
	return time.Duration(ms * float64(time.Millisecond))
}
