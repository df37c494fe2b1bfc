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
		out := l.Apply(time.Hour, cs, c.ahead)
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

// A list stays at its address while its content is the same, and returns to it.
func TestLimitedListsStayWhereTheyAre(t *testing.T) {
	l, cs, now := NewPushLimits(nil), pushCandidates(), time.Hour
	set := func(limit float64) {
		p := l.endpoint(now, "a")
		p.limit = limit
		l.publish(now, p)
	}
	first := l.Apply(now, cs, 0)
	for i := range 100 { // longer than unused lists are retained
		now += maxListAge / 7
		if got := l.Apply(now, cs, 0); &got[0] != &first[0] {
			t.Fatalf("another list in step %d", i)
		}
		set(firstPush + float64(i%7)/7)
	}
	set(30)
	second := l.Apply(now, cs, 0)
	if &second[0] == &first[0] || second[0].Cap != 30 || first[0].Cap != 16 {
		t.Fatal("the list has not changed, or in place")
	}
	set(16)
	if got := l.Apply(now, cs, 0); &got[0] != &first[0] {
		t.Error("another list with the content of a known one")
	}
	if got := l.Apply(now, pushCandidates(), 0); &got[0] != &first[0] {
		t.Error("another list from an equal one")
	}
	tight := []Candidate{{Addr: "c", Cap: 5}}
	if got := l.Apply(now, tight, 0); &got[0] != &tight[0] {
		t.Error("another list, though no limit is tighter than the cap")
	}
	if got := l.Apply(now, nil, 0); got != nil {
		t.Error("candidates from none")
	}
}

// What is not in use is forgotten, and there are never too many lists.
func TestLimitsAreForgotten(t *testing.T) {
	l, now := NewPushLimits(nil), time.Hour
	for range 2 * maxCostLists {
		l.Apply(now, pushCandidates(), 0)
	}
	if len(l.lists) > maxCostLists || l.candidates != 3*len(l.lists) {
		t.Errorf("%d lists with %d candidates", len(l.lists), l.candidates)
	}
	now += unusedListTTL + 1
	other := []Candidate{{Addr: "d"}}
	if l.Apply(now, other, 0); len(l.lists) != 1 || l.candidates != 1 || len(l.endpoints) != 4 {
		t.Errorf("%d lists with %d candidates, %d endpoints", len(l.lists), l.candidates, len(l.endpoints))
	}
	for range 100 {
		now += unusedEndpointListTTL / 50
		l.Apply(now, other, 0)
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
