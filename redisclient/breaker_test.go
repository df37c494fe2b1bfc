package redisclient

import (
	"testing"
	"time"
)

// answerEvent is n answers at one time, one if n is 0.
type answerEvent struct {
	at time.Duration
	ok bool
	n  int
}

func TestBreaker(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		events []answerEvent
		open   bool
	}{
		{"nothing", nil, false},
		{"four in a row", []answerEvent{{0, false, 4}}, false},
		{"five in a row", []answerEvent{{0, false, 5}}, true},
		{"five in a row, hours apart", []answerEvent{{0, false, 4}, {3 * time.Hour, false, 1}}, true},
		{"never five in a row", []answerEvent{{0, false, 4}, {0, true, 40}, {0, false, 4}}, false},
		{
			"a fifth of a second's answers",
			[]answerEvent{{0, true, 15}, {0, false, 4}, {0, true, 1}, {0, false, 1}},
			true,
		},
		{"less than a fifth", []answerEvent{{0, true, 17}, {0, false, 4}}, false},
		{"a fifth, but of few", []answerEvent{{0, true, 14}, {0, false, 4}}, false},
		{
			"a fifth over two seconds",
			[]answerEvent{{0, true, 15}, {0, false, 3}, {1001 * ms, true, 1}, {1001 * ms, false, 2}},
			false,
		},
		{
			"a fifth at the end of a second",
			[]answerEvent{{0, true, 15}, {0, false, 3}, {1000 * ms, true, 1}, {1000 * ms, false, 2}},
			true,
		},
		{
			"a clock that went back",
			[]answerEvent{{time.Hour, true, 15}, {time.Hour, false, 4}, {0, true, 1}, {0, false, 1}},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if b := breakerAfter(c.events); b.open != c.open {
				t.Errorf("open is %v: %+v", b.open, b)
			}
		})
	}
}

// breakerAfter returns a breaker after the answers.
func breakerAfter(events []answerEvent) (b breaker) {
	for _, e := range events {
		for range max(1, e.n) {
			if e.ok {
				b.success(e.at, false)
			} else {
				b.failure(e.at)
			}
		}
	}
	return b
}

// Only a probe closes the breaker: an answer to an older call does not show that the server answers now. Counting then
// restarts.
func TestBreakerCloses(t *testing.T) {
	var b breaker
	for range maxFailuresInRow {
		b.failure(0)
	}
	b.success(1, false)
	if !b.open {
		t.Fatal("a late answer closed the breaker")
	}
	b.failure(2)
	b.success(3, true)
	if b.open {
		t.Fatal("a probe did not close the breaker")
	}
	for range maxFailuresInRow - 1 {
		b.failure(4)
	}
	if b.open {
		t.Fatal("old failures were counted again")
	}
	b.failure(5)
	if !b.open {
		t.Fatal("the breaker does not open again")
	}
}
