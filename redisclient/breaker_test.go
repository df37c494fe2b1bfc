package redisclient

import (
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	const ms = time.Millisecond
	type event struct {
		at time.Duration
		ok bool
		n  int // how often; 0 is once
	}
	for _, c := range []struct {
		name   string
		events []event
		open   bool
	}{
		{"nothing", nil, false},
		{"four in a row", []event{{0, false, 4}}, false},
		{"five in a row", []event{{0, false, 5}}, true},
		{"five in a row, hours apart", []event{{0, false, 4}, {3 * time.Hour, false, 1}}, true},
		{"never five in a row", []event{{0, false, 4}, {0, true, 40}, {0, false, 4}}, false},
		{"a fifth of a second's answers", []event{{0, true, 15}, {0, false, 4}, {0, true, 1}, {0, false, 1}}, true},
		{"less than a fifth", []event{{0, true, 17}, {0, false, 4}}, false},
		{"a fifth, but of few", []event{{0, true, 14}, {0, false, 4}}, false},
		{
			"a fifth over two seconds",
			[]event{{0, true, 15}, {0, false, 3}, {1001 * ms, true, 1}, {1001 * ms, false, 2}},
			false,
		},
		{
			"a fifth at the end of a second",
			[]event{{0, true, 15}, {0, false, 3}, {1000 * ms, true, 1}, {1000 * ms, false, 2}},
			true,
		},
		{
			"a clock that went back",
			[]event{{time.Hour, true, 15}, {time.Hour, false, 4}, {0, true, 1}, {0, false, 1}},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b breaker
			for _, e := range c.events {
				for range max(1, e.n) {
					if e.ok {
						b.success(e.at, false)
					} else {
						b.failure(e.at)
					}
				}
			}
			if b.open != c.open {
				t.Errorf("open is %v: %+v", b.open, b)
			}
		})
	}
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
