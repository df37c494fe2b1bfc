package cache

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// one is a list with one candidate.
var one = []lb.Candidate{{Addr: "10.0.0.1:80", Slope: 1, Weight: 1}}

// answerOf returns an answer whose TTFT is the given part of its duration.
func answerOf(addr string, part float64) *lb.Outcome {
	return &lb.Outcome{
		Addr: addr, Verdict: lb.Success, CountedTokens: 400, TTFT: max(1, time.Duration(part*2e9)),
		Duration: 2 * time.Second,
	}
}

// growthOf returns the growth of the credit for requests of the first tier.
func growthOf(s *answerStats, now time.Duration, cs []lb.Candidate) float64 {
	return s.creditGrowth(now, cs)[0]
}

func newAnswerStats() *answerStats { return &answerStats{times: map[string]*answerTimes{}} }

// The higher the TTFT relative to the duration, the more each request in flight raises the credit.
func TestCreditGrowthFollowsTTFT(t *testing.T) {
	for part, want := range map[float64]float64{
		0: 0, 0.25: growthPerWaiting / 16.0, 0.5: growthPerWaiting / 4.0,
		1: growthPerWaiting,
	} {
		p := newAnswerStats()
		for range 100 {
			p.observe(0, answerOf(one[0].Addr, part))
		}
		if got := growthOf(p, 0, one); got < want-1e-6 || got > want+1e-6 {
			t.Errorf("TTFT after %v of the duration: %.3f, want %.3f", part, got, want)
		}
	}
}

// Old answers lose their effect.
func TestCreditGrowthFalls(t *testing.T) {
	p := newAnswerStats()
	for _, part := range []float64{1, 0} {
		for range 10 * averagedAnswers {
			p.observe(0, answerOf(one[0].Addr, part))
		}
	}
	if got := growthOf(p, 0, one); got > 0.01 {
		t.Errorf("%.3f long after the last has waited, want 0", got)
	}
}

// The credit does not grow while requests do not wait at one candidate, or one is unknown. An endpoint that is not a
// candidate has no effect, and is forgotten in time.
func TestCreditGrowthIsTheLowest(t *testing.T) {
	const busy, quick, gone = "busy", "quick", "gone"
	p := newAnswerStats()
	p.observe(0, answerOf(gone, 0.01))
	for range 100 {
		p.observe(0, answerOf(busy, 0.5))
		p.observe(0, answerOf(quick, 0.1))
	}
	for _, tc := range []struct {
		names []string
		want  float64
	}{
		{[]string{busy}, growthPerWaiting * 0.25},
		{[]string{busy, quick}, growthPerWaiting * 0.01},
		{[]string{quick, busy}, growthPerWaiting * 0.01},
		{[]string{busy, "new"}, 0},
	} {
		var cs []lb.Candidate
		for _, name := range tc.names {
			cs = append(cs, lb.Candidate{Addr: name})
		}
		if got := growthOf(p, 0, cs); got < tc.want-1e-6 || got > tc.want+1e-6 {
			t.Errorf("%v: %.3f, want %.3f", tc.names, got, tc.want)
		}
	}
	now := []lb.Candidate{{Addr: busy}, {Addr: quick}}
	at := func(t *answerTimes) time.Duration { return t.lastAt }
	pruneIdle(p.times, idleEndpointTTL, now, at)
	if len(p.times) != 4 { // with the new one
		t.Error("forgotten before its time")
	}
	pruneIdle(p.times, idleEndpointTTL+1, now, at)
	if len(p.times) != 2 || p.times[gone] != nil {
		t.Errorf("%d endpoints are known, want those two that are there", len(p.times))
	}
}

// One client that reads its answer slowly hardly changes what is known of the endpoint, whether it is the first of it
// or comes later.
func TestSlowReader(t *testing.T) {
	const quick, slow = "quick", "slow"
	for _, before := range []int{0, 1, 10, 1000} {
		p := newAnswerStats()
		for range 100 {
			p.observe(0, answerOf(quick, 0.5))
		}
		for range before {
			p.observe(0, answerOf(slow, 0.5))
		}
		read := answerOf(slow, 0.5)
		read.Duration = 10 * time.Minute
		p.observe(0, read)
		for range 64 {
			p.observe(0, answerOf(slow, 0.5))
		}
		got, want := growthOf(p, 0, []lb.Candidate{{Addr: quick}, {Addr: slow}}), growthPerWaiting/4.0
		if got < 0.7*want || got > want { // one answer may add half a mean, of which a third is left 64 answers later
			t.Errorf("a slow reader after %d answers: %.3f, want about %.3f", before, got, want)
		}
	}
}

// A few long answers among many short ones count with their real lengths, in whatever order they come.
func TestFewLongAnswers(t *testing.T) {
	long := &lb.Outcome{Addr: one[0].Addr, CountedTokens: 1, TTFT: 300 * time.Millisecond, Duration: 30 * time.Second}
	short := &lb.Outcome{Addr: one[0].Addr, CountedTokens: 1, TTFT: time.Second / 10, Duration: time.Second / 5}
	rng := rand.New(rand.NewPCG(1, 2))
	p := newAnswerStats()
	sum, n := 0.0, 0
	for i := range 20_000 {
		o := short
		if rng.IntN(10) == 0 {
			o = long
		}
		p.observe(0, o)
		if i >= 1000 {
			sum, n = sum+growthOf(p, 0, one), n+1
		}
	}
	share := (0.9*0.1 + 0.1*0.3) / (0.9*0.2 + 0.1*30)
	if got, want := sum/float64(n), growthPerWaiting*share*share; got > 2*want {
		t.Errorf("%.4f for each request in the mean, want about %.4f", got, want)
	}
}

// When answers become longer, the mean follows.
func TestCreditGrowthFollowsLongAnswers(t *testing.T) {
	p := newAnswerStats()
	for _, seconds := range []time.Duration{1, 60} {
		for range 3 * averagedAnswers {
			p.observe(0, &lb.Outcome{
				Addr: one[0].Addr, CountedTokens: 1, TTFT: time.Second, Duration: seconds * time.Second,
			})
		}
	}
	if got := growthOf(p, 0, one); got > growthPerWaiting/900.0 {
		t.Errorf("%.4f, want little more than %.4f", got, growthPerWaiting/3600.0)
	}
}

// A candidate that never streams an answer keeps the credit from growing only while it is new. If all are like that, it
// does not grow.
func TestCandidateWithoutStreamedAnswers(t *testing.T) {
	const busy, silent = "busy", "silent"
	p := newAnswerStats()
	for range 100 {
		p.observe(0, answerOf(busy, 0.5))
	}
	both := []lb.Candidate{{Addr: silent}, {Addr: busy}}
	for _, tc := range []struct {
		after time.Duration
		cs    []lb.Candidate
		want  float64
	}{
		{0, both, 0},
		{newEndpointTime - 1, both, 0},
		{newEndpointTime, both, growthPerWaiting / 4.0},
		{newEndpointTime, both[:1], 0},
	} {
		if got := growthOf(p, time.Hour+tc.after, tc.cs); got < tc.want-1e-6 || got > tc.want+1e-6 {
			t.Errorf("%v after it was added: %.3f, want %.3f", tc.after, got, tc.want)
		}
	}
}

// Answers with an unknown load have no effect. Answers in one part have no TTFT, and leave the mean times unchanged,
// however many they are.
func TestAnswersWithoutTokens(t *testing.T) {
	p := newAnswerStats()
	unknown := answerOf(one[0].Addr, 0.5)
	unknown.CountedTokens = 0
	if p.observe(0, unknown); p.answers > 0 || len(p.times) > 0 {
		t.Errorf("%+v after an answer without information", p)
	}
	for range 100 {
		p.observe(0, answerOf(one[0].Addr, 0.5))
	}
	before := growthOf(p, 0, one)
	for range 100_000 {
		p.observe(0, &lb.Outcome{Addr: one[0].Addr, CountedTokens: 800})
	}
	if growthOf(p, 0, one) != before || before == 0 || p.perRequest() < 199 || p.perRequest() > 200 {
		t.Errorf("after answers in one piece: %.3f and %d tokens a request, want %.3f and 200",
			growthOf(p, 0, one), p.perRequest(), before)
	}
}

// The credit is twice as high where caches evict long before the configured TTL.
func TestDisplacementFactor(t *testing.T) {
	const longest = time.Hour
	for ttl, want := range map[time.Duration]float64{
		longest: 1, 2 * longest: 1, longest / 2: 1.5,
		longest / 100: 1.99,
	} {
		b := Summary{TTL: ttl}
		if got := b.DisplacementFactor(longest); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("a TTL of %v: %.2f times, want %.2f", ttl, got, want)
		}
	}
}

// A conversation's own part is worth more while hardly any request waits for prefill; not where that is unknown, nor
// where endpoints evict what they hold.
func TestOwnGain(t *testing.T) {
	of := func(waiting float64) []float64 { return []float64{growthPerWaiting * waiting * waiting} }
	for name, c := range map[string]struct {
		growth []float64
		tier   uint8
		ttl    time.Duration
		want   float64
	}{
		"nobody waits":       {of(1e-9), 0, longestTTL, 1},
		"half of the most":   {of(maxIdleWaiting / 2), 0, longestTTL, 0.5},
		"the most":           {of(maxIdleWaiting), 0, longestTTL, 0},
		"all wait":           {of(1), 0, longestTTL, 0},
		"not known":          {of(0), 0, longestTTL, 0},
		"a tier that is new": {of(1e-9), 1, longestTTL, 0},
		"prompts are lost":   {of(1e-9), 0, longestTTL - 1, 0},
	} {
		s := Summary{TTL: c.ttl, creditGrowth: c.growth}
		if got := s.OwnGain(c.tier, longestTTL); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}
