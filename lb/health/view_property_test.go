package health_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
)

// drawView draws endpoints of two priorities and two zones, in any state.
func drawView(rt *rapid.T) *lb.View {
	v := &lb.View{Cluster: "llm", Zone: lb.Zone{Region: "r", Name: "a"}}
	for i := range rapid.IntRange(0, 8).Draw(rt, "endpoints") {
		v.Endpoints = append(v.Endpoints, lb.Endpoint{
			Addr: fmt.Sprintf("10.0.0.%d:80", i), Weight: float64(rapid.IntRange(0, 4).Draw(rt, "weight")),
			State:    lb.State(rapid.IntRange(0, int(lb.Ejected)).Draw(rt, "state")),
			Priority: uint8(rapid.IntRange(0, 1).Draw(rt, "priority")),
			Zone:     lb.Zone{Region: "r", Name: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "zone")},
		})
	}
	return v
}

func usable(e *lb.Endpoint) bool { return e.State == lb.Healthy || e.State == lb.Degraded }

// Each plan has candidates that the gateway would use, with the caps of their weights and a penalty for other zones
// only; without any the reason names what is missing.
func TestPlansOfAnyView(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, n := drawView(rt), 0
		byAddr := map[string]*lb.Endpoint{}
		for i := range v.Endpoints {
			byAddr[v.Endpoints[i].Addr] = &v.Endpoints[i]
			if usable(&v.Endpoints[i]) {
				n++
			}
		}
		cfg := health.ClusterConfig{MaxInflight: int64(rapid.IntRange(0, 20).Draw(rt, "cap")), ZonePenalty: 3}
		h := health.New()
		list, reason := h.Candidates(time.Hour, v, &cfg, rapid.Uint64().Draw(rt, "draw"))
		cs := list.Candidates
		want := lb.ReasonChosen
		switch {
		case len(v.Endpoints) == 0:
			want = lb.ReasonNoEndpoints
		case n == 0:
			want = lb.ReasonNoHealthyEndpoint
		}
		if reason != want || (len(cs) > 0) != (want == lb.ReasonChosen) || len(cs) > n {
			rt.Fatalf("%d candidates of %d usable endpoints: %v, want %v", len(cs), n, reason, want)
		}
		for _, c := range cs {
			e := byAddr[c.Addr]
			limit := int64(0)
			if cfg.MaxInflight > 0 {
				limit = max(1, int64(math.Round(float64(cfg.MaxInflight)*max(e.Weight, 1))))
			}
			if !usable(e) || c.Cap != limit || (c.ZonePenalty > 0) != (e.Zone.Name == "b") {
				rt.Fatalf("%+v of %+v, want a cap of %d", c, *e, limit)
			}
		}
	})
}

// Where all usable endpoints are of one priority and state, each of them is a candidate, in the order of the view.
func TestNoUsableEndpointIsLeftOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := drawView(rt)
		state := rapid.SampledFrom([]lb.State{lb.Healthy, lb.Degraded}).Draw(rt, "state of usable ones")
		var want []string
		for i := range v.Endpoints {
			e := &v.Endpoints[i]
			if e.Priority = 0; usable(e) {
				e.State = state
				want = append(want, e.Addr)
			}
		}
		list, _ := health.New().Candidates(time.Hour, v, &health.ClusterConfig{}, rapid.Uint64().Draw(rt, "draw"))
		cs := list.Candidates
		var got []string
		for _, c := range cs {
			got = append(got, c.Addr)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("candidates %v, want %v", got, want)
		}
	})
}
