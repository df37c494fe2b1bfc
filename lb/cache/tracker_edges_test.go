package cache

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// reported returns a tracker of one endpoint that has often reported cached tokens.
func reported() *testTracker {
	l := newTestTracker(1, longestTTL)
	l.answers(0, 20, 900, 900)
	return l
}

// An answer counts from minPredicted expected tokens on, and only with its usage. A hit is half of what was expected.
func TestAnswersThatCount(t *testing.T) {
	for name, c := range map[string]struct {
		o        lb.Outcome
		shortens bool
	}{
		"nothing found":             {lb.Outcome{PromptTokens: 1000, ExpectedTokens: 900}, true},
		"no usage":                  {lb.Outcome{ExpectedTokens: 900}, false},
		"few tokens expected":       {lb.Outcome{PromptTokens: 1000, ExpectedTokens: minPredicted - 1}, false},
		"enough tokens expected":    {lb.Outcome{PromptTokens: 1000, ExpectedTokens: minPredicted}, true},
		"half of it found":          {lb.Outcome{PromptTokens: 1000, ExpectedTokens: 900, CachedTokens: 450}, false},
		"less than half of it":      {lb.Outcome{PromptTokens: 1000, ExpectedTokens: 900, CachedTokens: 449}, true},
		"more found than expected":  {lb.Outcome{PromptTokens: 1000, ExpectedTokens: 10, CachedTokens: 900}, false},
		"nothing expected or found": {lb.Outcome{PromptTokens: 1000}, false},
	} {
		l := reported()
		for range 3 {
			l.now += time.Second
			c.o.Addr, c.o.PlannedAt = l.cs[0].Addr, l.now
			l.answer(c.o)
		}
		if got := l.ttls()[0]; (got < longestTTL) != c.shortens {
			t.Errorf("%s: a TTL of %v", name, got)
		}
	}
}

// A loss is also found by predictions of the fewest tokens that count.
func TestLossOfSmallPrompts(t *testing.T) {
	l := reported()
	l.answers(0, 12, minPredicted, 0)
	if l.losses == 0 {
		t.Error("no loss is found")
	}
}

// A request that was planned at the moment of a cut, or of a loss, is judged by it; one planned before is not.
func TestPlannedAtTheMomentOfACut(t *testing.T) {
	for before, want := range map[time.Duration]float64{0: ttlCut * ttlCut, 1: ttlCut} {
		l := reported()
		at := l.now
		for range 2 {
			l.answer(lb.Outcome{Addr: l.cs[0].Addr, PlannedAt: at, PromptTokens: 1000, ExpectedTokens: 900})
			at -= before
		}
		if got := l.ttls()[0]; math.Abs(float64(got)/float64(longestTTL)-want) > 0.001 {
			t.Errorf("%d ns before: %v, want %.2f of %v", before, got, want, longestTTL)
		}
	}
	for before, want := range map[time.Duration]uint64{0: 2, 1: 1} {
		l := reported()
		for l.losses == 0 {
			l.answers(0, 1, 900, 0)
		}
		for range 15 {
			l.answer(lb.Outcome{
				Addr: l.cs[0].Addr, PlannedAt: l.now - before, PromptTokens: 1000, ExpectedTokens: 900,
			})
		}
		if l.losses != want {
			t.Errorf("%d ns before a loss: %d losses, want %d", before, l.losses, want)
		}
	}
}

// The test for a loss adds the logarithm of how much likelier an outcome is with a lost cache, never below 0.
func TestEvidenceOfALoss(t *testing.T) {
	const miss = 0.1
	hit, failure := math.Log((1-lostMissRate)/(1-miss)), math.Log(lostMissRate/miss)
	for name, c := range map[string]struct {
		e    endpointCache
		hit  bool
		odds float64
		rate float64
	}{
		"hit":     {endpointCache{}, true, 5 + hit, miss - miss*missRateGain},
		"failure": {endpointCache{}, false, 5 + failure, miss + (1-miss)*missRateGain},
		"one source": {
			endpointCache{lastMissSource: 7}, false, 5 + failure*repeatSourceWeight, miss + (1-miss)*missRateGain,
		},
		"two sources": {endpointCache{lastMissSource: 8}, false, 5 + failure, miss + (1-miss)*missRateGain},
	} {
		c.e.missRate, c.e.logOdds = miss, 5
		if lost := c.e.detectLoss(c.hit, 7); lost || math.Abs(c.e.logOdds-c.odds) > 1e-9 ||
			math.Abs(c.e.missRate-c.rate) > 1e-9 {
			t.Errorf("%s: log-odds %v, miss rate %v, want %v and %v", name, c.e.logOdds, c.e.missRate, c.odds, c.rate)
		}
	}
	e := endpointCache{}
	if e.detectLoss(true, 7); e.logOdds != 0 {
		t.Errorf("log-odds %v", e.logOdds)
	}
}

// The first answer of all has its real duration. The next 16 of an endpoint count for at most 4 times what is known,
// later ones for 32 times.
func TestBoundOfDurations(t *testing.T) {
	answer := func(seconds time.Duration) *lb.Outcome {
		return &lb.Outcome{Addr: "a", CountedTokens: 1, TTFT: time.Second / 2, Duration: seconds * time.Second}
	}
	p := newAnswerStats()
	if p.observe(0, answer(100)); p.times["a"].meanDuration != 100 {
		t.Errorf("the first answer counts for %v s, want 100", p.times["a"].meanDuration)
	}
	for before, want := range map[int]float64{1: 4, fewAnswers - 1: 4, fewAnswers: 32, fewAnswers + 1: 32} {
		p := newAnswerStats()
		for range before {
			p.observe(0, answer(1))
		}
		p.observe(0, answer(1000))
		if got := 1 + (p.times["a"].meanDuration-1)*float64(before+1); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %d answers: %v s, want %v", before, got, want)
		}
	}
}

// A period of a burst has as many requests as there are endpoints, 64 at most. A count is halved with each.
func TestPeriodsOfABurst(t *testing.T) {
	for endpoints, want := range map[int]int{1: 1, 5: 5, 64: 64, 65: 64, 1000: 64} {
		var b burstSketch
		n := 0
		for b.period == 0 {
			b.advance(endpoints)
			n++
		}
		if n != want {
			t.Errorf("%d endpoints: a period of %d requests, want %d", endpoints, n, want)
		}
	}
	for periods, want := range []int{10, 5, 2, 1, 0, 0} {
		var b burstSketch
		var cell uint16
		for range 10 {
			b.count(&cell)
		}
		for range periods {
			b.advance(1)
		}
		if got := b.count(&cell); got != want {
			t.Errorf("a count of 10 is %d after %d periods, want %d", got, periods, want)
		}
	}
}

// A loss that is told applies at once, also to a plan of a moment ago and to an endpoint without answers. Told again it
// is nothing new, it is not counted as found in answers, and what was recorded later counts.
func TestRetentionIsToldOfALoss(t *testing.T) {
	l := newTestTracker(3, longestTTL)
	l.answers(0, 20, 900, 880)
	l.ttls()
	at := l.now
	for range 3 {
		l.Lose(l.cs[0].Addr, at)
		l.Lose(l.cs[1].Addr, at)
		l.Lose(l.cs[1].Addr, at-time.Minute)
		if _, short := l.plan(); len(short) != 2 || short[0].TTL != l.now-at || short[1].TTL != l.now-at {
			t.Fatalf("%v after the loss: %v", l.now-at, short)
		}
		l.now += 10 * time.Second
	}
	l.want(t, 2, longestTTL, longestTTL)
	l.answer(lb.Outcome{Addr: l.cs[0].Addr, PlannedAt: at - 1, PromptTokens: 1000, ExpectedTokens: 900})
	l.answers(0, 20, 900, 880)
	if _, losses := l.Retention(); losses != 0 || l.endpoints[l.cs[0].Addr].ttlAt(l.now) < longestTTL {
		t.Errorf("%d losses, a TTL of %v: an answer planned before the loss counts", losses,
			l.endpoints[l.cs[0].Addr].ttlAt(l.now))
	}
}
