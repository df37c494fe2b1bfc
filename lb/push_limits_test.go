package lb

import (
	"testing"
	"time"
)

func pushCandidates() []Candidate {
	return []Candidate{{Addr: "a", Weight: 1}, {Addr: "b", Weight: 1, Cap: 20}, {Addr: "c", Weight: 1, Cap: 5}}
}

// The tighter of the limit and the cap holds.
func TestLimitsAreCaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit float64
		ahead int
		want  [3]int64
	}{
		{"first", firstPush, 0, [3]int64{16, 16, 5}},
		{"at hand", firstPush, 3, [3]int64{19, 19, 5}},
		{"high", 100.9, 0, [3]int64{100, 20, 5}},
		{"low", 1, 0, [3]int64{1, 1, 1}},
	} {
		l := NewPushLimits(nil)
		cs := pushCandidates()
		for i := range cs {
			p := l.endpoint(time.Hour, cs[i].Addr)
			p.limit = c.limit
			l.publish(time.Hour, p)
		}
		out := l.Apply(time.Hour, NewList(cs), c.ahead).Candidates
		for i := range out {
			if out[i].Cap != c.want[i] {
				t.Errorf("%s: caps %+v", c.name, out)
			}
			if out[i].Cap = cs[i].Cap; out[i] != cs[i] {
				t.Errorf("%s: more has changed: %+v", c.name, out[i])
			}
		}
	}
}

// A list follows the limits, in another list and not in place.
func TestLimitedListsFollowLimits(t *testing.T) {
	l, source, now := NewPushLimits(nil), NewList(pushCandidates()), time.Hour
	caps := func(want int64) []Candidate {
		t.Helper()
		now += maxLimitsAge / 7
		cs := l.Apply(now, source, 0).Candidates
		if cs[0].Cap != want || cs[2].Cap != 5 {
			t.Errorf("%+v, want a first cap of %d", cs, want)
		}
		return cs
	}
	first := caps(16)
	for _, limit := range []float64{16.9, 30, 16} {
		p := l.endpoint(now, "a")
		p.limit = limit
		l.publish(now, p)
		caps(int64(limit))
	}
	if first[0].Cap != 16 || source.Candidates[0].Cap != 0 {
		t.Error("a list has changed in place")
	}
	if got := l.Apply(now, List{}, 0); got.Candidates != nil {
		t.Error("candidates from none")
	}
}

// Endpoints that are in no list any more are forgotten.
func TestLimitsAreForgotten(t *testing.T) {
	l, now := NewPushLimits(nil), time.Hour
	l.Apply(now, NewList(pushCandidates()), 0)
	for range 100 {
		now += unusedEndpointListTTL / 50
		l.Apply(now, NewList([]Candidate{{Addr: "d"}}), 0)
	}
	if _, known := l.Limit("d"); len(l.endpoints) != 1 || !known {
		t.Errorf("endpoints %v", l.endpoints)
	}
}

// Every policy gives its candidates push limits with push: pending, and no other. Caps in tokens are what they are.
func TestPoliciesHavePushLimits(t *testing.T) {
	view := &View{Cluster: "llm", Endpoints: []Endpoint{
		{Addr: "a"}, {Addr: "b", State: Degraded}, {Addr: "c", State: Unhealthy}, {Addr: "d", State: Unhealthy},
	}}
	for _, name := range Names() {
		for _, push := range []Push{Blind, Outstanding, Pending} {
			engines := NewEngines()
			limits := NewPushLimits(engines)
			p, err := New(name, Config{
				Push: push, PushAhead: 2, Limits: limits, Engine: EngineConfig{StaleAfter: 3 * time.Second},
				Cluster: ClusterConfig{MaxInflight: 40, MaxInflightTokens: 5000}, Health: NewHealth(),
				Caches: NewCacheTracker(), Engines: engines, Shares: NewRequestShares(), Latencies: NewLatencies(),
				Settings: pushSettings(name),
			})
			if err != nil {
				t.Fatal(err)
			}
			s := sampleOf(t, fields{"running": 16, "waiting": 0})
			s.Counted, s.Inflight.Requests, s.At, s.ScrapedAt, s.FreshAt = true, 16, 1, time.Hour, time.Hour
			engines.Update(time.Hour, nil, map[string]EngineSample{"a": s})
			plan, reason := p.Plan(time.Hour, &Request{}, view)
			if reason != ReasonChosen || len(plan.Candidates) != 2 {
				t.Fatalf("%s: %v, %+v", name, reason, plan.Candidates)
			}
			want := [2]int64{40, 40}
			if push == Pending {
				want = [2]int64{26, 18}
			}
			if got := [2]int64{plan.Candidates[0].Cap, plan.Candidates[1].Cap}; got != want {
				t.Errorf("%s, %v: caps %v, want %v", name, push, got, want)
			}
			if got := [2]int64{plan.Candidates[0].TokenCap, plan.Candidates[1].TokenCap}; got != [2]int64{5000, 5000} {
				t.Errorf("%s, %v: caps in tokens %v", name, push, got)
			}
		}
	}
}

func pushSettings(name string) any {
	settings := Describe(name).Settings
	if settings == nil {
		return nil
	}
	s := settings()
	switch s := s.(type) {
	case *EngineConfig:
		s.StaleAfter = 3 * time.Second
	case *ClusterMetricsConfig:
		s.Mode = LeastBusy
	case *BudgetConfig:
		for _, addr := range []string{"a", "b"} {
			s.Entry(addr).(*BudgetTarget).Limits.Weight = 1
		}
	}
	return s
}
