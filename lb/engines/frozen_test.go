package engines

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pageAt returns the sample of a page that was first scraped and last read at these times.
func pageAt(t testing.TB, page uint64, scraped, read time.Duration, f fields) Sample {
	s := sampleOf(t, f)
	s.Page, s.At, s.ScrapedAt, s.FreshAt = page, scraped, scraped, read
	return s
}

// A page stands still if it is read long after an answer that it does not show: one to a request that was placed when
// the page had been there already.
func TestPagesThatStandStill(t *testing.T) {
	const at, age = time.Hour, 3 * time.Second
	for _, c := range []struct {
		name          string
		page          uint64
		placed, ended time.Duration // after the page was scraped
		read          time.Duration
		then          uint64 // the page that is read
		want          bool
	}{
		{"an answer, and the same page", 7, 1, time.Second, 4*time.Second + 1, 7, true},
		{"another page", 7, 1, time.Second, 4*time.Second + 1, 8, false},
		{"not read for long enough", 7, 1, time.Second, 4 * time.Second, 7, false},
		{"a request from before", 7, 0, time.Second, time.Minute, 7, false},
		{"a request from long before", 7, -time.Second, time.Second, time.Minute, 7, false},
		{"no page", 0, 1, time.Second, time.Minute, 0, false},
	} {
		g := New()
		update := func(page uint64, scraped, read time.Duration) {
			g.Update(at+read, nil, map[string]Sample{"a": pageAt(t, page, at+scraped, at+read, nil)})
		}
		update(c.page, 0, 0)
		g.AddAnswer(at+c.ended, "a", at+c.placed)
		g.AddAnswer(at+c.ended, "of no engine", at+c.placed)
		update(c.then, c.read, c.read)
		if got := len(g.StandsStill(age)) == 1; got != c.want {
			t.Errorf("%s: stands still: %v, want %v", c.name, got, c.want)
		}
		update(c.then+1, c.read+1, c.read+1)
		if got := g.StandsStill(age); len(got) != 0 {
			t.Errorf("%s: %v after another page", c.name, got)
		}
	}
}

// What every answer changes of a page is how many tokens it counts, of one that counts none any part.
func TestPageMarks(t *testing.T) {
	sample := func(page uint64, f fields) PageMark {
		s := pageAt(t, page, 1, 1, f)
		return s.Mark()
	}
	tokens, more := fields{"prompt tokens": 5, "output tokens": 7}, fields{"prompt tokens": 5, "output tokens": 8}
	for _, c := range []struct {
		name string
		a, b PageMark
		same bool
	}{
		{"the same", sample(1, tokens), sample(1, tokens), true},
		{"something else moves", sample(1, tokens), sample(2, tokens), true},
		{"tokens are generated", sample(1, tokens), sample(2, more), false},
		{"no tokens are counted", sample(1, fields{"running": 1}), sample(2, fields{"running": 1}), false},
		{"not yet", sample(1, fields{"output tokens": 0}), sample(2, fields{"output tokens": 0}), false},
		{"the first tokens", sample(1, fields{"output tokens": 0}), sample(2, fields{"output tokens": 1}), false},
		{"load reports alone", sample(0, tokens), PageMark{}, true},
	} {
		if got := c.a == c.b; got != c.same {
			t.Errorf("%s: %+v and %+v are the same: %v", c.name, c.a, c.b, got)
		}
	}
}

// Only the first answer counts that a page must show: later ones do not make it look younger.
func TestAnswersDoNotRenewAFrozenPage(t *testing.T) {
	g := New()
	for now := time.Hour; now <= time.Hour+5*time.Second; now += time.Second {
		g.Update(now, nil, map[string]Sample{"a": pageAt(t, 7, now, now, nil)})
		g.AddAnswer(now+2, "a", now+1)
	}
	if got := g.StandsStill(3 * time.Second); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%v", got)
	}
}

// What is known to stand still is stale if it counts tokens. Of a page without counters nobody can tell.
func TestFrozenPagesAreStale(t *testing.T) {
	for _, c := range []struct {
		name  string
		found fields
		want  int
	}{
		{"gauges", fields{"running": 1, "waiting": 0}, 1},
		{"prompts", fields{"running": 1, "prompt tokens": 9}, 0},
		{"output", fields{"running": 1, "output tokens": 9}, 0},
	} {
		for _, frozen := range []bool{false, true} {
			g := New()
			s := pageAt(t, 7, time.Hour, time.Hour, c.found)
			s.Frozen = frozen
			g.Update(time.Hour, nil, map[string]Sample{"a": s})
			want := 1
			if frozen {
				want = c.want
			}
			if n := g.CountFresh(time.Hour, time.Second); n != want {
				t.Errorf("%s, frozen %v: %d fresh, want %d", c.name, frozen, n, want)
			}
		}
	}
}

// liveEngine is an engine whose page counts every answer, at the latest a moment after its end. A gateway fetches the
// page, and VMs read that later.
type liveEngine struct {
	now      time.Duration
	counted  uint64                // answers
	counting []time.Duration       // when it counts those that have ended
	requests []time.Duration       // placed, in flight
	hung     bool                  // the page stays as it is
	counts   func(n uint64) Sample // of a page that counts tokens, nil: each number has a page of its own
	fetched  uint64
	sample   Sample
	vms      []*Samples
}

// step lets a moment pass in which anything may happen. Pages are fetched, and what was fetched is read, once a second.
func (e *liveEngine) step(rt *rapid.T, lag time.Duration) {
	e.now += 100 * time.Millisecond
	tenth := int(e.now / (100 * time.Millisecond) % 10)
	e.counting = slices.DeleteFunc(e.counting, func(at time.Duration) bool {
		if at <= e.now {
			e.counted++
		}
		return at <= e.now
	})
	if tenth == 3 && !e.hung {
		e.fetched = 1 + e.counted
	}
	if tenth == rapid.SampledFrom([]int{2, 3, 4}).Draw(rt, "read") {
		e.read()
	}
	for _, g := range e.vms {
		if rapid.Bool().Draw(rt, "refreshes") && e.sample.Page > 0 {
			g.Update(e.now, nil, map[string]Sample{"a": e.sample})
		}
	}
	if rapid.IntRange(0, 9).Draw(rt, "begins") == 0 {
		e.requests = append(e.requests, e.now)
	}
	if len(e.requests) > 0 && rapid.IntRange(0, 9).Draw(rt, "ends") == 0 {
		e.counting = append(e.counting, e.now+lag)
		vm := rapid.SampledFrom(e.vms).Draw(rt, "VM")
		vm.AddAnswer(e.now, "a", e.requests[0])
		e.requests = e.requests[1:]
	}
}

func (e *liveEngine) read() {
	if e.sample.FreshAt = e.now; e.counts != nil {
		e.sample = e.counts(e.fetched)
		e.sample.Page, e.sample.At, e.sample.ScrapedAt, e.sample.FreshAt = uint64(e.now), e.now, e.now, e.now
	} else if e.sample.Page != e.fetched {
		e.sample = Sample{Page: e.fetched, At: e.now, ScrapedAt: e.now, FreshAt: e.now}
	}
}

func (e *liveEngine) standsStill(age time.Duration) bool {
	return slices.ContainsFunc(e.vms, func(g *Samples) bool { return len(g.StandsStill(age)) > 0 })
}

// A page that counts answers is never taken for one that stands still, however rare these are, whoever reads it when,
// and in whichever VM they end. Once it hangs it is found out, after the next request.
func TestLivePagesDoNotStandStill(t *testing.T) {
	const age = 3 * time.Second
	rapid.Check(t, func(rt *rapid.T) {
		e := &liveEngine{now: time.Hour}
		for range rapid.IntRange(1, 3).Draw(rt, "VMs") {
			e.vms = append(e.vms, New())
		}
		if rapid.Bool().Draw(rt, "counts tokens") {
			e.counts = func(n uint64) Sample { return sampleOf(t, fields{"output tokens": float64(n)}) }
		}
		lag := time.Duration(rapid.IntRange(0, 800).Draw(rt, "lag")) * time.Millisecond
		for range rapid.IntRange(10, 300).Draw(rt, "steps") {
			if e.step(rt, lag); e.standsStill(age) {
				rt.Fatalf("stands still at %v: %+v", e.now-time.Hour, e.sample)
			}
		}
		e.hung, e.fetched = true, max(1, e.fetched)
		e.now += 2 * time.Second // all that was fetched is read
		e.read()
		for _, g := range e.vms {
			g.Update(e.now, nil, map[string]Sample{"a": e.sample})
			g.AddAnswer(e.now+time.Second, "a", e.now+1)
		}
		e.now += age + time.Second + 1
		e.read()
		for i, g := range e.vms {
			g.Update(e.now, nil, map[string]Sample{"a": e.sample})
			if len(g.StandsStill(age)) != 1 {
				rt.Fatalf("VM %d does not notice", i)
			}
		}
	})
}
