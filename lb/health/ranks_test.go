package health

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// An address in two priorities is a server of each.
func TestServersOfPriorities(t *testing.T) {
	v := &lb.View{Endpoints: []lb.Endpoint{{Addr: "10.0.0.1:80"}, {Addr: "10.0.0.1:80", Priority: 1}}}
	if counts, total := countPriorities(v, usable(v)); total != 2 || counts[1].total != 1 || counts[1].healthy != 1 {
		t.Errorf("%+v, %d in all", counts, total)
	}
}

// Ranks are what their server is: one that fails takes all with it, counts as one of the endpoints that may be ejected,
// and leaves the others of another server.
func TestRanksFailWithTheirServer(t *testing.T) {
	const servers, ranks = 3, 4
	v := &lb.View{Cluster: "llm"}
	addr := func(server, rank int) string {
		return lb.RankAddr([]string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}[server], rank)
	}
	for s := range servers {
		for r := range ranks {
			v.Endpoints = append(v.Endpoints, lb.Endpoint{Addr: addr(s, r)})
		}
	}
	h := New()
	cfg := h.OneConfig(&ClusterConfig{
		Weights: map[string]float64{lb.ServerOf(addr(2, 0)): 3},
		Health: Config{
			ConsecutiveFailures: 3, EjectionTime: time.Minute, MaxEjectionTime: time.Minute, MaxEjectionPercent: 10,
		},
	})
	now := time.Hour
	if n := len(h.Usable(now, v, cfg)); n != servers*ranks {
		t.Fatalf("%d candidates at first", n)
	}
	for i := range 40 { // at all ranks of the first server, from many clients; the others answer
		now += 100 * time.Millisecond
		h.Observe(now, lb.Outcome{Addr: addr(0, i%ranks), Verdict: lb.Failure, Client: uint64(2*i + 1)}, cfg)
		h.Observe(now, lb.Outcome{Addr: addr(1+i%2, i%ranks), Verdict: lb.Success, Client: uint64(2*i + 2)}, cfg)
	}
	if n := h.Ejections(); n != 1 {
		t.Errorf("%d ejections, want that of the server", n)
	}
	cs := h.Usable(now, v, cfg)
	if len(cs) != (servers-1)*ranks {
		t.Errorf("%d candidates, want all ranks of the others", len(cs))
	}
	for _, c := range cs {
		if lb.ServerOf(c.Addr) == lb.ServerOf(addr(0, 0)) {
			t.Errorf("%s is a candidate", c.Addr)
		}
		if heavy := lb.ServerOf(c.Addr) == lb.ServerOf(addr(2, 0)); heavy != (c.Weight > 1) {
			t.Errorf("%s has weight %v", c.Addr, c.Weight)
		}
	}
	if n := h.CountEjected(now); n != 1 {
		t.Errorf("%d are counted as ejected", n)
	}
}
