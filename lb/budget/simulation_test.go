package budget_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/warmgate/warmgate/lb/budget"
)

// simulation runs tasks at targets in virtual time, as callers do that ask again when they were told to.
type simulation struct {
	random  *rand.Rand
	limits  []budget.Limits
	caps    []int
	speed   []float64 // ms that a task of mean size takes at each target
	workers int
	sizes   []float64 // estimated tokens of the tasks, in the order in which they come
	noise   float64   // deviation of the logarithm of what they use from the estimate
	bonus   float64
	// closeAt: the target of that number is closed by its own word for a minute, from that time on; -1: none
	closed  int
	closeAt float64

	now      float64
	targets  []budget.Target
	refusals budget.Refusals
	inFlight []int
	last     int
	next     int // task to be begun
	events   events
	charges  [][]charge // of each target, in the order of time
	waits    []float64  // of each task
	ended    float64    // when the last task that was waited for was placed
	over     int        // cases of more in flight than a cap
}

// charge is a request that was placed.
type charge struct{ at, tokens, actual float64 }

// event is what happens at a time: a worker asks for its task, or a task ends at a target.
type event struct {
	at     float64
	task   int
	since  float64
	ends   int // target, -1: none
	actual float64
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// logNormal returns n sizes with the median, whose logarithms have the deviation.
func logNormal(random *rand.Rand, n int, median, deviation float64) []float64 {
	sizes := make([]float64, n)
	for i := range sizes {
		sizes[i] = max(1, math.Round(median*math.Exp(deviation*random.NormFloat64())))
	}
	return sizes
}

// run runs the simulation until all tasks were placed.
func (s *simulation) run() {
	s.targets = make([]budget.Target, len(s.limits))
	for i := range s.targets {
		s.targets[i].Limits = s.limits[i]
	}
	s.inFlight, s.charges = make([]int, len(s.limits)), make([][]charge, len(s.limits))
	s.waits, s.last, s.now = make([]float64, len(s.sizes)), -1, 1
	for range s.workers {
		s.begin()
	}
	isClosed := s.closed < 0
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = max(s.now, e.at)
		if !isClosed && s.now >= s.closeAt {
			isClosed = true
			s.targets[s.closed].Restrict(s.closeAt, &budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: 6e10})
		}
		if e.ends >= 0 {
			s.inFlight[e.ends]--
			s.targets[e.ends].Settle(s.now, e.actual-s.sizes[e.task])
			s.begin()
			continue
		}
		s.ask(e)
	}
}

// begin has a worker ask for the next task.
func (s *simulation) begin() {
	if s.next < len(s.sizes) {
		heap.Push(&s.events, event{at: s.now, since: s.now, task: s.next, ends: -1})
		s.next++
	}
}

// ask schedules a task, or has its worker ask again.
func (s *simulation) ask(e event) {
	tokens, key := s.sizes[e.task], uint64(e.task+1)
	s.refusals = s.refusals.Expire(s.now)
	before := s.refusals.Find(key)
	for i := range s.targets {
		t := &s.targets[i]
		t.Apply(s.now, s.limits[i])
		t.Full = s.inFlight[i] >= s.caps[i]
		t.Aside, t.Ahead = s.refusals.Aside(s.now, before, i, t.TokenRate, s.bonus)
	}
	i := budget.Choose(s.targets, s.last, tokens)
	if i == budget.None {
		at := budget.Earliest(s.targets, tokens)
		wait := max(50, s.targets[at].Until(tokens)*(0.9+0.2*s.random.Float64()))
		wait = math.Ceil((s.now+wait)/100)*100 - s.now
		if s.bonus > 0 {
			s.refusals = s.refusals.Remember(&budget.Refusal{
				Key: key, Since: s.now, Expires: s.now + wait + 1000, Tokens: tokens, Row: at,
			})
		}
		e.at = s.now + wait
		heap.Push(&s.events, e)
		return
	}
	budget.Charge(s.targets, i, s.now, tokens)
	s.refusals = s.refusals.Forget(key)
	s.last, s.ended = i, s.now
	if s.inFlight[i]++; s.inFlight[i] > s.caps[i] {
		s.over++
	}
	s.waits[e.task] = s.now - e.since
	took := s.speed[i] * (0.5 + 0.5*tokens/mean(s.sizes))
	actual := tokens * math.Exp(s.noise*s.random.NormFloat64())
	s.charges[i] = append(s.charges[i], charge{s.now, tokens, actual})
	heap.Push(&s.events, event{at: s.now + took, task: e.task, ends: i, actual: actual})
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// shareError returns by which part the share of a target of the tokens placed in a span differs most from its weight,
// among those that are not left out.
func (s *simulation) shareError(from, to float64, without ...int) (worst float64) {
	got, all, weights := make([]float64, len(s.limits)), 0.0, 0.0
	for i := range s.limits {
		if slices.Contains(without, i) {
			continue
		}
		weights += s.limits[i].Weight
		for _, c := range s.charges[i] {
			if c.at >= from && c.at < to {
				got[i] += c.actual
				all += c.actual
			}
		}
	}
	for i := range s.limits {
		if !slices.Contains(without, i) {
			worst = max(worst, math.Abs(got[i]/all/(s.limits[i].Weight/weights)-1))
		}
	}
	return worst
}

// charged returns how many requests the target was given in a span.
func (s *simulation) charged(target int, from, to float64) (n int) {
	for _, c := range s.charges[target] {
		if c.at >= from && c.at < to {
			n++
		}
	}
	return n
}

// excess returns by how many tokens a target was given more than its rate and burst in any minute, at most.
func (s *simulation) excess() (most float64) {
	for i, charges := range s.charges {
		sum, first := 0.0, 0
		for _, c := range charges {
			sum += c.actual
			for c.at-charges[first].at >= 60_000 {
				sum -= charges[first].actual
				first++
			}
			most = max(most, sum-2*s.limits[i].Tokens)
		}
	}
	return most
}

// waitOf returns the 99th percentile of the waits of the tasks whose sizes are between two quantiles.
func (s *simulation) waitOf(from, to float64) float64 {
	sorted := slices.Sorted(slices.Values(s.sizes))
	least, most := sorted[int(from*float64(len(sorted)))], sorted[int(math.Ceil(to*float64(len(sorted))))-1]
	var waits []float64
	for i, size := range s.sizes {
		if size >= least && size <= most {
			waits = append(waits, s.waits[i])
		}
	}
	slices.Sort(waits)
	return waits[int(math.Ceil(0.99*float64(len(waits))))-1]
}
