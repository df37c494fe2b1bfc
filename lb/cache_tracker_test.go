package lb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
)

// listening is what is known of caches by a policy, with candidates and a clock, to which endpoints tell things.
type listening struct {
	*CacheTracker
	longest time.Duration
	belief  cacheSummary
	now     time.Duration
	cs      []Candidate
	source  uint64 // of the latest answer
}

func newListening(n int, longest time.Duration) *listening {
	l := &listening{CacheTracker: NewCacheTracker(), longest: longest, now: time.Hour}
	for i := range n {
		l.cs = append(l.cs, Candidate{Addr: fmt.Sprintf("10.0.0.%d:80", i+1)})
	}
	return l
}

// hear lets an answer come, from a source that was not heard of before.
func (l *listening) hear(o Outcome) {
	l.source++
	o.Source = l.source
	l.observe(l.now, l.longest, o)
}

// plan returns what a plan says.
func (l *listening) plan() (time.Duration, []EndpointTTL) {
	l.summarize(l.now, l.longest, l.cs, &l.belief)
	return l.belief.ttl, l.belief.shortTTL
}

// tell lets an endpoint answer n requests, planned a moment before, one a second.
func (l *listening) tell(endpoint, n int, expected, cached int64) {
	for range n {
		l.now += time.Second
		l.hear(Outcome{
			Addr: l.cs[endpoint].Addr, PlannedAt: l.now - time.Millisecond,
			PromptTokens: 1000, ExpectedTokens: expected, CachedTokens: cached,
		})
	}
}

// keeps returns for how long each candidate is taken to keep things.
func (l *listening) keeps() (out []time.Duration) {
	p := Prefix{}
	l.now += summaryInterval
	p.TTL, p.ShortTTL = l.plan()
	for _, c := range l.cs {
		out = append(out, p.keeps(EndpointTag(c.Addr)))
	}
	return out
}

func (l *listening) want(t *testing.T, endpoint int, least, most time.Duration) {
	t.Helper()
	if got := l.keeps()[endpoint]; got < least || got > most {
		t.Errorf("endpoint %d is taken to keep things for %v, want %v to %v", endpoint, got, least, most)
	}
}

const longestKept = 30 * time.Minute

// What was told before says what silence means: engines that never tell of a cached token are believed.
func TestRetentionOfTheSilent(t *testing.T) {
	for name, c := range map[string]struct {
		reports  int
		tells    int64
		shortens bool
	}{
		"never told": {1, 0, false}, "told once": {1, 500, false}, "told often": {maxReports, 500, true},
		"told next to nothing": {maxReports, minPredicted - 1, false},
	} {
		l := newListening(1, longestKept)
		l.tell(0, c.reports, 0, c.tells)
		l.tell(0, 100, 900, 0)
		if got := l.keeps()[0]; (got < longestKept) != c.shortens {
			t.Errorf("%s: kept for %v", name, got)
		}
	}
}

// Answers without usage, and predictions of a few tokens, say nothing.
func TestRetentionOfSmallTalk(t *testing.T) {
	l := newListening(1, longestKept)
	l.tell(0, 1, 900, 900)
	l.tell(0, 100, minPredicted-1, 0)
	for range 100 {
		l.hear(Outcome{Addr: l.cs[0].Addr, PlannedAt: l.now, ExpectedTokens: 900})
	}
	l.want(t, 0, longestKept, longestKept)
}

// Failures that are mixed with hits shorten the retention to its floor, and no further; hits, or the mere passage of
// time, bring it back.
func TestRetentionFallsAndRecovers(t *testing.T) {
	l := newListening(1, longestKept)
	l.tell(0, 20, 900, 900)
	for range 200 {
		l.tell(0, 1, 900, 0)
		l.tell(0, 1, 900, 900)
	}
	l.want(t, 0, minTTL, minTTL*3/2)
	if l.losses > 0 {
		t.Errorf("%d losses although every other prediction came true", l.losses)
	}
	hits := *l.endpoints[l.cs[0].Addr]
	l.tell(0, 200, 900, 880)
	l.want(t, 0, longestKept, longestKept)
	l.endpoints[l.cs[0].Addr] = &hits
	l.now += 4 * longestKept
	l.want(t, 0, longestKept, longestKept)
}

// Where one in twelve fails, as many as an engine's blocks and bursts explain, nothing is shortened for long.
func TestRetentionBearsSomeFailures(t *testing.T) {
	l := newListening(1, longestKept)
	for range 100 {
		l.tell(0, 11, 900, 870)
		l.tell(0, 1, 900, 0)
	}
	l.want(t, 0, longestKept/2, longestKept)
}

// One answer time can shorten it once: what was planned before says nothing of what has changed since.
func TestRetentionIsCutOnceAtATime(t *testing.T) {
	l := newListening(1, longestKept)
	l.tell(0, 5, 900, 900)
	planned := l.now
	for range 3 {
		l.now += time.Second
		l.hear(Outcome{Addr: l.cs[0].Addr, PlannedAt: planned, PromptTokens: 1000, ExpectedTokens: 900})
	}
	l.want(t, 0, longestKept*75/100, longestKept*85/100)
}

// An endpoint that suddenly has nothing of what it should have has lost it all: what was noted before no longer counts,
// what is noted after does.
func TestRetentionNoticesALoss(t *testing.T) {
	l := newListening(3, longestKept)
	for range 60 {
		for i := range l.cs {
			l.tell(i, 1, 900, 880)
		}
	}
	before := l.now
	l.tell(1, 8, 900, 0)
	if l.losses != 1 {
		t.Fatalf("%d losses", l.losses)
	}
	lost := l.endpoints[l.cs[1].Addr].lostAt
	if lost-before > 6*time.Second {
		t.Errorf("noticed after %v", lost-before)
	}
	late := Outcome{Addr: l.cs[1].Addr, PlannedAt: lost - time.Second, PromptTokens: 1000, ExpectedTokens: 900}
	for range 50 { // they were planned in the belief that was wrong
		l.hear(late)
	}
	if l.losses != 1 {
		t.Errorf("%d losses after answers that were late", l.losses)
	}
	l.tell(1, 100, 900, 880)
	l.want(t, 0, longestKept, longestKept)
	l.want(t, 1, l.now-lost, l.now-lost+2*summaryInterval)
	l.now += longestKept
	l.want(t, 1, longestKept, longestKept)
}

// A loss is told at once, not when it is time to work out the terms again.
func TestRetentionTellsALossAtOnce(t *testing.T) {
	l := newListening(1, longestKept)
	l.tell(0, 60, 900, 900)
	l.plan()
	for range 10 {
		l.now += time.Millisecond
		l.hear(Outcome{Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900})
	}
	if _, less := l.plan(); len(less) != 1 || less[0].TTL > 10*time.Millisecond {
		t.Errorf("after ten failures in ten milliseconds: %+v", less)
	}
}

// One endpoint that lies does the others no harm, in clusters of any size above one.
func TestRetentionOneLiar(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		l := newListening(n, longestKept)
		for round := range 500 {
			for i := range l.cs {
				cached := int64(900)
				if i == 0 && round > 5 && round%2 == 0 {
					cached = 0
				}
				l.tell(i, 1, 900, cached)
			}
		}
		for i := 1; i < n; i++ {
			l.want(t, i, longestKept, longestKept)
		}
		l.want(t, 0, 0, longestKept/2)
		if _, less := l.plan(); len(less) != 1 {
			t.Errorf("%d endpoints keep less than the others", len(less))
		}
	}
}

// Whatever endpoints tell, what plans say stays within bounds; and honest answers put it right in the end.
func TestRetentionIsBounded(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		longest := time.Duration(1+r.IntN(7200)) * time.Second
		l := newListening(1+r.IntN(100), longest)
		for range 3000 {
			l.now += time.Duration(r.IntN(3000)) * time.Millisecond
			l.hear(Outcome{
				Addr: fmt.Sprintf("10.0.0.%d:80", r.IntN(120)), PlannedAt: l.now - time.Duration(r.IntN(20))*time.Second,
				PromptTokens: int64(r.IntN(2000)), ExpectedTokens: int64(r.IntN(2000) - 100), CachedTokens: int64(r.IntN(3)*r.IntN(2000) - 50),
			})
			ttl, less := l.plan()
			if ttl > longest || ttl < min(minTTL, longest) {
				t.Fatalf("seed %d: taken to keep things for %v of %v", seed, ttl, longest)
			}
			if len(less) > maxShortTTLs {
				t.Fatalf("seed %d: %d endpoints keep less", seed, len(less))
			}
			for _, k := range less {
				if k.TTL < 0 || k.TTL >= ttl {
					t.Fatalf("seed %d: %v is not less than %v", seed, k.TTL, ttl)
				}
			}
		}
		if len(l.endpoints) > 120 {
			t.Fatalf("seed %d: %d endpoints are kept in mind", seed, len(l.endpoints))
		}
		l.now += longest
		for range 200 {
			for i := range l.cs {
				l.tell(i, 1, 900, 900)
			}
		}
		for i, got := range l.keeps() {
			if got != longest {
				t.Fatalf("seed %d: endpoint %d recovers to %v of %v", seed, i, got, longest)
			}
		}
	}
}

// Endpoints that have gone are forgotten.
func TestRetentionForgetsTheGone(t *testing.T) {
	l := newListening(20, longestKept)
	for i := range l.cs {
		l.tell(i, 3, 900, 900)
	}
	l.cs = l.cs[:4]
	l.now += idleEndpointTTL
	l.keeps()
	if len(l.endpoints) != 4 {
		t.Errorf("%d endpoints are kept in mind", len(l.endpoints))
	}
}

// What an engine tells for one API says nothing of what it tells for another.
func TestRetentionByShape(t *testing.T) {
	l := newListening(1, longestKept)
	say := func(n int, shape prompt.API, cached int64) {
		for range n {
			l.now += time.Second
			l.hear(Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900, CachedTokens: cached, API: shape,
			})
		}
	}
	say(20, prompt.Chat, 900)
	say(100, prompt.Anthropic, 0)
	l.want(t, 0, longestKept, longestKept)
	if l.losses > 0 {
		t.Errorf("%d losses told by answers that never tell", l.losses)
	}
	say(1, prompt.Anthropic, 900)
	say(10, prompt.Anthropic, 0)
	if l.losses != 1 {
		t.Errorf("%d losses once they tell, want one", l.losses)
	}
}

// Failures that all come from one client, or one prompt, count for less than those of many: they do not void what is
// known for others, as long as some of these fare well; but where there is nobody else, a loss is noticed all the same.
func TestRetentionOfOneSource(t *testing.T) {
	for _, c := range []struct {
		sources  uint64 // of the failures
		hits     int    // of somebody else after each failure
		failures int
		losses   uint64
	}{{1, 1, 500, 0}, {1, 0, 10, 0}, {1, 0, 30, 1}, {2, 0, 10, 1}, {1000, 0, 10, 1}} {
		l := newListening(1, longestKept)
		l.tell(0, 100, 900, 900)
		for i := range c.failures {
			l.now += time.Second
			o := Outcome{Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900, Source: 1<<40 + uint64(i)%c.sources}
			l.observe(l.now, l.longest, o)
			l.tell(0, c.hits, 900, 900)
		}
		if l.losses != c.losses {
			t.Errorf("%+v: %d losses", c, l.losses)
		}
	}
}

// Policies with TTLs of their own share what is learned, and each keeps to its own: an answer under a short one says
// nothing of what is kept for longer.
func TestRetentionOfSeveralPolicies(t *testing.T) {
	l := newListening(1, longestKept)
	other := cacheSummary{}
	told := func(longest time.Duration, n int, cached int64) {
		for range n {
			l.now += time.Second
			l.source++
			l.observe(l.now, longest, Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now, PromptTokens: 1000, ExpectedTokens: 900, CachedTokens: cached, Source: l.source,
			})
		}
	}
	want := func(mine, others time.Duration) {
		t.Helper()
		l.now += summaryInterval
		ttl, _ := l.plan()
		l.summarize(l.now, 2*longestKept, l.cs, &other)
		if (ttl-mine).Abs() > 10*time.Second || (other.ttl-others).Abs() > 10*time.Second {
			t.Errorf("kept for %v and %v, want %v and %v", ttl, other.ttl, mine, others)
		}
	}
	want(longestKept, 2*longestKept)
	told(longestKept, 200, 900)
	want(longestKept, 2*longestKept)
	told(2*longestKept, 1, 0)
	want(longestKept, 2*longestKept*8/10)
	told(longestKept, 1, 0)
	want(longestKept*8/10, longestKept*8/10)
	told(longestKept, 20, 900)
	want(longestKept, longestKept)
	if keeps, _ := l.Retention(); keeps != other.ttl {
		t.Errorf("tells %v, want what was said last: %v", keeps, other.ttl)
	}
}

// Of endpoints that are not told apart the last in the list counts, as in Redis.
func TestKeepsOfTwins(t *testing.T) {
	p := Prefix{TTL: time.Hour, ShortTTL: []EndpointTTL{{7, time.Minute}, {8, time.Second}, {7, 2 * time.Minute}}}
	if got := p.keeps(7); got != 2*time.Minute {
		t.Errorf("kept for %v", got)
	}
	if got := p.keeps(9); got != time.Hour {
		t.Errorf("another is kept for %v", got)
	}
}

// One odd report does not make an endpoint one that reports: a long row of answers that tell of nothing, where
// something was expected each time, takes it back, with all that the row did. A report makes it one again; one of many
// takes a longer row.
func TestSixteenAnswersSwitchOffMatching(t *testing.T) {
	l := newListening(1, longestKept)
	l.tell(0, 1, 0, 500)
	l.tell(0, 16, 900, 0)
	l.want(t, 0, longestKept, longestKept)
	l.tell(0, 100, 900, 0)
	l.want(t, 0, longestKept, longestKept)
	l.tell(0, 1, 900, 900)
	l.tell(0, 10, 900, 0)
	l.want(t, 0, 0, longestKept/2)
	l.tell(0, 20, 900, 900)
	l.now += 4 * longestKept
	l.tell(0, 10, 900, 900)
	l.want(t, 0, longestKept, longestKept)
	l.tell(0, 100, 900, 0)
	l.want(t, 0, 0, longestKept/2)
	l.tell(0, 100, 900, 0)
	l.want(t, 0, longestKept, longestKept)
}
