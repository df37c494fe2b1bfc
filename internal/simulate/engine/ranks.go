package engine

import "time"

// Ranks are engines whose steps begin and end together, as those of a server with data parallelism whose experts are
// spread over all of them: each step takes as long as that of the slowest rank, and a rank without work goes along.
type Ranks struct {
	list        []*Engine
	first, done []*Request // see Finish
}

// Together has engines be the ranks of a server. None of them may have a request yet.
func Together(list []*Engine) {
	r := &Ranks{list: list}
	for _, e := range list {
		e.ranks = r
	}
}

// GoesWith reports whether the steps of two engines are the same.
func (e *Engine) GoesWith(o *Engine) bool { return e == o || e.ranks != nil && e.ranks == o.ranks }

// begin begins a step of all ranks, or as many as are alike in each of them.
func (r *Ranks) begin(now time.Duration) {
	step, steps := time.Duration(0), 0
	for _, e := range r.list {
		if e.beginOwn(now); e.steps == 0 {
			continue
		}
		if step = max(step, e.step); steps == 0 || e.steps < steps {
			steps = e.steps
		}
	}
	for _, e := range r.list {
		if e.steps > 0 {
			e.step, e.steps = step, steps
		}
	}
}

// ends is when the steps under way end, 0 for none.
func (r *Ranks) ends() (at time.Duration) {
	for _, e := range r.list {
		at = max(at, e.ownEnds())
	}
	return at
}

// finish ends the steps under way.
func (r *Ranks) finish() (first, done []*Request) {
	r.first, r.done = r.first[:0], r.done[:0]
	for _, e := range r.list {
		f, d := e.endOwn()
		r.first, r.done = append(r.first, f...), append(r.done, d...)
	}
	return r.first, r.done
}
