package push

import (
	"testing"
	"time"
)

// pageOf has an engine's limit learn from a page, of an engine of which the gateways have so many in flight.
func (l *Limits) pageOf(t *testing.T, page uint64, at time.Duration, inflight int64, frozen bool, f fields) int64 {
	t.Helper()
	s := sampleOf(t, f)
	s.Page, s.At, s.ScrapedAt, s.FreshAt, s.Frozen = page, at, at, at, frozen
	s.Counted, s.Inflight.Requests = true, inflight
	l.learnSample(at, "a", &s, 0)
	n, _ := l.Limit("a")
	return n
}

// A page teaches once, whatever it shows. If it is read again for half of the time for which it counts, the limit is
// what pages have shown to fit, if that is reached; and at once when the page is known to stand still.
func TestPagesTeachOnce(t *testing.T) {
	const s = time.Second
	none, queue := fields{"running": 16, "waiting": 0}, fields{"running": 6, "waiting": 10}
	for _, c := range []struct {
		name     string
		found    fields
		inflight int64
		again    time.Duration // after which the same page is read for the last time
		frozen   bool
		want     int64
	}{
		{"no queue", none, 24, s, false, 24},
		{"no queue for long", none, 24, 2 * s, false, 16},
		{"no queue for long, and fewer requests", none, 10, 2 * s, false, 24},
		{"no queue, known to stand still", none, 10, 4 * s, true, 16},
		{"a queue", queue, 16, s, false, 11},
		{"a queue for long", queue, 11, 2 * s, false, 6},
		{"a queue, known to stand still", queue, 11, 4 * s, true, 6},
	} {
		l := New(nil)
		l.staleAfter = 3 * s
		first := l.pageOf(t, 7, time.Hour, 16, false, c.found)
		for after := s; after < c.again; after += s {
			l.pageOf(t, 7, time.Hour+after, c.inflight, false, c.found)
		}
		if n := l.pageOf(t, 7, time.Hour+c.again, c.inflight, c.frozen, c.found); n != c.want {
			t.Errorf("%s: limit %d, then %d, want %d", c.name, first, n, c.want)
		}
	}
}

// From the moment when a page is known to stand still answers teach, and as soon as another one comes, pages do.
func TestAnotherPageTeachesAgain(t *testing.T) {
	l := New(nil)
	l.staleAfter = 3 * time.Second
	f := fields{"running": 16, "waiting": 0}
	l.pageOf(t, 7, time.Hour, 16, false, f)
	l.pageOf(t, 7, time.Hour+4*time.Second, 16, true, f)
	if l.endpoints["a"].sampled {
		t.Error("a page that stands still counts as fresh")
	}
	if n := l.pageOf(t, 8, time.Hour+5*time.Second, 16, false, f); n != 24 || !l.endpoints["a"].sampled {
		t.Errorf("limit %d after another page, want 24", n)
	}
}
