package budget_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/budget"
)

// of returns the state of a target with the limits that was never used, at a time.
func of(now float64, l budget.Limits) budget.State {
	s := budget.State{}
	s.Apply(now, l)
	return s
}

func TestBucketsStartFullAndRefillContinuously(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 6000, Requests: 60}}}
	ts[0].Apply(1000, ts[0].Limits)
	if w := ts[0].Wait(6000, 0); w > 0 {
		t.Fatalf("a new bucket is not full: %g ms", w)
	}
	budget.Charge(ts, 0, 1000, 6000)
	for _, c := range []struct{ tokens, want float64 }{{6000, 60_000}, {100, 1000}, {1, 10}} {
		if w := ts[0].Wait(c.tokens, 0); w != c.want {
			t.Errorf("%g tokens in %g ms, want %g", c.tokens, w, c.want)
		}
	}
	ts[0].Advance(2000)
	if w := ts[0].Wait(100, 0); w > 0 {
		t.Errorf("100 tokens are not there after a second: %g ms", w)
	}
	ts[0].Advance(1e9)
	if !ts[0].IsUnused(2e9) || ts[0].MissingTokens != 0 || ts[0].MissingRequests != 0 {
		t.Errorf("not full after days: %+v", ts[0].State)
	}
}

func TestRequestsAreLimitedToo(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Requests: 2}}}
	ts[0].Apply(1, ts[0].Limits)
	for range 2 {
		if budget.Choose(ts, -1, 10) != 0 {
			t.Fatal("a request is refused before the limit")
		}
		budget.Charge(ts, 0, 1, 10)
	}
	if budget.Choose(ts, -1, 10) != budget.None || ts[0].Until(10) != 30_000 {
		t.Errorf("a third request in the minute: %d, %g ms", budget.Choose(ts, -1, 10), ts[0].Until(10))
	}
}

func TestRequestLargerThanTheBucketIsTakenWhenItIsFull(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 1000}}}
	ts[0].Apply(1, ts[0].Limits)
	if budget.Choose(ts, -1, 2500) != 0 {
		t.Fatal("a full bucket does not take it")
	}
	budget.Charge(ts, 0, 1, 2500)
	if w := ts[0].Wait(1, 0); w != (1500+1)*60 {
		t.Errorf("the next token is there in %g ms", w)
	}
	ts[0].Advance(1 + 2.4*60_000)
	if w := ts[0].Wait(2500, 0); w <= 0 || w > 6001 {
		t.Errorf("a bucket that is not full takes it: %g ms", w)
	}
	ts[0].Advance(1 + 2.5*60_000)
	if w := ts[0].Wait(2500, 0); w > 0 {
		t.Errorf("a full bucket does not take it again: %g ms", w)
	}
}

func TestNewRatesApplyAtOnce(t *testing.T) {
	s := of(0, budget.Limits{Weight: 1, Tokens: 6000})
	s.Settle(0, 6000)
	s.Apply(30_000, budget.Limits{Weight: 1, Tokens: 60_000}) // half of it was missing still
	if s.MissingTokens != 30_000 {
		t.Errorf("%g tokens missing after a rate was raised, want half of the bucket", s.MissingTokens)
	}
	s.Apply(30_000, budget.Limits{Weight: 1, Tokens: 1000})
	if s.MissingTokens != 500 {
		t.Errorf("%g tokens missing after a rate was lowered, want half of the bucket", s.MissingTokens)
	}
	s.Apply(60_000, budget.Limits{Weight: 1, Tokens: 1000})
	if s.MissingTokens != 0 {
		t.Errorf("%g tokens missing at the end", s.MissingTokens)
	}
	s.Apply(300_000, budget.Limits{Weight: 1})
	s.Settle(300_000, 1e6)
	if w := s.Wait(1e6, 0); w > 0 {
		t.Errorf("a target without limits waits %g ms", w)
	}
}

// A lower rate makes nobody wait for longer because of what was used at the higher one, and a higher rate is felt at
// once, also where a large request has left a debt.
func TestRatesThatChange(t *testing.T) {
	for name, c := range map[string]struct{ from, used, to, want float64 }{
		"200k used up, then 20k":         {200_000, 199_990, 20_000, 0},
		"a debt of half a minute, lower": {200_000, 300_000, 20_000, 30_003},
		"a debt of a minute, higher":     {20_000, 40_000, 400_000, 3000.15},
		"full, higher":                   {20_000, 0, 400_000, 0},
	} {
		s := of(1, budget.Limits{Weight: 1, Tokens: c.from, Requests: c.from})
		s.MissingTokens, s.MissingRequests = c.used, c.used
		s.Apply(1, budget.Limits{Weight: 1, Tokens: c.to, Requests: c.to})
		if w := max(0, s.Wait(1, 0)); math.Abs(w-c.want) > 1e-6 {
			t.Errorf("%s: a token is there in %g ms, want %g", name, w, c.want)
		}
	}
}

// Rates that go to and fro bring a bucket no tokens.
func TestRatesToAndFro(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(1, 1e6).Draw(t, "lower rate")
		high := low * rapid.Float64Range(1, 1000).Draw(t, "factor")
		s := of(1, budget.Limits{Weight: 1, Tokens: high})
		s.MissingTokens = high * rapid.Float64Range(0, 3).Draw(t, "missing, in buckets")
		wait, left := s.Wait(0, 0), s.Left().Tokens
		for range rapid.IntRange(1, 20).Draw(t, "times") {
			s.Apply(1, budget.Limits{Weight: 1, Tokens: low})
			if w := s.Wait(0, 0); w > wait*(1+1e-9) {
				t.Fatalf("waits for %g ms at a lower rate, before %g", w, wait)
			}
			s.Apply(1, budget.Limits{Weight: 1, Tokens: high})
			if l := s.Left().Tokens; l > left*(1+1e-9)+1e-9*high {
				t.Fatalf("%g tokens are left, %g before", l, left)
			}
		}
	})
}

func TestSettledByWhatWasUsed(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 60_000}}}
	ts[0].Apply(1, ts[0].Limits)
	budget.Charge(ts, 0, 1, 10_000)
	before := ts[0].State
	ts[0].Settle(1, 500)
	if ts[0].MissingTokens != before.MissingTokens+500 || ts[0].Deficit != before.Deficit-500 {
		t.Errorf("500 tokens more: %+v, before %+v", ts[0].State, before)
	}
	ts[0].Settle(1, -10_500)
	if ts[0].MissingTokens != 0 || ts[0].Deficit != before.Deficit+10_000 {
		t.Errorf("all given back: %+v", ts[0].State)
	}
	ts[0].Settle(1, -1e12)
	if ts[0].MissingTokens != 0 || ts[0].Deficit > 1e7 {
		t.Errorf("more given back than there was: %+v", ts[0].State)
	}
}

// However often reports are wrong, a deficit stays within its bounds, and the next report counts.
func TestDeficitsStayWithinBounds(t *testing.T) {
	for _, c := range []struct{ delta, bound float64 }{{1e12, -1 << 32}, {-1e12, 1 << 32}} {
		s := of(1, budget.Limits{Weight: 1, Tokens: 60_000})
		for range 3000 {
			s.Settle(1, c.delta)
		}
		if s.Deficit != c.bound {
			t.Errorf("deficit %g, want %g", s.Deficit, c.bound)
		}
		s.Settle(1, -math.Copysign(1000, c.delta))
		if want := c.bound - math.Copysign(1000, c.bound); s.Deficit != want {
			t.Errorf("deficit %g, want %g", s.Deficit, want)
		}
		beyond := budget.State{Deficit: 2 * c.bound} // by large requests; corrections leave it
		beyond.Settle(1, c.delta)
		if beyond.Deficit != 2*c.bound {
			t.Errorf("deficit %g, was %g", beyond.Deficit, 2*c.bound)
		}
	}
}

func TestCorrectedByRequests(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 6000, Requests: 60}}}
	ts[0].Apply(1, ts[0].Limits)
	budget.Charge(ts, 0, 1, 100)
	ts[0].Correct(1, 50, 1)
	if s := ts[0].State; s.MissingTokens != 150 || s.MissingRequests != 2 || s.Deficit != -50 {
		t.Errorf("one more request of 50 tokens: %+v", s)
	}
	ts[0].Refund(1, 50)
	ts[0].Refund(1, 200)
	ts[0].Refund(1, 0)
	if s := ts[0].State; s.MissingTokens != 0 || s.MissingRequests != 0 || s.Deficit != 200 {
		t.Errorf("more given back than was charged: %+v", s)
	}
	s := of(1, budget.Limits{Weight: 1})
	if s.Correct(1, 0, 1); s.MissingRequests != 0 {
		t.Errorf("without a limit %g requests are missing", s.MissingRequests)
	}
}

func TestCorrectionComesBeforeRefilling(t *testing.T) {
	s := of(0, budget.Limits{Weight: 1, Tokens: 1000})
	s.Settle(0, 1000)
	s.Settle(120_000, 500) // full for a minute by then
	if s.MissingTokens != 500 {
		t.Errorf("%g tokens missing, want 500", s.MissingTokens)
	}
}

func TestRestrictedByTheTargetsOwnWord(t *testing.T) {
	limits := budget.Limits{Weight: 1, Tokens: 60_000, Requests: 60}
	unlimited, unknown := budget.Limits{Weight: 1}, budget.Restriction{Tokens: -1, Requests: -1}
	for name, c := range map[string]struct {
		limits budget.Limits
		set    func(r *budget.Restriction)
		want   float64 // ms until it takes 1000 tokens
	}{
		"nothing":         {limits, func(*budget.Restriction) {}, 0},
		"retry after":     {limits, func(r *budget.Restriction) { r.RetryAfter = 1500*time.Millisecond + 1 }, 1501},
		"tokens":          {limits, func(r *budget.Restriction) { r.Tokens = 400 }, 600},
		"plenty":          {limits, func(r *budget.Restriction) { r.Tokens = 1e9; r.Requests = 1e9 }, 0},
		"requests":        {limits, func(r *budget.Restriction) { r.Requests = 0 }, 1000},
		"no limit of its": {unlimited, func(r *budget.Restriction) { r.Tokens, r.TokensReset = 0, 7e9 }, 7000},
		"some left":       {unlimited, func(r *budget.Restriction) { r.Tokens, r.TokensReset = 1, 7e9 }, 0},
		"no requests":     {unlimited, func(r *budget.Restriction) { r.Requests, r.RequestsReset = 0, 2e9 }, 2000},
		"a year":          {limits, func(r *budget.Restriction) { r.RetryAfter = 365 * 24 * time.Hour }, 3_600_000},
	} {
		r, s := unknown, of(5, c.limits)
		c.set(&r)
		s.Restrict(5, &r)
		if w := max(0, s.Wait(1000, 0)); w != c.want {
			t.Errorf("%s: takes 1000 tokens in %g ms, want %g", name, w, c.want)
		}
		s.Advance(5 + c.want)
		if w := s.Wait(1000, 0); w > 0 {
			t.Errorf("%s: closed for %g ms more after the time", name, w)
		}
		again := unknown
		again.Tokens, again.Requests = 1e9, 1e9
		before := s
		if s.Restrict(5+c.want, &again); s != before {
			t.Errorf("%s: a target that has more: %+v, before %+v", name, s, before)
		}
	}
}

func TestClockThatIsSetBack(t *testing.T) {
	s := of(1e9, budget.Limits{Weight: 1, Tokens: 1000})
	s.Settle(1e9, 1000)
	s.Advance(1e9 - 900) // another worker read the clock before
	s.Advance(1e9 + 6000)
	if s.MissingTokens != 900 {
		t.Errorf("%g tokens missing after 6 s, want 900", s.MissingTokens)
	}
	s.Restrict(1e9+6000, &budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: 10 * time.Second})
	s.Advance(1e6)
	s.Advance(1e6 + 6000)
	if s.MissingTokens != 800 || s.Closed != 4000 {
		t.Errorf("6 s after the clock was set back: %+v", s)
	}
}

func TestExpectedRelease(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1}, Full: true}}
	if u := ts[0].Until(1); u != 250 {
		t.Errorf("nothing known: %g ms", u)
	}
	for i := range 50 {
		budget.Charge(ts, 0, 1000+float64(i)*700, 1)
	}
	if u := ts[0].Until(1); math.Abs(u-700) > 1 {
		t.Errorf("takes one in 700 ms: %g ms", u)
	}
	ts[0].Ahead.Count = 3
	if u := ts[0].Until(1); math.Abs(u-4*700) > 4 {
		t.Errorf("behind three others: %g ms", u)
	}
	budget.Charge(ts, 0, 1e9, 1)
	if u := ts[0].Until(1); u != 5000 {
		t.Errorf("after a pause: %g ms", u)
	}
}

func TestRefusals(t *testing.T) {
	rs := budget.Refusals{}
	rs = rs.Remember(&budget.Refusal{Key: 1, Since: 1000, Expires: 9000, Tokens: 500, Row: 3})
	rs = rs.Remember(&budget.Refusal{Key: 2, Since: 1500, Expires: 4000, Tokens: 100, Row: 3})
	rs = rs.Remember(&budget.Refusal{Key: 3, Since: 1500, Expires: 4000, Tokens: 100, Row: 4})
	rs = rs.Remember(&budget.Refusal{Key: 1, Since: 2000, Expires: 9000, Tokens: 500, Row: 3})
	if a, ahead := rs.Aside(3000, len(rs), 3, 0, 100); a != 200+100 || ahead != (budget.Ahead{Count: 2, Growth: 100}) {
		t.Errorf("%g tokens aside, want 300: 2 s for one, all of the other", a)
	}
	if a, ahead := rs.Aside(3000, rs.Find(2), 3, 0, 100); a != 200 || ahead.Count != 1 {
		t.Errorf("%g tokens aside for who came before", a)
	}
	if a, _ := rs.Aside(1e9, rs.Find(2), 3, 400, 100); a != 400 {
		t.Errorf("%g tokens aside of a bucket of 400", a)
	}
	rs = rs.Expire(4000)
	if len(rs) != 1 || rs[0].Key != 1 || rs[0].Since != 1000 {
		t.Errorf("left: %+v", rs)
	}
	if rs = rs.Forget(7); len(rs) != 1 {
		t.Error("another one was forgotten")
	}
	if rs = rs.Forget(1); len(rs) != 0 {
		t.Error("not forgotten")
	}
	for i := range 2 * budget.MaxRefusals {
		rs = rs.Remember(&budget.Refusal{Key: uint64(i), Expires: 10})
	}
	if len(rs) != budget.MaxRefusals || rs[0].Key != 0 {
		t.Errorf("%d remembered, from %d on", len(rs), rs[0].Key)
	}
	if rs = rs.Expire(-1e6); len(rs) != 0 {
		t.Errorf("%d are expected after the clock was set back", len(rs))
	}
}

// A refusal that waits at its caller's share, of no tokens, has a place as long as no other needs it.
func TestRefusalsAtAShare(t *testing.T) {
	var rs budget.Refusals
	for i := range budget.MaxRefusals {
		rs = rs.Remember(&budget.Refusal{Key: uint64(1 + i), Expires: 10, Tokens: float64(i % 2)})
	}
	if _, a := rs.Aside(0, len(rs), 0, 0, 1); a.Count != budget.MaxRefusals/2 || a.AtShare != budget.MaxRefusals/2 {
		t.Errorf("%+v are ahead", a)
	}
	if rs.HasRoom(true) || !rs.HasRoom(false) {
		t.Error("one that waits at its share has room, or another has none")
	}
	if rs = rs.Remember(&budget.Refusal{Key: 100, Expires: 10}); rs.Find(100) < len(rs) {
		t.Error("one that waits at its share took the place of another")
	}
	for i := range budget.MaxRefusals / 2 {
		key, out := uint64(101+i), uint64(budget.MaxRefusals-1-2*i)
		rs = rs.Remember(&budget.Refusal{Key: key, Expires: 10, Tokens: 1})
		if len(rs) != budget.MaxRefusals || rs.Find(key) != len(rs)-1 || rs.Find(out) < len(rs) {
			t.Fatalf("the place of %d is not that of %d", out, key)
		}
	}
	if rs.HasRoom(false) || rs.Find(2) == len(rs) {
		t.Error("there is room, or one that does not wait at its share made room")
	}
}

// Of many requests after a closure that was cut short one is taken, until the target has had time to refuse it.
func TestOneRequestAsks(t *testing.T) {
	ts := []budget.Target{{Limits: budget.Limits{Weight: 1, Tokens: 60_000}}}
	ts[0].Apply(1, ts[0].Limits)
	long := &budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Hour, MaxClosed: time.Minute}
	ts[0].Restrict(1, long)
	serve := func(now float64) (n int) {
		for range 100 {
			ts[0].Apply(now, ts[0].Limits)
			if budget.Choose(ts, -1, 10) == 0 {
				budget.Charge(ts, 0, now, 10)
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		now  float64
		want int
		says bool // that it is closed
	}{
		{60_000, 0, false},
		{60_001, 1, true},
		{120_000, 0, false},
		{300_000, 1, true},
		{360_000, 1, false},
		{362_999, 0, false},
		{363_000, 100, false},
	} {
		if n := serve(c.now); n != c.want {
			t.Errorf("at %g ms %d requests are taken, want %d", c.now, n, c.want)
		}
		if c.says {
			ts[0].Restrict(c.now, long)
		}
	}
	ts[0].Restrict(400_000, long)
	if s := ts[0].State; s.IsUnused(3_900_000) || !s.IsUnused(4_000_000) {
		t.Error("that it asks is forgotten within an hour, or never")
	}
}
