package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
)

// Endpoints of other tiers cost more than any of the request's tier does at any load, in the order that they have
// without that. Crossing zones costs as much as that many requests.
func TestCostsOfTiers(t *testing.T) {
	cs := []lb.Candidate{
		{Base: 5, Slope: 2, OverSlope: 1, Weight: 0.5},
		{Base: -3, Slope: 1, Weight: 2, Tier: 1},
		{Base: 9, Slope: 1, Weight: 1, Tier: 1, ZonePenalty: 2},
		{Base: 1, Slope: 1, Weight: 1},
	}
	const huge = 1 << 32 * 6 // 6 is the largest slope by weight
	got := tierCosts{tier: 0, requestLoad: 10}.apply(cs)
	for i, want := range []float64{5, -3 + 29 + 3 + huge, 29 + 29 + 3 + huge, 1} {
		if math.Abs(got[i].Base-want) > 1e-9 {
			t.Errorf("candidate %d has a base cost of %v, want %v", i, got[i].Base, want)
		}
	}
	if cs[1].Base != -3 {
		t.Error("the candidates have changed")
	}
}

// A policy without settings gets their zero value; given ones stay.
func TestSettingsOfAPolicy(t *testing.T) {
	before := registry
	defer func() { registry = before }()
	var got any
	registry = append(slices.Clone(before), &Descriptor{
		Name: "test", Settings: func() any { return new(int) },
		New: func(c Config) (lb.Policy, error) { got = c.Settings; return nil, nil },
	})
	if _, err := New("test", Config{}); err != nil || got == nil || *got.(*int) != 0 {
		t.Errorf("settings %v, %v", got, err)
	}
	given := new(int)
	if _, err := New("test", Config{Settings: given}); err != nil || got != any(given) {
		t.Errorf("settings %v, %v", got, err)
	}
}

// Where crossing zones costs nothing, a plan has the candidates of the cluster's health.
func TestPlanWithoutZones(t *testing.T) {
	for penalty, want := range map[float64]bool{0: true, 1: false} {
		h, v := health.New(), &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{{Addr: "a"}, {Addr: "b"}}}
		v.Zone, v.Endpoints[0].Zone = lb.Zone{Name: "a"}, lb.Zone{Name: "b"}
		cluster := health.ClusterConfig{ZonePenalty: penalty}
		p, err := New("global_least_request", Config{Health: h, Cluster: cluster, Engines: engines.New()})
		if err != nil {
			t.Fatal(err)
		}
		plan, reason := p.Plan(0, &lb.Request{}, v)
		list, _ := h.Candidates(0, v, p.(*leastRequest).cluster, 0)
		if same := plan.Digest() == list.Digest(); reason != lb.ReasonChosen || same != want {
			t.Errorf("a penalty of %v: %v, the same candidates %v", penalty, reason, same)
		}
	}
}
