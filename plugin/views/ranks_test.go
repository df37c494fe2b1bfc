package views

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
)

func addrsOf(v *lb.View) (addrs []string) {
	for i := range v.Endpoints {
		addrs = append(addrs, v.Endpoints[i].Addr)
	}
	return addrs
}

// A view has the ranks of each server in its place, with what is known of it, and stays the same while they do.
func TestRanked(t *testing.T) {
	const a, b = "10.0.0.1:80", "10.0.0.2:80"
	cl := &clusters.Cluster{Engines: engines.New()}
	v := &Views{clusters: clusters.Known{"llm": cl}}
	servers := &lb.View{Cluster: "llm", ListID: 7, Endpoints: []lb.Endpoint{
		{Addr: a, Weight: 2, State: lb.Degraded, Priority: 1}, {Addr: b, State: lb.Draining},
	}}
	is := func(name string, got *lb.View, want ...string) {
		t.Helper()
		if !slices.Equal(addrsOf(got), want) || got.ListID != servers.ListID {
			t.Errorf("%s: list %d of %v", name, got.ListID, addrsOf(got))
		}
	}
	off, two := &config.Config{}, &config.Config{Ranks: config.Ranks{Apart: true, Count: 2}}
	auto := &config.Config{Ranks: config.Ranks{Apart: true}}
	ranked := func(c *config.Config) *lb.View { return v.ranked("llm", servers, c) }
	if got := ranked(off); got != servers {
		t.Errorf("switched off: %v", addrsOf(got))
	}
	fixed := ranked(two)
	is("two", fixed, a+"#0", a+"#1", b+"#0", b+"#1")
	if e := fixed.Endpoints[1]; e.Weight != 2 || e.State != lb.Degraded || e.Priority != 1 {
		t.Errorf("a rank is %+v", e)
	}
	if e := fixed.Endpoints[2]; e.State != lb.Draining {
		t.Errorf("a rank of a server that drains is %+v", e)
	}
	is("before metrics are known", ranked(auto), a, b)
	sample := func(addrs ...string) {
		list := map[string]engines.Sample{}
		for _, addr := range addrs {
			list[addr] = engines.Sample{}
		}
		cl.Engines.Update(0, nil, list)
	}
	sample(a+"#0", a+"#1", a+"#2", b)
	first := ranked(auto)
	is("by metrics", first, a+"#0", a+"#1", a+"#2", b)
	sample(a+"#0", a+"#1", a+"#2", b)
	if ranked(auto) != first || ranked(two) != fixed {
		t.Error("another view of the same endpoints")
	}
	sample(a+"#0", a+"#1", b)
	is("of fewer", ranked(auto), a+"#0", a+"#1", b)
	servers = &lb.View{Cluster: "llm", ListID: 7, Endpoints: servers.Endpoints[1:]}
	is("of one server", ranked(two), b+"#0", b+"#1")
	if got := v.ranked("other", servers, auto); got != servers {
		t.Errorf("of a cluster that is not known: %v", addrsOf(got))
	}
}
