package cache

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

func addrOf(i int) string { return fmt.Sprintf("10.0.0.%d:80", i+1) }

// drawAnswer draws an answer of one of three endpoints, half of them streamed.
func drawAnswer(rt *rapid.T) lb.Outcome {
	o := lb.Outcome{
		Addr:          addrOf(rapid.IntRange(0, 2).Draw(rt, "endpoint")),
		CountedTokens: int64(rapid.IntRange(0, 4000).Draw(rt, "tokens")),
	}
	if rapid.Bool().Draw(rt, "streamed") {
		o.TTFT = time.Duration(rapid.IntRange(1, 4000).Draw(rt, "TTFT ms")) * time.Millisecond
		o.Duration = o.TTFT + time.Duration(rapid.IntRange(0, 60_000).Draw(rt, "rest ms"))*time.Millisecond
	}
	return o
}

// threeEqual returns three candidates that differ in their addresses alone.
func threeEqual() (cs []lb.Candidate) {
	for i := range 3 {
		cs = append(cs, lb.Candidate{Addr: addrOf(i), Slope: 1, Weight: 1})
	}
	return cs
}

// Growth is between none and that of an endpoint whose requests all wait for prefill, and the load of a request is a
// quarter of what requests counted for.
func TestAnswerStatsAreBounded(t *testing.T) {
	cs := threeEqual()
	rapid.Check(t, func(rt *rapid.T) {
		s, now := newAnswerStats(), time.Hour
		low, high := int64(math.MaxInt64), int64(0)
		for range rapid.IntRange(0, 60).Draw(rt, "answers") {
			now += time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond
			o := drawAnswer(rt)
			if o.CountedTokens > 0 {
				low, high = min(low, o.CountedTokens), max(high, o.CountedTokens)
			}
			s.observe(now, &o)
			for _, growth := range s.creditGrowth(now, cs) {
				if !(growth >= 0 && growth <= growthPerWaiting) {
					rt.Fatalf("credit grows by %v", growth)
				}
			}
			if per := s.perRequest(); high > 0 && (per < low/4-1 || per > high/4) || high == 0 && per != 0 {
				rt.Fatalf("a request is %d tokens, they counted %d to %d", per, low, high)
			}
		}
	})
}

// The unit of time has no effect: if all answers take twice as long, as many requests wait for prefill.
func TestCreditGrowthDoesNotDependOnTheSpeed(t *testing.T) {
	cs := threeEqual()
	rapid.Check(t, func(rt *rapid.T) {
		s, slow := newAnswerStats(), newAnswerStats()
		for _, o := range rapid.SliceOfN(rapid.Custom(drawAnswer), 1, 50).Draw(rt, "answers") {
			s.observe(time.Hour, &o)
			o.TTFT, o.Duration = 2*o.TTFT, 2*o.Duration
			slow.observe(time.Hour, &o)
		}
		a, b := s.creditGrowth(time.Hour, cs), slow.creditGrowth(time.Hour, cs)
		for tier := range a {
			if math.Abs(a[tier]-b[tier]) > 1e-9 {
				rt.Fatalf("tier %d: credit grows by %v, at half the speed by %v", tier, a[tier], b[tier])
			}
		}
	})
}

// One more candidate can only lower the growth of its own tier, since requests can be sent there.
func TestCreditGrowthOfMoreCandidates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newAnswerStats()
		for _, o := range rapid.SliceOfN(rapid.Custom(drawAnswer), 1, 50).Draw(rt, "answers") {
			s.observe(time.Hour, &o)
		}
		for addr := range s.times { // all are known for long
			s.times[addr].firstSeen = 0
		}
		var cs []lb.Candidate
		for i := range rapid.IntRange(1, 2).Draw(rt, "candidates") {
			if _, known := s.times[addrOf(i)]; known {
				cs = append(cs, lb.Candidate{Addr: addrOf(i), Tier: uint8(rapid.IntRange(0, 1).Draw(rt, "tier"))})
			}
		}
		if _, known := s.times[addrOf(2)]; !known || len(cs) == 0 {
			return
		}
		more := append(cs[:len(cs):len(cs)], lb.Candidate{Addr: addrOf(2), Tier: cs[0].Tier})
		a, b := s.creditGrowth(time.Hour, cs), s.creditGrowth(time.Hour, more)
		for tier := range a {
			if uint8(tier) == cs[0].Tier && b[tier] > a[tier] || uint8(tier) != cs[0].Tier && b[tier] != a[tier] {
				rt.Fatalf("tier %d: %v, with one more in tier %d %v", tier, a[tier], cs[0].Tier, b[tier])
			}
		}
	})
}

// Whatever engines report of their caches, the TTL of each endpoint is between the shortest that is learned and the
// configured one, and at most maxShortTTLs are listed.
func TestTTLsOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		longest := time.Duration(rapid.IntRange(64, 7200).Draw(rt, "longest")) * time.Second
		l := newTestTracker(rapid.IntRange(1, 5).Draw(rt, "endpoints"), longest)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			l.now += time.Duration(rapid.IntRange(0, 100).Draw(rt, "s")) * time.Second
			expected := int64(rapid.IntRange(0, 1000).Draw(rt, "expected"))
			cached := rapid.SampledFrom([]int64{0, 0, expected / 3, expected, 1000}).Draw(rt, "cached")
			l.answer(lb.Outcome{
				Addr:         rapid.SampledFrom(l.cs).Draw(rt, "endpoint").Addr,
				PlannedAt:    l.now - time.Duration(rapid.IntRange(0, 60).Draw(rt, "took"))*time.Second,
				PromptTokens: 1000, ExpectedTokens: expected, CachedTokens: cached,
			})
			ttl, short := l.plan()
			if ttl > longest || ttl < min(minTTL, longest) || len(short) > min(maxShortTTLs, len(l.cs)) {
				rt.Fatalf("TTL %v of %v, %d shorter ones", ttl, longest, len(short))
			}
			for _, e := range short {
				if e.TTL < 0 || e.TTL > ttl {
					rt.Fatalf("a shorter TTL than %v is %v", ttl, e.TTL)
				}
			}
			if known, _ := l.Retention(); known != ttl {
				rt.Fatalf("the TTL of the latest plan is %v, reported %v", ttl, known)
			}
		}
	})
}

// An endpoint whose predictions all come true has the configured TTL, and one that has lost its cache keeps only what
// was recorded since.
func TestTTLAfterLosses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newTestTracker(3, longestTTL)
		for range rapid.IntRange(10, 40).Draw(rt, "hits") {
			l.answers(rapid.IntRange(0, 2).Draw(rt, "endpoint"), 1, 900, 900)
		}
		l.answers(0, 30, 900, 900)
		l.now += summaryInterval
		if ttl, short := l.plan(); ttl != longestTTL || len(short) > 0 {
			rt.Fatalf("after hits only, the TTL is %v, and of some endpoints %v", ttl, short)
		}
		misses := rapid.IntRange(12, 20).Draw(rt, "misses")
		l.answers(0, misses, 900, 0)
		_, losses := l.Retention()
		own := l.ttls()[0]
		if losses == 0 || own > time.Duration(misses+2)*time.Second || l.ttls()[1] != longestTTL {
			rt.Fatalf("after %d misses in a row, %d losses, TTLs %v", misses, losses, l.ttls())
		}
	})
}
