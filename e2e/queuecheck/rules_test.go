package queuecheck_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

// story builds a history by hand: one endpoint e of one request, and another f.
type story struct{ queuecheck.History }

func (s *story) add(at int, e queuecheck.Event) {
	e.At = time.Duration(at) * ms
	s.History = append(s.History, e)
}

func (s *story) enter(at int, id uint64, change func(*queuecheck.Request)) {
	r := queuecheck.Request{Class: "high", Endpoints: []string{"e"}}
	if change != nil {
		change(&r)
	}
	s.add(at, queuecheck.Event{Kind: queuecheck.Entered, ID: id, Request: r})
}

func (s *story) grant(at int, id uint64, endpoint string) {
	s.add(at, queuecheck.Event{Kind: queuecheck.Granted, ID: id, Endpoint: endpoint})
}

func (s *story) release(at int, id uint64) {
	s.add(at, queuecheck.Event{Kind: queuecheck.Released, ID: id})
}

func (s *story) refuse(at int, id uint64, code string) {
	s.add(at, queuecheck.Event{Kind: queuecheck.Refused, ID: id, Code: code})
}

// full returns a story in which request 1 holds e since 0 and request 2 waits since 10.
func full(change func(*queuecheck.Request)) *story {
	s := &story{}
	for _, e := range []string{"e", "f"} {
		s.add(0, queuecheck.Event{Kind: queuecheck.Capped, Endpoint: e, Cap: 1})
	}
	s.enter(0, 1, nil)
	s.grant(0, 1, "e")
	s.enter(10, 2, change)
	return s
}

func (s *story) move(at int, id uint64, endpoint string, tokens int64) {
	s.add(at, queuecheck.Event{Kind: queuecheck.Moved, ID: id, Endpoint: endpoint, Tokens: tokens})
}

// grantFor grants e to a request that counts for so many tokens.
func (s *story) grantFor(at int, id uint64, tokens int64) {
	s.add(at, queuecheck.Event{Kind: queuecheck.Granted, ID: id, Endpoint: "e", Tokens: tokens})
}

// inTokens returns a story in which request 1 holds e for so many tokens since 0, whose cap in tokens is 99, and
// request 2 waits since 10.
func inTokens(tokens int64, limit int) *story {
	s := &story{}
	s.add(0, queuecheck.Event{Kind: queuecheck.Capped, Endpoint: "e", Cap: limit, Tokens: 99})
	s.enter(0, 1, nil)
	s.grantFor(0, 1, tokens)
	s.enter(10, 2, nil)
	return s
}

func class(name string) func(*queuecheck.Request) {
	return func(r *queuecheck.Request) { r.Class = name }
}

func tenant(name string) func(*queuecheck.Request) {
	return func(r *queuecheck.Request) { r.Tenant = name }
}

// ruleCases are histories that break one rule, and none when mended.
var ruleCases = []struct {
	rule   string
	story  func() *story
	mend   func(s *story)
	strict bool
}{
	{rule: queuecheck.RuleOnce, story: func() *story {
		s := full(nil)
		s.release(20, 1)
		s.grant(20, 2, "e")
		s.grant(30, 2, "e")
		return s
	}, mend: drop(30)},
	{rule: queuecheck.RuleOnce, story: func() *story {
		s := full(nil)
		s.refuse(20, 2, "")
		s.refuse(30, 2, "")
		return s
	}, mend: drop(30)},
	{rule: queuecheck.RuleOnce, story: func() *story {
		s := full(nil)
		s.add(20, queuecheck.Event{Kind: queuecheck.Left, ID: 2})
		s.grant(30, 9, "f")
		return s
	}, mend: drop(30)},
	{rule: queuecheck.RuleOnce, story: func() *story {
		s := full(nil)
		s.release(20, 2)
		s.refuse(30, 2, "")
		return s
	}, mend: drop(20)},
	{
		rule: queuecheck.RuleLost, story: func() *story { return full(nil) },
		mend: func(s *story) { s.refuse(40, 2, "") },
	},
	{rule: queuecheck.RuleAllowed, story: func() *story {
		s := full(nil)
		s.grant(20, 2, "f")
		return s
	}, mend: func(s *story) { s.release(20, 1); s.History[len(s.History)-2].Endpoint = "e" }},
	{rule: queuecheck.RuleCap, story: func() *story {
		s := full(nil)
		s.grant(20, 2, "e")
		return s
	}, mend: func(s *story) { s.release(20, 1) }},
	{rule: queuecheck.RuleCap, story: func() *story {
		s := full(nil)
		s.add(20, queuecheck.Event{Kind: queuecheck.Moved, ID: 1, Endpoint: "f"})
		s.enter(30, 3, func(r *queuecheck.Request) { r.Endpoints = []string{"f"} })
		s.grant(20, 2, "e")
		s.grant(40, 3, "f")
		return s
	}, mend: func(s *story) { s.release(40, 1) }},
	{rule: queuecheck.RuleCap, story: func() *story {
		s := inTokens(100, 30)
		s.grant(20, 2, "e")
		return s
	}, mend: func(s *story) { s.move(19, 1, "e", 98) }},
	{rule: queuecheck.RuleCap, story: func() *story { // in whatever order, the second of two finds too much
		s := inTokens(50, 30)
		s.enter(0, 9, nil)
		s.grantFor(0, 9, 60)
		s.enter(10, 3, nil)
		s.release(20, 9)
		s.grantFor(20, 2, 60)
		s.grantFor(20, 3, 50)
		return s
	}, mend: func(s *story) { s.History[len(s.History)-1].Tokens = 48 }},
	{rule: queuecheck.RuleIdle, story: func() *story {
		s := inTokens(99, 30)
		s.move(20, 1, "e", 98)
		s.grant(26, 2, "e")
		return s
	}, mend: func(s *story) { s.History[len(s.History)-2].At = 21 * ms }},
	{rule: queuecheck.RuleOrder, story: func() *story { return overtaken(nil, nil) }, mend: later},
	{
		rule: queuecheck.RuleStrict, strict: true,
		story: func() *story { return overtaken(nil, class("low")) }, mend: later,
	},
	{
		rule: queuecheck.RuleAging, strict: true,
		story: func() *story { return starved(60) }, mend: younger,
	},
	{rule: queuecheck.RuleStrict, strict: true, story: func() *story {
		return overtaken(nil, func(r *queuecheck.Request) { r.Class, r.Aging = "low", 15*ms })
	}, mend: later},
	{rule: queuecheck.RuleTenants, story: func() *story {
		s := full(tenant("b"))
		for i := range uint64(3) {
			s.enter(10, 3+i, tenant("a"))
		}
		for i, id := range []uint64{3, 4, 5, 2} {
			s.release(13+i, []uint64{1, 3, 4, 5}[i])
			s.grant(13+i, id, "e")
		}
		return s
	}, mend: func(s *story) {
		for i := range s.History {
			if e := &s.History[i]; e.Kind == queuecheck.Entered && e.ID == 2 {
				e.At = 14*ms + 1
			}
		}
	}},
	{rule: queuecheck.RuleIdle, story: func() *story {
		s := full(nil)
		s.release(20, 1)
		s.grant(40, 2, "e")
		return s
	}, mend: func(s *story) { s.History[len(s.History)-2].At = 38 * ms }},
	{rule: queuecheck.RuleIdle, story: func() *story {
		s := full(func(r *queuecheck.Request) {
			r.Endpoints, r.Warm, r.Patience = []string{"e", "f"}, []string{"e"}, 5*ms
		})
		s.release(40, 1)
		s.grant(40, 2, "e")
		return s
	}, mend: func(s *story) {
		for i := range s.History {
			s.History[i].Request.Patience *= 10
		}
	}},
	{rule: queuecheck.RuleMaxWait, story: func() *story {
		s := full(func(r *queuecheck.Request) { r.MaxWait = 10 * ms })
		s.refuse(40, 2, queuecheck.CodeTimeout)
		return s
	}, mend: func(s *story) { s.History[len(s.History)-1].At = 20 * ms }},
	{rule: queuecheck.RuleMaxWait, story: func() *story {
		s := full(func(r *queuecheck.Request) { r.MaxWait = 10 * ms })
		s.refuse(15, 2, queuecheck.CodeTimeout)
		return s
	}, mend: func(s *story) { s.History[len(s.History)-1].At = 20 * ms }},
	{rule: queuecheck.RuleEviction, story: func() *story {
		s := full(class("low"))
		s.enter(15, 3, class("low"))
		s.refuse(20, 2, queuecheck.CodeEvicted)
		s.refuse(30, 3, "")
		return s
	}, mend: func(s *story) { s.History[len(s.History)-2].ID, s.History[len(s.History)-1].ID = 3, 2 }},
	{rule: queuecheck.RuleEviction, story: func() *story {
		s := full(class("low"))
		for id := range uint64(3) {
			s.enter(14, 4+id, class("low"))
			s.refuse(30, 4+id, "")
		}
		s.enter(15, 3, tenant("a"))
		s.refuse(20, 3, queuecheck.CodeEvicted)
		s.refuse(30, 2, "")
		return s
	}, mend: func(s *story) { s.History[len(s.History)-2].Code = "" }},
	{rule: queuecheck.RuleEviction, story: func() *story { // of the tenant with fewer
		s := full(tenant("a"))
		s.enter(15, 3, tenant("b"))
		s.enter(16, 4, tenant("b"))
		s.refuse(20, 2, queuecheck.CodeEvicted)
		s.refuse(30, 3, "")
		s.refuse(30, 4, "")
		return s
	}, mend: func(s *story) { s.History[len(s.History)-3].ID, s.History[len(s.History)-1].ID = 4, 2 }},
	{rule: queuecheck.RuleSkip, story: func() *story { return passing(3, 2) }, mend: skip(3)},
}

func TestRules(t *testing.T) {
	for _, c := range ruleCases {
		r := queuecheck.Rules{Weights: weights, Strict: c.strict, Idle: 5 * ms, Tenants: 1}
		s := c.story()
		found := queuecheck.Check(s.History, r)
		other := func(v queuecheck.Violation) bool { return v.Rule != c.rule }
		if len(found) == 0 || slices.ContainsFunc(found, other) {
			t.Errorf("%s: found %v", c.rule, found)
		}
		if c.mend(s); len(queuecheck.Check(s.History, r)) > 0 {
			t.Errorf("%s: found in a history without fault: %v", c.rule, queuecheck.Check(s.History, r))
		}
	}
}

// drop removes what happened at the time.
func drop(at int) func(*story) {
	return func(s *story) {
		s.History = slices.DeleteFunc(s.History, func(e queuecheck.Event) bool { return e.At == time.Duration(at)*ms })
	}
}

// overtaken returns a story in which request 3 is granted e at 30, before request 2, which came earlier.
func overtaken(second, third func(*queuecheck.Request)) *story {
	s := full(second)
	s.enter(20, 3, third)
	s.release(30, 1)
	s.grant(30, 3, "e")
	s.release(50, 3)
	s.grant(50, 2, "e")
	return s
}

// starved returns a story in which request 2, of the lower class, waits longer than its aging, and n of the higher
// class pass it then.
func starved(n int) *story {
	s := full(func(r *queuecheck.Request) { r.Class, r.Aging = "low", 5*ms })
	holder := uint64(1)
	for i := range n {
		id := uint64(3 + i)
		s.enter(19+i, id, nil)
		s.release(20+i, holder)
		s.grant(20+i, id, "e")
		holder = id
	}
	s.release(20+n, holder)
	s.grant(20+n, 2, "e")
	return s
}

// younger mends the story of starved: request 2 comes when most others have been granted.
func younger(s *story) {
	for i := range s.History {
		if e := &s.History[i]; e.Kind == queuecheck.Entered && e.ID == 2 {
			e.At = 60 * ms
		}
	}
}

// later mends the story of overtaken: request 2 comes when request 3 has been granted.
func later(s *story) {
	for i := range s.History {
		if e := &s.History[i]; e.Kind == queuecheck.Entered && e.ID == 2 {
			e.At = 30 * ms
		}
	}
}

// passing returns a story in which the last of n+1 requests has a warm prefix and goes first.
func passing(n, skip int) *story {
	s := full(func(r *queuecheck.Request) { r.Skip = skip })
	for i := range n {
		s.enter(11+i, uint64(3+i), func(r *queuecheck.Request) {
			if r.Skip = skip; i == n-1 {
				r.Warm = []string{"e"}
			}
		})
	}
	order := []uint64{uint64(2 + n)}
	for i := range n {
		order = append(order, uint64(2+i))
	}
	holder := uint64(1)
	for i, id := range order {
		s.release(30+i, holder)
		s.grant(30+i, id, "e")
		holder = id
	}
	return s
}

func skip(n int) func(*story) {
	return func(s *story) {
		for i := range s.History {
			s.History[i].Request.Skip = n
		}
	}
}

// TestPassedTooOften: nobody is passed by more than three times as many as one request may pass.
func TestPassedTooOften(t *testing.T) {
	for n, want := range map[int]int{6: 0, 7: 1} {
		s := full(func(r *queuecheck.Request) { r.Skip = 2 })
		holder := uint64(1)
		for i := range n {
			at, id := 20+i, uint64(3+i)
			s.enter(at, id, func(r *queuecheck.Request) { r.Skip, r.Warm = 2, []string{"e"} })
			s.release(at, holder)
			s.grant(at, id, "e")
			holder = id
		}
		s.release(100, holder)
		s.grant(100, 2, "e")
		if found := queuecheck.Check(s.History, queuecheck.Rules{}); len(found) != want {
			t.Errorf("passed %d times: %v", n, found)
		}
	}
}

// TestSlack: with times that are only so exact, what could have been in order is.
func TestSlack(t *testing.T) {
	s := overtaken(nil, nil)
	for slack, want := range map[time.Duration]bool{5 * ms: true, 15 * ms: false} {
		r := queuecheck.Rules{Slack: slack}
		if found := queuecheck.Check(s.History, r); (len(found) > 0) != want {
			t.Errorf("with a slack of %v: %v", slack, found)
		}
	}
	for i := range s.History { // the third may have come before the second
		if e := &s.History[i]; e.Kind == queuecheck.Entered && e.ID == 3 {
			e.Earliest = 9 * ms
		}
	}
	if found := queuecheck.Check(s.History, queuecheck.Rules{}); len(found) > 0 {
		t.Errorf("with a request that came earlier than was seen: %v", found)
	}
	s = full(nil)
	s.grant(20, 2, "e")
	s.release(23, 1)
	for slack, want := range map[time.Duration]bool{2 * ms: true, 5 * ms: false} {
		if found := queuecheck.Check(s.History, queuecheck.Rules{Slack: slack}); (len(found) > 0) != want {
			t.Errorf("with a slack of %v: %v", slack, found)
		}
	}
}
