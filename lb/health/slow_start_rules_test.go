package health

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// An endpoint starts with minStartShare, and with its full share after the slow start, counted from when it was first
// seen or from the end of an ejection.
func TestStartShare(t *testing.T) {
	cfg := &Config{ConsecutiveFailures: 1, EjectionTime: 10 * time.Second, SlowStart: 20 * time.Second}
	for _, c := range []struct {
		slow  bool
		out   time.Duration // end of an ejection, 0 for none
		now   time.Duration
		part  float64
		since time.Duration
	}{
		{false, 0, time.Minute, 1, time.Minute},
		{true, 0, time.Minute, minStartShare, time.Minute},
		{true, 0, time.Minute + time.Second, minStartShare, time.Minute},
		{true, 0, time.Minute + 2*time.Second, 0.1, time.Minute},
		{true, 0, time.Minute + 10*time.Second, 0.5, time.Minute},
		{true, 0, time.Minute + 20*time.Second, 1, time.Minute},
		{false, time.Minute, time.Minute + 10*time.Second, 1, time.Minute},
		{false, time.Minute + 1, time.Minute + 1 + 10*time.Second, 0.5, time.Minute + 1},
		{true, time.Hour, time.Hour + 15*time.Second, 0.75, time.Hour},
	} {
		e := endpointHealth{firstSeen: time.Minute, startsSlowly: c.slow}
		if c.out > 0 {
			e.ejection = ejection{from: c.out - cfg.EjectionTime, times: 1, failures: 1}
		}
		if part, since := e.startShare(c.now, cfg); !near(part, c.part) || since != c.since {
			t.Errorf("%+v: %v since %v", c, part, since)
		}
	}
}

// The mean load of granted endpoints follows a higher load quickly, but not one above twice the mean and two requests,
// and a lower one slowly. It is per unit of weight, and includes the load per request in the plan's unit.
func TestObserveGrant(t *testing.T) {
	for _, c := range []struct {
		name                     string
		unit                     lb.Unit
		perRequest               int64
		weight                   float64
		requests, tokens         float64 // means before
		l                        lb.Load
		wantRequests, wantTokens float64
	}{
		{"first", lb.Requests, 0, 1, 0, 0, lb.Load{Requests: 2, Tokens: 600}, 1, 300},
		{"far above", lb.Requests, 0, 1, 0, 0, lb.Load{Requests: 10, Tokens: 3000}, 1, 300},
		{"above", lb.Requests, 0, 1, 4, 1000, lb.Load{Requests: 6, Tokens: 1200}, 5, 1100},
		{"the same", lb.Requests, 0, 1, 4, 1000, lb.Load{Requests: 4, Tokens: 1000}, 4, 1000},
		{"below", lb.Requests, 0, 1, 4, 1600, lb.Load{Requests: 0, Tokens: 0}, 4 - 4.0/16, 1500},
		{"by weight", lb.Requests, 0, 2, 4, 1000, lb.Load{Requests: 12, Tokens: 2400}, 5, 1100},
		{"per request, in tokens", lb.Tokens, 100, 1, 4, 1000, lb.Load{Requests: 4, Tokens: 1200}, 4, 1300},
		{"per request, by weight", lb.Tokens, 100, 2, 2, 500, lb.Load{Requests: 4, Tokens: 1200}, 2, 650},
		{"per request, in requests", lb.Requests, 1, 1, 4, 1000, lb.Load{Requests: 4, Tokens: 1000}, 6, 1000},
	} {
		h := healthOf(0)
		h.meanLoad = [lb.Tokens + 1]float64{lb.Requests: c.requests, lb.Tokens: c.tokens}
		p := &lb.Plan{Unit: c.unit, PerRequest: c.perRequest}
		p.Candidates = []lb.Candidate{{Addr: addrOf(0), Weight: c.weight}}
		h.ObserveGrant(p, 0, c.l)
		if got := h.meanLoad; !near(got[lb.Requests], c.wantRequests) || !near(got[lb.Tokens], c.wantTokens) {
			t.Errorf("%s: %v, want %v and %v", c.name, got, c.wantRequests, c.wantTokens)
		}
	}
	h := healthOf(0)
	h.current[0].starting = true
	p := &lb.Plan{List: lb.NewList([]lb.Candidate{{Addr: addrOf(0), Weight: 1}, {Addr: "unknown", Weight: 1}})}
	h.ObserveGrant(p, 0, lb.Load{Requests: 9, Tokens: 9})
	if h.ObserveGrant(p, 1, lb.Load{Requests: 9, Tokens: 9}); h.meanLoad != [2]float64{} {
		t.Errorf("a mean load of %v by endpoints that start or are unknown", h.meanLoad)
	}
}

func TestTypicalLoad(t *testing.T) {
	h := New()
	for _, c := range []struct {
		requests, tokens float64
		unit             lb.Unit
		load, request    float64
	}{
		{0, 0, lb.Requests, 1, 1},
		{0, 0, lb.Tokens, 1, 1},
		{4, 1024, lb.Requests, 6, 1},
		{4, 1024, lb.Tokens, 1280 + 256, 256},
		{0.5, 100, lb.Tokens, 1.25*96 + 64, 64},
		{4.9, 1e6, lb.Requests, 1.25*4 + 1, 1},
		{5.1, 1e6, lb.Requests, 1.25*5 + 1, 1},
	} {
		h.meanLoad = [lb.Tokens + 1]float64{lb.Requests: c.requests, lb.Tokens: c.tokens}
		if load, request := h.typicalLoad(c.unit); !near(load, c.load) || !near(request, c.request) {
			t.Errorf("%+v: %v, %v a request", c, load, request)
		}
	}
}

// Requests are drawn for new endpoints in proportion to their part of their fair share, plus a little for those that
// another endpoint gets all the same. Each group of new endpoints is preferred in a list of its own; for all other
// requests they count as loaded.
func TestStartLists(t *testing.T) {
	const slow = 80 * time.Second
	config := &ClusterConfig{Unit: lb.Tokens, Health: Config{SlowStart: slow}}
	h := healthOf(0, 0, 0, 0)
	for i, age := range []time.Duration{0, 0, 40 * time.Second, 20 * time.Second} { // 0: not new
		h.current[i].startsSlowly, h.current[i].firstSeen = age > 0, time.Hour-age
	}
	h.meanLoad = [lb.Tokens + 1]float64{lb.Requests: 4, lb.Tokens: 1024}
	load, request := h.typicalLoad(lb.Tokens)
	var cs []lb.Candidate
	for i, weight := range []float64{1, 1, 2, 1} {
		cs = append(cs, lb.Candidate{Addr: addrOf(i), Slope: 1, Weight: weight})
	}
	l := &candidateList{tiers: []tier{{}, {}}}
	h.addSlowStart(time.Hour, cs, config, l)
	bases := func(cs []lb.Candidate) (list []float64) {
		for _, c := range cs {
			list = append(list, c.Base)
		}
		return list
	}
	if got, want := bases(l.base.Candidates), []float64{0, 0, load, load}; !slices.Equal(got, want) {
		t.Errorf("base costs %v, want %v", got, want)
	}
	if len(l.starting) != 2 {
		t.Fatalf("%d lists", len(l.starting))
	}
	const starting = 3.0 / 5 // share of the weight
	first := 0.5 * (1 + 0.5*0.5/2*(1-starting)) * 2 / 5
	second := first + 0.25*(1+0.25*0.25/2*(1-starting))*1/5
	for i, want := range []struct {
		upTo  float64
		bases []float64
	}{{first, []float64{0, 0, -startBonus * request, load}}, {second, []float64{0, 0, load, -startBonus * request}}} {
		s := l.starting[i]
		if got := bases(s.list.Candidates); !near(s.upTo, want.upTo) || !slices.Equal(got, want.bases) || s.tier != 0 {
			t.Errorf("list %d up to %v with base costs %v, want %v and %v", i, s.upTo, got, want.upTo, want.bases)
		}
	}
	for u, want := range map[float64]lb.List{
		0: l.starting[0].list, first - 1e-9: l.starting[0].list,
		l.starting[0].upTo: l.starting[1].list, l.starting[1].upTo: l.base, 1: l.base,
	} {
		if got := l.pick(0, u); got.Digest() != want.Digest() {
			t.Errorf("a draw of %v: base costs %v", u, bases(got.Candidates))
		}
		if got := l.pick(1, u); got.Digest() != l.base.Digest() {
			t.Errorf("a draw of %v for another tier: base costs %v", u, bases(got.Candidates))
		}
	}
}

// Endpoints that were added within an eighth of the slow start share a list.
func TestStartGroups(t *testing.T) {
	const slow = 80 * time.Second
	config := &ClusterConfig{Health: Config{SlowStart: slow}}
	for _, c := range []struct {
		apart time.Duration
		want  int
	}{{0, 1}, {slow/startGroups - 1, 1}, {slow / startGroups, 2}, {slow - 1, 2}} {
		h := healthOf(0, 0, 0)
		first := 900 * time.Second // begins a group
		for i, at := range []time.Duration{0, first, first + c.apart} {
			h.current[i].startsSlowly, h.current[i].firstSeen = i > 0, at
		}
		var cs []lb.Candidate
		for i := range h.current {
			cs = append(cs, lb.Candidate{Addr: addrOf(i), Slope: 1, Weight: 1})
		}
		l := &candidateList{tiers: []tier{{}}}
		if h.addSlowStart(first+c.apart, cs, config, l); len(l.starting) != c.want {
			t.Errorf("%v apart: %d lists, want %d", c.apart, len(l.starting), c.want)
		}
	}
}
