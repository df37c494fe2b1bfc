package push

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/engines/enginestest"
	"pgregory.net/rapid"
)

type fields = map[string]float64

// sampleOf returns a sample with the given values: see [enginestest.Snapshot].
func sampleOf(t testing.TB, values fields) engines.Sample {
	t.Helper()
	return engines.Sample{Snapshot: enginestest.Snapshot(t, values)}
}

// How a limit follows one sample.
func TestLimitFollowsTheEnginesQueue(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name                           string
		limit, step, before            float64
		batch, queued, inflight, most  float64
		wantLimit, wantStep, published float64
	}{
		{"idle", 16, 0, 0, 3, 0, 3, inf, 16, 0, 16},
		{"reached for the first time", 16, 0, 0, 16, 0, 16, inf, 24, 0, 24},
		{"nearly reached", 16, 0, 0, 15, 0, 15, inf, 24, 0, 24},
		{"not quite reached", 16, 0, 0, 14, 0, 14, inf, 16, 0, 16},
		{"reached, and not all have arrived", 16, 0, 0, 14, 0, 16, inf, 16, 0, 16},
		{"reached, and the KV cache full", 16, 0, 0, 16, 0, 16, 14, 15, 1, 15},
		{"reached, and the KV cache just full", 16, 0, 0, 16, 0, 16, 16, 16, 0, 16},
		{"reached, and the KV cache nearly full", 16, 0, 0, 16, 0, 16, 20, 20, 0, 20},
		{"too high before", 16, 1, 0, 16, 0, 16, inf, 17, 2, 17},
		{"not too high for a while", 64, 4, 0, 64, 0, 64, inf, 68, 8, 68},
		{"not too high for long", 64, 8, 0, 64, 0, 64, inf, 72, 8, 72},
		{"a queue", 24, 0, 0, 12, 12, 24, inf, 18, 1, 18},
		{"a queue where little runs", 16, 0, 0, 0, 12, 16, inf, 8.5, 1, 8},
		{"external requests fill the engine", 2, 0, 0, -5, 12, 2, inf, 1.5, 1, 1},
		{"a queue, and the KV cache overfull", 24, 0, 0, 20, 12, 24, 16, 20, 1, 20},
		{"a queue below the limit", 24, 4, 0, 40, 12, 52, inf, 24, 1, 24},
		{"one arrives", 40, 0, 0, 40, 1, 41, inf, 40, 0, 40},
		{"one waits for long", 41, 0, 1, 40, 1, 41, inf, 40.5, 1, 40},
		{"one arrives at times, below the limit", 80, 0, 1, 40, 2, 42, inf, 80, 0, 80},
		{"many wait below the limit", 80, 0, 0, 40, 3, 43, inf, 60, 1, 60},
	} {
		p := endpointLimit{limit: c.limit, step: c.step, lastQueued: c.before}
		p.learnQueue(c.batch, c.queued, c.inflight, c.most)
		if p.limit != c.wantLimit || p.step != c.wantStep {
			t.Errorf("%s: limit %v, step %v, want %v, %v", c.name, p.limit, p.step, c.wantLimit, c.wantStep)
		}
		l := New(nil)
		if l.publish(0, &p); float64(p.published) != c.published || p.lastQueued != c.queued {
			t.Errorf("%s: published %v, want %v", c.name, p.published, c.published)
		}
	}
}

// What a sample says of the batch and the queue.
func TestBatchOfASample(t *testing.T) {
	for _, c := range []struct {
		name            string
		values          fields
		counted         bool
		running, queued float64
		want            bool
	}{
		{"all", fields{"running": 5, "waiting": 3}, true, 5, 3, true},
		{"deferred ones do not wait for capacity", fields{"running": 5, "waiting": 3, "deferred": 2}, true, 5, 1, true},
		{"no batch", fields{"waiting": 3}, true, 6, 3, true},
		{"no queue", fields{"running": 5}, true, 5, 0, false},
		{"not counted", fields{"running": 5, "waiting": 3}, false, 5, 3, false},
		{"asleep", fields{"running": 5, "waiting": 3, "awake": 0}, true, 0, 0, false},
	} {
		s := sampleOf(t, c.values)
		s.Counted, s.Inflight.Requests = c.counted, 9
		if running, queued, ok := batchOf(&s); running != c.running || queued != c.queued || ok != c.want {
			t.Errorf("%s: %v run, %v wait, %v", c.name, running, queued, ok)
		}
	}
}

// A sample counts once, and load reports once a second where nothing is scraped.
func TestSamplesCountOnce(t *testing.T) {
	const addr = "a"
	for _, c := range []struct {
		name              string
		at, scrapedAt     time.Duration // of the second sample, after a first one
		reportsOnly, want bool
	}{
		{"the same", 0, 0, false, false},
		{"a load report", time.Second, 0, false, false},
		{"another scrape", time.Second, time.Second, false, true},
		{"an early report", time.Second - 1, 0, true, false},
		{"a later report", time.Second, 0, true, true},
	} {
		g := engines.New()
		l := New(g)
		l.staleAfter = time.Minute
		s := sampleOf(t, fields{"running": 16, "waiting": 0})
		s.Counted, s.Inflight.Requests, s.At, s.FreshAt = true, 16, time.Hour, time.Hour
		if !c.reportsOnly {
			s.ScrapedAt = time.Hour
		}
		g.Update(time.Hour, nil, map[string]engines.Sample{addr: s})
		first, _ := l.Limit(addr)
		next := sampleOf(t, fields{"running": float64(first), "waiting": 0})
		next.Counted, next.Inflight.Requests = true, first
		next.At, next.FreshAt, next.ScrapedAt = s.At+c.at, s.FreshAt, s.ScrapedAt+c.scrapedAt
		g.Update(next.At, nil, map[string]engines.Sample{addr: next})
		if second, _ := l.Limit(addr); first != 24 || second > first != c.want {
			t.Errorf("%s: limit %d, then %d", c.name, first, second)
		}
	}
}

// pushedEngine is an engine that runs a fixed number of requests at once, and has as many as its limit allows.
type pushedEngine struct {
	t        testing.TB
	now      time.Duration
	random   *rand.Rand
	engines  *engines.Samples
	limits   *Limits
	batch    int
	meanTime float64 // that a request runs, in seconds
	ahead    int
	inflight int
}

func newPushedEngine(t testing.TB, batch, ahead int) *pushedEngine {
	e := &pushedEngine{
		t: t, now: time.Hour, random: rand.New(rand.NewPCG(1, 2)), engines: engines.New(), batch: batch, meanTime: 3,
		ahead: ahead,
	}
	e.limits = New(e.engines)
	e.limits.staleAfter = 3 * time.Second
	return e
}

// scrape lets a second pass, in which more requests come than fit, and reports what the engine's metrics are then.
func (e *pushedEngine) scrape() (limit, queued int) {
	const steps = 20
	for range steps {
		done := 0
		for range min(e.inflight, e.batch) {
			if e.random.Float64() < 1/(steps*e.meanTime) {
				done++
			}
		}
		e.inflight -= done
		c := e.limits.Apply(e.now, lb.NewList([]lb.Candidate{{Addr: "a", Weight: 1}}), e.ahead).Candidates
		e.inflight = max(e.inflight, int(c[0].Cap))
		e.now += time.Second / steps
	}
	queued = max(0, e.inflight-e.batch)
	s := sampleOf(e.t, fields{"running": float64(e.inflight - queued), "waiting": float64(queued)})
	s.At, s.ScrapedAt, s.FreshAt, s.Counted, s.Inflight.Requests = e.now, e.now, e.now, true, int64(e.inflight)
	e.engines.Update(e.now, nil, map[string]engines.Sample{"a": s})
	n, _ := e.limits.Limit("a")
	return int(n), queued
}

// What the last page shows before there is none may be odd: an engine that runs one long prefill has a queue, whatever
// it runs otherwise. The limit goes half the way, as it does at any such page, and no further when the page is stale.
func TestOneOddPageIsNoLimit(t *testing.T) {
	e := newPushedEngine(t, 61, 0)
	for range 60 {
		e.scrape()
	}
	before, _ := e.limits.Limit("a")
	s := sampleOf(t, fields{"running": 1, "waiting": 6})
	e.now += time.Second
	s.At, s.ScrapedAt, s.FreshAt, s.Counted, s.Inflight.Requests = e.now, e.now, e.now, true, before
	e.engines.Update(e.now, nil, map[string]engines.Sample{"a": s})
	e.now += 10 * time.Second
	list := lb.NewList([]lb.Candidate{{Addr: "a", Weight: 1}})
	if c := e.limits.Apply(e.now, list, 0).Candidates; c[0].Cap < before/2 {
		t.Errorf("limit %d, then %d without metrics", before, c[0].Cap)
	}
}

// The limit of a saturated engine finds its batch, which is not known, and follows it when it shrinks and grows.
func TestLimitFindsTheBatch(t *testing.T) {
	for _, batch := range []int{3, 13, 61, 190} {
		for _, ahead := range []int{0, 2} {
			e := newPushedEngine(t, batch, ahead)
			for _, phase := range []struct{ batch, scrapes int }{{batch, 30}, {max(1, batch/2), 10}, {batch, 30}} {
				e.batch = phase.batch
				for range phase.scrapes {
					e.scrape()
				}
				more := max(1, phase.batch*12/100)
				for i := range 60 {
					limit, queued := e.scrape()
					if limit < phase.batch || limit > phase.batch+more {
						t.Fatalf("batch %d of %d, scrape %d: limit %d", phase.batch, batch, i, limit)
					}
					if queued > ahead+max(2, phase.batch*15/100) {
						t.Fatalf("batch %d of %d, scrape %d: %d wait", phase.batch, batch, i, queued)
					}
				}
			}
		}
	}
}

// An engine that counts fewer requests as running than it has still gets more.
func TestEnginesThatCountFewerGetMore(t *testing.T) {
	p := endpointLimit{limit: 20, step: 1}
	p.learnQueue(15, 0, 20, math.Inf(1))
	p.learnQueue(15, 0, 15, math.Inf(1)) // not in a row
	for range 3 {
		if p.learnQueue(15, 0, 20, math.Inf(1)); p.limit != 20 {
			t.Errorf("limit %v", p.limit)
		}
	}
	if p.learnQueue(15, 0, 20, math.Inf(1)); p.limit != 21 {
		t.Errorf("after four samples in a row: limit %v, want 21", p.limit)
	}
}

// A batch that is known, since higher limits were too high again and again, is tried seldom: more than three in four
// samples find the limit there. Metrics that stall then find no higher limit in force.
func TestKnownBatchesAreTriedSeldom(t *testing.T) {
	for _, batch := range []int{3, 8, 13} {
		e := newPushedEngine(t, batch, 0)
		for range 90 {
			e.scrape()
		}
		above := 0
		for range 160 {
			if limit, _ := e.scrape(); limit > batch {
				above++
			}
		}
		if above > 40 || above == 0 {
			t.Errorf("a batch of %d: of 160 samples %d find a higher limit", batch, above)
		}
	}
}

// Whatever engines report, a limit is at least 1, grows by half or one at most, and never while requests wait.
func TestLimitIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		number := func(name string) float64 { return float64(rapid.IntRange(-20, 300).Draw(rt, name)) }
		p := endpointLimit{limit: firstLimit}
		for range rapid.IntRange(1, 40).Draw(rt, "samples") {
			before, queued := p.limit, number("queued")
			p.learnQueue(number("batch"), queued, number("in flight"), number("most"))
			if p.limit < 1 || p.limit > before+max(1, before/2) || queued > 0 && p.limit > before {
				rt.Fatalf("%d wait: limit %v after %v", int(queued), p.limit, before)
			}
		}
	})
}
