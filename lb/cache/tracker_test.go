package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// testTracker is a tracker with the candidates, the clock and the summary of one policy.
type testTracker struct {
	*Tracker
	longest time.Duration
	summary Summary
	now     time.Duration
	cs      []lb.Candidate
	source  uint64 // of the latest answer
}

func newTestTracker(n int, longest time.Duration) *testTracker {
	l := &testTracker{Tracker: NewTracker(), longest: longest, now: time.Hour}
	for i := range n {
		l.cs = append(l.cs, lb.Candidate{Addr: fmt.Sprintf("10.0.0.%d:80", i+1)})
	}
	return l
}

// answer observes an answer from a new source.
func (l *testTracker) answer(o lb.Outcome) {
	l.source++
	o.Source = l.source
	l.learnTTL(l.now, l.longest, o)
}

// plan returns the TTLs of a plan.
func (l *testTracker) plan() (time.Duration, []lb.EndpointTTL) {
	l.Summarize(l.now, l.longest, l.cs, &l.summary)
	return l.summary.TTL, l.summary.ShortTTL
}

// answers observes n answers of an endpoint, one per second, each planned just before.
func (l *testTracker) answers(endpoint, n int, expected, cached int64) {
	for range n {
		l.now += time.Second
		l.answer(lb.Outcome{
			Addr: l.cs[endpoint].Addr, PlannedAt: l.now - time.Millisecond,
			PromptTokens: 1000, ExpectedTokens: expected, CachedTokens: cached,
		})
	}
}

// ttls returns the TTL of each candidate.
func (l *testTracker) ttls() (out []time.Duration) {
	p := lb.Prefix{}
	l.now += summaryInterval
	p.TTL, p.ShortTTL = l.plan()
	for _, c := range l.cs {
		out = append(out, p.TTLOf(lb.EndpointTag(c.Addr)))
	}
	return out
}

func (l *testTracker) want(t *testing.T, endpoint int, low, high time.Duration) {
	t.Helper()
	if got := l.ttls()[endpoint]; got < low || got > high {
		t.Errorf("endpoint %d has a TTL of %v, want %v to %v", endpoint, got, low, high)
	}
}

const longestTTL = 30 * time.Minute

// Silence shortens the TTL only of an endpoint that has reported cached tokens before.
func TestRetentionWithoutReports(t *testing.T) {
	for name, c := range map[string]struct {
		reports  int
		cached   int64
		shortens bool
	}{
		"never reported": {1, 0, false}, "reported once": {1, 500, false}, "reported often": {maxReports, 500, true},
		"reported too few tokens": {maxReports, minPredicted - 1, false},
	} {
		l := newTestTracker(1, longestTTL)
		l.answers(0, c.reports, 0, c.cached)
		l.answers(0, 100, 900, 0)
		if got := l.ttls()[0]; (got < longestTTL) != c.shortens {
			t.Errorf("%s: a TTL of %v", name, got)
		}
	}
}

// Answers without usage, and predictions of a few tokens, have no effect.
func TestRetentionOfShortPrompts(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 1, 900, 900)
	l.answers(0, 100, minPredicted-1, 0)
	for range 100 {
		l.answer(lb.Outcome{Addr: l.cs[0].Addr, PlannedAt: l.now, ExpectedTokens: 900})
	}
	l.want(t, 0, longestTTL, longestTTL)
}

// Failures among hits shorten the TTL down to its minimum; hits, or the passage of time, restore it.
func TestRetentionFallsAndRecovers(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 20, 900, 900)
	for range 200 {
		l.answers(0, 1, 900, 0)
		l.answers(0, 1, 900, 900)
	}
	l.want(t, 0, minTTL, minTTL*3/2)
	if l.losses > 0 {
		t.Errorf("%d losses although every other prediction was correct", l.losses)
	}
	hits := *l.endpoints[l.cs[0].Addr]
	l.answers(0, 200, 900, 880)
	l.want(t, 0, longestTTL, longestTTL)
	l.endpoints[l.cs[0].Addr] = &hits
	l.now += 4 * longestTTL
	l.want(t, 0, longestTTL, longestTTL)
}

// A failure rate of one in twelve, which blocks and bursts of an engine explain, does not shorten the TTL for long.
func TestRetentionToleratesSomeFailures(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	for range 100 {
		l.answers(0, 11, 900, 870)
		l.answers(0, 1, 900, 0)
	}
	l.want(t, 0, longestTTL/2, longestTTL)
}

// Answers to requests that were planned before a cut do not cut again.
func TestRetentionIsCutOnce(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 5, 900, 900)
	planned := l.now
	for range 3 {
		l.now += time.Second
		l.answer(lb.Outcome{Addr: l.cs[0].Addr, PlannedAt: planned, PromptTokens: 1000, ExpectedTokens: 900})
	}
	l.want(t, 0, longestTTL*75/100, longestTTL*85/100)
}

// An endpoint that suddenly has nothing of what was predicted has lost its cache: earlier records no longer count,
// later ones do.
func TestRetentionDetectsALoss(t *testing.T) {
	l := newTestTracker(3, longestTTL)
	for range 60 {
		for i := range l.cs {
			l.answers(i, 1, 900, 880)
		}
	}
	before := l.now
	l.answers(1, 8, 900, 0)
	if l.losses != 1 {
		t.Fatalf("%d losses", l.losses)
	}
	lost := l.endpoints[l.cs[1].Addr].lostAt
	if lost-before > 6*time.Second {
		t.Errorf("detected after %v", lost-before)
	}
	late := lb.Outcome{Addr: l.cs[1].Addr, PlannedAt: lost - time.Second, PromptTokens: 1000, ExpectedTokens: 900}
	for range 50 { // planned before the loss was known
		l.answer(late)
	}
	if l.losses != 1 {
		t.Errorf("%d losses after late answers", l.losses)
	}
	l.answers(1, 100, 900, 880)
	l.want(t, 0, longestTTL, longestTTL)
	l.want(t, 1, l.now-lost, l.now-lost+2*summaryInterval)
	l.now += longestTTL
	l.want(t, 1, longestTTL, longestTTL)
}

// A loss is in the next plan, without waiting for summaryInterval.
func TestRetentionPublishesALossAtOnce(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 60, 900, 900)
	l.plan()
	for range 10 {
		l.now += time.Millisecond
		l.answer(lb.Outcome{Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900})
	}
	if _, short := l.plan(); len(short) != 1 || short[0].TTL > 10*time.Millisecond {
		t.Errorf("after ten failures in ten milliseconds: %+v", short)
	}
}

// One misreporting endpoint does not affect the others, in clusters of any size above one.
func TestRetentionOfOneMisreporting(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		l := newTestTracker(n, longestTTL)
		for round := range 500 {
			for i := range l.cs {
				cached := int64(900)
				if i == 0 && round > 5 && round%2 == 0 {
					cached = 0
				}
				l.answers(i, 1, 900, cached)
			}
		}
		for i := 1; i < n; i++ {
			l.want(t, i, longestTTL, longestTTL)
		}
		l.want(t, 0, 0, longestTTL/2)
		if _, short := l.plan(); len(short) != 1 {
			t.Errorf("%d endpoints have a shorter TTL", len(short))
		}
	}
}

// Whatever endpoints report, TTLs stay within their bounds; and correct answers restore them.
func TestRetentionIsBounded(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		longest := time.Duration(1+r.IntN(7200)) * time.Second
		l := newTestTracker(1+r.IntN(100), longest)
		for range 3000 {
			l.now += time.Duration(r.IntN(3000)) * time.Millisecond
			l.answer(lb.Outcome{
				Addr: fmt.Sprintf("10.0.0.%d:80", r.IntN(120)), PlannedAt: l.now - time.Duration(r.IntN(20))*
					time.Second,
				PromptTokens: int64(r.IntN(2000)), ExpectedTokens: int64(r.IntN(2000) - 100),
				CachedTokens: int64(r.IntN(3)*r.IntN(2000) - 50),
			})
			ttl, short := l.plan()
			if ttl > longest || ttl < min(minTTL, longest) {
				t.Fatalf("seed %d: a TTL of %v of %v", seed, ttl, longest)
			}
			if len(short) > maxShortTTLs {
				t.Fatalf("seed %d: %d endpoints have a shorter TTL", seed, len(short))
			}
			for _, k := range short {
				if k.TTL < 0 || k.TTL >= ttl {
					t.Fatalf("seed %d: %v is not below %v", seed, k.TTL, ttl)
				}
			}
		}
		if len(l.endpoints) > 120 {
			t.Fatalf("seed %d: %d endpoints are remembered", seed, len(l.endpoints))
		}
		l.now += longest
		for range 200 {
			for i := range l.cs {
				l.answers(i, 1, 900, 900)
			}
		}
		for i, got := range l.ttls() {
			if got != longest {
				t.Fatalf("seed %d: endpoint %d recovers to %v of %v", seed, i, got, longest)
			}
		}
	}
}

// Removed endpoints are forgotten.
func TestRetentionForgetsRemovedEndpoints(t *testing.T) {
	l := newTestTracker(20, longestTTL)
	for i := range l.cs {
		l.answers(i, 3, 900, 900)
	}
	l.cs = l.cs[:4]
	l.now += idleEndpointTTL
	l.ttls()
	if len(l.endpoints) != 4 {
		t.Errorf("%d endpoints are remembered", len(l.endpoints))
	}
}

// Reports in one API do not make silence in another one count.
func TestRetentionByAPI(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	answers := func(n int, api prompt.API, cached int64) {
		for range n {
			l.now += time.Second
			l.answer(lb.Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900,
				CachedTokens: cached, API: api,
			})
		}
	}
	answers(20, prompt.Chat, 900)
	answers(100, prompt.Anthropic, 0)
	l.want(t, 0, longestTTL, longestTTL)
	if l.losses > 0 {
		t.Errorf("%d losses by answers without reports", l.losses)
	}
	answers(1, prompt.Anthropic, 900)
	answers(10, prompt.Anthropic, 0)
	if l.losses != 1 {
		t.Errorf("%d losses once there are reports, want one", l.losses)
	}
}

// Failures of one client or prompt count for short than those of many: they do not discard what is known for others, as
// long as some of these have hits. Without others a loss is detected all the same.
func TestRetentionOfOneSource(t *testing.T) {
	for _, c := range []struct {
		sources  uint64 // of the failures
		hits     int    // of other sources after each failure
		failures int
		losses   uint64
	}{{1, 1, 500, 0}, {1, 0, 10, 0}, {1, 0, 30, 1}, {2, 0, 10, 1}, {1000, 0, 10, 1}} {
		l := newTestTracker(1, longestTTL)
		l.answers(0, 100, 900, 900)
		for i := range c.failures {
			l.now += time.Second
			o := lb.Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900,
				Source: 1<<40 + uint64(i)%c.sources,
			}
			l.learnTTL(l.now, l.longest, o)
			l.answers(0, c.hits, 900, 900)
		}
		if l.losses != c.losses {
			t.Errorf("%+v: %d losses", c, l.losses)
		}
	}
}

// Policies with different TTLs share what is learned, each within its own TTL: an answer under a short one has no
// effect on longer ones.
func TestRetentionOfSeveralPolicies(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	other := Summary{}
	answers := func(longest time.Duration, n int, cached int64) {
		for range n {
			l.now += time.Second
			l.source++
			l.learnTTL(l.now, longest, lb.Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900, CachedTokens: cached,
				Source: l.source,
			})
		}
	}
	want := func(mine, others time.Duration) {
		t.Helper()
		l.now += summaryInterval
		ttl, _ := l.plan()
		l.Summarize(l.now, 2*longestTTL, l.cs, &other)
		if (ttl-mine).Abs() > 10*time.Second || (other.TTL-others).Abs() > 10*time.Second {
			t.Errorf("TTLs of %v and %v, want %v and %v", ttl, other.TTL, mine, others)
		}
	}
	want(longestTTL, 2*longestTTL)
	answers(longestTTL, 200, 900)
	want(longestTTL, 2*longestTTL)
	answers(2*longestTTL, 1, 0)
	want(longestTTL, 2*longestTTL*8/10)
	answers(longestTTL, 1, 0)
	want(longestTTL*8/10, longestTTL*8/10)
	answers(longestTTL, 20, 900)
	want(longestTTL, longestTTL)
	if ttl, _ := l.Retention(); ttl != other.TTL {
		t.Errorf("retention %v, want that of the latest plan: %v", ttl, other.TTL)
	}
}

// A stray report is undone by a long series of silent answers, with the effect of that series. A new report counts
// again; after many reports the series must be longer.
func TestSilencesUndoAStrayReport(t *testing.T) {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 1, 0, 500)
	l.answers(0, 16, 900, 0)
	l.want(t, 0, longestTTL, longestTTL)
	l.answers(0, 100, 900, 0)
	l.want(t, 0, longestTTL, longestTTL)
	l.answers(0, 1, 900, 900)
	l.answers(0, 10, 900, 0)
	l.want(t, 0, 0, longestTTL/2)
	l.answers(0, 20, 900, 900)
	l.now += 4 * longestTTL
	l.answers(0, 10, 900, 900)
	l.want(t, 0, longestTTL, longestTTL)
	l.answers(0, 100, 900, 0)
	l.want(t, 0, 0, longestTTL/2)
	l.answers(0, 100, 900, 0)
	l.want(t, 0, longestTTL, longestTTL)
}
