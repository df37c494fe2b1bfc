package engine

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// alone plays requests that all come at once, one to each engine, and returns when the first of them has its first
// token, and its last.
func alone(t *testing.T, engines []*Engine, prompt, answer int) (first, last time.Duration) {
	t.Helper()
	for i, e := range engines {
		r := &Request{Prompt: []Part{{Name: uint64(i) + 1, Tokens: prompt}}, Answer: answer}
		if err := e.Add(r, 0); err != nil {
			t.Fatal(err)
		}
		e.Begin(0)
	}
	for last == 0 {
		next := -1
		for i, e := range engines {
			if e.Ends() > 0 && (next < 0 || e.Ends() < engines[next].Ends()) {
				next = i
			}
		}
		e := engines[next]
		now := e.Ends()
		got, done := e.Finish()
		if next == 0 && len(got) > 0 {
			first = now
		}
		if next == 0 && len(done) > 0 {
			last = now
		}
		e.Begin(now)
	}
	return first, last
}

// TestProcessor holds that engines on one processor take as much longer as they are said to, those on others do not,
// and neither does one whose neighbours are idle.
func TestProcessor(t *testing.T) {
	times := enginesim.Times{Speed: 1, PrefillTokenMS: 0.1, DecodeStepMS: 4}
	engines := func(n, shared int) (all []*Engine) {
		p := NewProcessor(Interference{Prefill: 0.2, Decode: 0.5})
		for i := range n {
			e := New(enginesim.Config{MaxQueued: -1}, times)
			if i < shared {
				e.RunOn(p)
			}
			all = append(all, e)
		}
		return all
	}
	const prompt, answer = 1000, 21
	for _, tc := range []struct {
		name            string
		engines         []*Engine
		prefill, decode float64 // ms, of the prompt and of a token
	}{
		{"alone", engines(1, 1), 100, 4},
		{"neighbours on other processors", engines(3, 1), 100, 4},
		// the first step of the first begins when the others are idle
		{"a neighbour", engines(2, 2), 100, 6},
		{"two neighbours", engines(3, 3), 100, 8},
	} {
		first, last := alone(t, tc.engines, prompt, answer)
		decode := (last - first).Seconds() * 1e3 / (answer - 1)
		if first.Seconds()*1e3 != tc.prefill || math.Abs(decode-tc.decode) > 0.3 {
			t.Errorf("%s: first token after %v, want %g ms; %.2f ms a token, want %g", tc.name, first, tc.prefill,
				decode, tc.decode)
		}
	}
	last := engines(2, 2)
	if err := last[0].Add(&Request{Prompt: []Part{{Name: 9, Tokens: prompt}}, Answer: 1}, 0); err != nil {
		t.Fatal(err)
	}
	last[0].Begin(0)
	if first, _ := alone(t, last[1:], prompt, 1); first != 120*time.Millisecond {
		t.Errorf("a prompt beside another took %v", first)
	}
}

// TestApart holds that requests of an engine that keeps them apart take as long as each would alone.
func TestApart(t *testing.T) {
	times := enginesim.Times{Speed: 1, PrefillTokenMS: 7, DecodeStepMS: 9, DecodeSeqMS: 1}
	for _, n := range []int{1, 2, 5} {
		e := New(enginesim.Config{MaxQueued: -1, MaxBatchedTokens: 100}, times)
		e.Apart()
		for i := range n {
			r := &Request{Prompt: []Part{{Name: uint64(i) + 1, Tokens: 950}}, Answer: 11}
			if err := e.Add(r, 0); err != nil {
				t.Fatal(err)
			}
		}
		var first, last time.Duration
		now := time.Duration(0)
		for e.Begin(0); e.Ends() > 0; e.Begin(now) {
			now = e.Ends()
			got, done := e.Finish()
			if len(got) == n {
				first = now
			}
			if len(done) == n {
				last = now
			}
		}
		if first != 100*time.Millisecond || last != 200*time.Millisecond {
			t.Errorf("%d at once: first tokens after %v, last ones after %v", n, first, last)
		}
	}
}

// TestSetSpeed holds that another speed counts from the next step on, also if many steps alike were under way.
func TestSetSpeed(t *testing.T) {
	e := New(enginesim.Config{MaxQueued: -1}, enginesim.Times{Speed: 1, PrefillTokenMS: 0.1, DecodeStepMS: 10})
	if err := e.Add(&Request{Prompt: []Part{{Name: 1, Tokens: 1000}}, Answer: 101}, 0); err != nil {
		t.Fatal(err)
	}
	e.Begin(0)
	now := e.Ends()
	e.Finish()
	e.Begin(now)
	if ends := e.Ends(); ends != 1100*time.Millisecond {
		t.Fatalf("it would end after %v", ends)
	}
	e.SetSpeed(595*time.Millisecond, 0.5) // in the 50th step
	var last time.Duration
	for e.Ends() > 0 {
		last = e.Ends()
		e.Finish()
		e.Begin(last)
	}
	if want := 600*time.Millisecond + 50*20*time.Millisecond; last != want || e.Times().Speed != 0.5 {
		t.Errorf("it has ended after %v, want %v", last, want)
	}
}

// TestWork holds what an engine says of what it has before it.
func TestWork(t *testing.T) {
	e := New(enginesim.Config{MaxQueued: -1, MaxNumSeqs: 2, MaxBatchedTokens: 600}, enginesim.Times{})
	add := func(name uint64, tokens, answer int) {
		if err := e.Add(&Request{Prompt: []Part{{Name: name, Tokens: tokens}}, Answer: answer}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if e.Work() != (Work{}) {
		t.Errorf("idle: %+v", e.Work())
	}
	add(1, 400, 10)
	add(2, 500, 20)
	add(3, 300, 30) // waits for a slot
	e.Begin(0)
	if want := (Work{Prefill: 1200, Left: 60}); e.Work() != want {
		t.Errorf("at the beginning %+v, want %+v", e.Work(), want)
	}
	e.Begin(e.finished())
	if want := (Work{Prefill: 600, Decodes: 1, Left: 59}); e.Work() != want {
		t.Errorf("after a step %+v, want %+v", e.Work(), want)
	}
	add(1, 400, 5) // waits, but its prompt is cached
	if want := (Work{Prefill: 600, Decodes: 1, Left: 64}); e.Work() != want {
		t.Errorf("with a prompt that is cached %+v, want %+v", e.Work(), want)
	}
}

// finished ends the steps under way, and returns when that is.
func (e *Engine) finished() time.Duration {
	now := e.Ends()
	e.Finish()
	return now
}
