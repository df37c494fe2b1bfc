package live

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/snapshot"
	"github.com/warmgate/warmgate/internal/state"
)

// stat returns a statistic with labels by turns.
func stat(name string, value float64, labels ...string) snapshot.Statistic {
	s := snapshot.Statistic{Name: "warmgate_" + name, Value: value, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// at returns a snapshot of a gateway that has been up for so long, taken then.
func at(upS int64, g snapshot.Gateway) *snapshot.Snapshot {
	g.Name, g.Server = "g", &snapshot.Server{State: "LIVE", UptimeS: upS}
	return &snapshot.Snapshot{At: time.Unix(1000+upS, 0), Gateways: []snapshot.Gateway{g}}
}

// served returns a gateway whose only endpoint has served so many requests, and which has refused others.
func served(total int64, refused float64) snapshot.Gateway {
	return snapshot.Gateway{
		Clusters: []snapshot.Cluster{{Name: "llm", Hosts: []snapshot.Host{{Addr: "a:1", Active: 3, Total: total}}}},
		Statistics: []snapshot.Statistic{
			stat("decisions_total", float64(total), "policy", "p", "reason", "chosen"),
			stat("decisions_total", refused, "policy", "p", "reason", "at_capacity"),
			stat("inflight_requests", 2, "cluster", "llm", "endpoint", "a:1"),
		},
	}
}

// TestRates shows what counters have grown by in each second, through restarts and gaps.
func TestRates(t *testing.T) {
	type frame struct {
		up             bool
		perS, refusedS float64
	}
	hardened := func(upS int64, g snapshot.Gateway) *snapshot.Snapshot {
		s := at(upS, g)
		s.Gateways[0].Server = nil
		return s
	}
	gone := func(upS int64) *snapshot.Snapshot {
		return hardened(upS, snapshot.Gateway{Problems: []string{"server: gone"}})
	}
	restarted := at(10, served(40, 8))
	restarted.Gateways[0].Server.UptimeS = 2
	partly := served(90, 0)
	partly.Statistics = nil
	for name, c := range map[string]struct {
		snapshots []*snapshot.Snapshot
		last      frame
	}{
		"first":           {[]*snapshot.Snapshot{at(1, served(30, 5))}, frame{true, 0, 0}},
		"grown":           {[]*snapshot.Snapshot{at(1, served(30, 5)), at(3, served(40, 8))}, frame{true, 5, 1.5}},
		"fallen":          {[]*snapshot.Snapshot{at(1, served(90, 5)), at(3, served(40, 8))}, frame{true, 20, 1.5}},
		"another process": {[]*snapshot.Snapshot{at(5, served(30, 5)), restarted}, frame{true, 8, 1.6}},
		"gone":            {[]*snapshot.Snapshot{at(1, served(30, 5)), gone(2)}, frame{}},
		"hardened": {
			[]*snapshot.Snapshot{hardened(1, served(30, 5)), hardened(3, served(40, 8))}, frame{true, 5, 1.5},
		},
		"back": {
			[]*snapshot.Snapshot{at(1, served(30, 0)), gone(2), at(5, served(70, 8))}, frame{true, 10, 2},
		},
		"the same instant": {[]*snapshot.Snapshot{at(1, served(30, 5)), at(1, served(40, 8))}, frame{true, 0, 0}},
		"a page missing": {
			[]*snapshot.Snapshot{at(1, served(30, 5)), at(2, partly), at(5, served(99, 13))}, frame{true, 3, 2},
		},
	} {
		var frames Frames
		var last Frame
		for _, s := range c.snapshots {
			last = frames.Next(s)
		}
		g := last.Gateways[0]
		got := frame{up: g.Up}
		if len(g.Clusters) > 0 {
			got.perS, got.refusedS = g.Clusters[0].PerS, g.Clusters[0].RefusedS
		}
		if got != c.last {
			t.Errorf("%s: got %+v, want %+v", name, got, c.last)
		}
	}
}

// TestLateClusters shows clusters that were there before: what they have counted until then is not of the last second.
func TestLateClusters(t *testing.T) {
	g := served(5000, 700)
	g.Statistics = append(g.Statistics, stat("inflight_requests", 0, "cluster", "b", "endpoint", "b:1"),
		stat("queue_refusals_total", 600, "cluster", "b", "class", "", "reason", "queue_timeout"))
	late := snapshot.Cluster{Name: "b", Hosts: []snapshot.Host{{Addr: "b:1", Total: 4000}}}
	both := g
	both.Clusters = append(slices.Clone(g.Clusters), late)
	var frames Frames
	for second, g := range []snapshot.Gateway{g, both, g, both} {
		for _, c := range frames.Next(at(int64(second), g)).Gateways[0].Clusters {
			if c.PerS != 0 || c.RefusedS != 0 {
				t.Errorf("second %d: %s has %g requests, and %g refused", second, c.Name, c.PerS, c.RefusedS)
			}
		}
	}
}

// TestWithoutState shows what the administration and the statistics tell alone.
func TestWithoutState(t *testing.T) {
	g := served(10, 0)
	g.Clusters = append(g.Clusters, snapshot.Cluster{Name: "metrics", Hosts: []snapshot.Host{{Addr: "m:1"}}})
	g.Statistics = append(g.Statistics,
		stat("build_info", 0, "version", "v0"), stat("build_info", 1, "version", "v1"),
		stat("inflight_tokens", 700, "cluster", "llm", "endpoint", "a:1"),
		stat("endpoint_push_limit", 6, "cluster", "llm", "endpoint", "a:1"),
		stat("queue_length", 4, "cluster", "llm", "class", "batch"),
		stat("queue_refusals_total", 1, "cluster", "llm", "class", "batch", "reason", "queue_timeout"),
		stat("redis_up", 0), stat("region_available", 1, "region", "us"), stat("region_rtt_ms", 90, "region", "us"),
		stat("region_forwarded_total", 3, "region", "us", "reason", "time"))
	var frames Frames
	frames.Next(at(1, g))
	g.Statistics = append(g.Statistics, stat("region_forwarded_total", 8, "region", "us", "reason", "prefix"))
	got := frames.Next(at(3, g)).Gateways[0]
	want := Gateway{
		Name: "g", Version: "v1", Up: true,
		Clusters: []Cluster{{
			Name: "llm", Policy: "p", Unit: "tokens", Store: "fallback",
			Endpoints: []Endpoint{{Addr: "a:1", Requests: 2, Tokens: 700, PushLimit: 6}},
			Classes:   []Class{{Name: "batch", Waiting: 4}},
		}},
		Reasons: []Reason{
			{Policy: "p", Reason: "at_capacity"}, {Policy: "p", Reason: "chosen", Total: 10},
		},
		Regions: []Region{{Name: "us", Available: true, RTTMS: 90, ForwardedS: 4}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	g.Statistics = nil // a gateway without the plugin
	g.Clusters[0].Policy = "round_robin"
	got = new(Frames).Next(at(1, g)).Gateways[0]
	if len(got.Clusters) != 2 || got.Clusters[0].Policy != "round_robin" || got.Clusters[0].Endpoints[0].Requests != 3 {
		t.Errorf("%+v", got)
	}
}

// TestClusters shows the requests of clusters that are chosen among.
func TestClusters(t *testing.T) {
	var frames Frames
	var got float64
	for i := range 2 {
		total := float64(10 + 20*i)
		s := at(int64(1+2*i), snapshot.Gateway{
			Statistics: []snapshot.Statistic{
				stat("cluster_requests_total", total, "cluster", "east", "result", "served"),
				stat("cluster_requests_total", total, "cluster", "east", "result", "failed"),
				stat("cluster_requests_total", total, "cluster", "other", "result", "served"),
			},
			State: &state.State{Clusters: []state.Cluster{{Name: "c", Endpoints: []state.Endpoint{{Addr: "east"}}}}},
		})
		got = frames.Next(s).Gateways[0].Clusters[0].PerS
	}
	if got != 20 {
		t.Errorf("%g a second", got)
	}
}

// TestRemarks tells what is missing in what is shown.
func TestRemarks(t *testing.T) {
	s := at(1, snapshot.Gateway{Problems: []string{"p"}, State: &state.State{
		LeftOut: 2, Clusters: []state.Cluster{{Name: "llm", LeftOut: 3}, {Name: "all"}},
	}})
	s.Gateways[0].Server.State = "DRAINING"
	got := new(Frames).Next(s).Gateways[0].Problems
	want := []string{
		"p", "the gateway is in the state DRAINING", "2 more clusters are not shown",
		"3 more endpoints of llm are not shown",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// decision returns one of a second, with what has come of it.
func decision(id string, atS, ttftMS int64, used *state.Usage) state.Decision {
	return state.Decision{
		ID: id, AtMS: atS * 1000, TTFTMS: ttftMS, Used: used, Ended: used != nil, Cluster: "llm", Prompt: 100,
		Endpoint: "a:1", Candidates: []state.Candidate{{Addr: "b:1"}, {Addr: "a:1", Matched: 0.5}},
	}
}

// TestDecisions shows each decision once, and again when more is known; times and shares are of ten seconds.
func TestDecisions(t *testing.T) {
	var frames Frames
	next := func(nowS int64, decisions ...state.Decision) (ids string, c Cluster) {
		s := at(nowS, snapshot.Gateway{State: &state.State{
			AtMS: nowS * 1000, Version: "v", Region: "eu", Decisions: decisions, Regions: []state.Region{{Name: "us"}},
			Clusters: []state.Cluster{{
				Name: "llm", Policy: "p", Classes: []state.Class{{Name: "a", Waiting: 1}},
				Endpoints: []state.Endpoint{{Addr: "a:1", Cap: 4, Engine: &state.Engine{Running: 2}}},
			}},
		}})
		g := frames.Next(s).Gateways[0]
		for _, d := range g.Decisions {
			ids += d.ID
			if len(d.Candidates) != 2 {
				t.Errorf("%s has lost candidates", d.ID)
			}
		}
		if g.Region != "eu" || g.Version != "v" || g.Regions[0].Name != "us" || g.Clusters[0].Classes[0].Waiting != 1 {
			t.Errorf("%+v", g)
		}
		return ids, g.Clusters[0]
	}
	usage := &state.Usage{Prompt: 100, Cached: 20}
	if ids, c := next(20, decision("a", 19, 0, nil), decision("b", 19, 50, usage)); ids != "ab" ||
		*c.Expected != 0.5 || *c.Reported != 0.2 || *c.TTFT != (Quantiles{1, 50, 50}) || *c.Endpoints[0].Running != 2 {
		t.Errorf("%s %+v", ids, c)
	}
	if ids, c := next(21, decision("a", 19, 100, nil), decision("b", 19, 50, usage)); ids != "a" ||
		*c.TTFT != (Quantiles{2, 50, 100}) {
		t.Errorf("%s %+v", ids, c)
	}
	if ids, c := next(28, decision("a", 19, 100, usage)); ids != "a" || *c.TTFT != (Quantiles{2, 50, 100}) {
		t.Errorf("%s %+v", ids, c)
	}
	if ids, c := next(31); ids != "" || c.TTFT != nil || c.Expected != nil || c.Reported != nil {
		t.Errorf("%s %+v", ids, c)
	}
}

// TestShares takes shares of the last ten seconds from counters, where there is one cluster.
func TestShares(t *testing.T) {
	var frames Frames
	var c Cluster
	next := func(nowS int64, prompt, expected, reported float64) {
		g := served(1, 0)
		g.Statistics = append(g.Statistics, stat("prompt_tokens_total", prompt), stat("cached_tokens_total", reported),
			stat("expected_cached_tokens_total", expected))
		c = frames.Next(at(nowS, g)).Gateways[0].Clusters[0]
	}
	if next(1, 1000, 0, 0); c.Expected != nil {
		t.Errorf("%+v", c)
	}
	if next(6, 2000, 800, 500); *c.Expected != 0.8 || *c.Reported != 0.5 {
		t.Errorf("%+v", c)
	}
	next(11, 3000, 800, 500)
	if next(16, 4000, 1800, 500); *c.Expected != 0.5 || *c.Reported != 0 {
		t.Errorf("%+v", c)
	}
	if next(17, 10, 1, 1); c.Expected != nil {
		t.Error("counters that have fallen count")
	}
}

// TestPoll shows frames until it is ended.
func TestPoll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	taken, shown := 0, 0
	take := func(context.Context) *snapshot.Snapshot {
		taken++
		return at(int64(taken), served(int64(10*taken), 0))
	}
	Poll(ctx, time.Millisecond, take, func(f Frame) {
		if shown++; f.Gateways[0].Clusters[0].PerS != float64(10*min(shown-1, 1)) {
			t.Errorf("frame %d: %+v", shown, f)
		}
		if shown == 3 {
			cancel()
		}
	})
	if taken != 3 || shown != 3 {
		t.Errorf("%d snapshots, %d frames", taken, shown)
	}
}

func TestIsRefusal(t *testing.T) {
	for _, c := range []struct {
		reasons string
		refused bool
	}{
		{"at_capacity max_queue_size_exceeded queue_timeout tenant_over_budget no_hash_header own_cluster " +
			"none_in_subset", true},
		{"chosen no_metrics left_queue forwarded store_error unknown", false},
	} {
		for _, reason := range strings.Fields(c.reasons) {
			if IsRefusal(reason) != c.refused {
				t.Error(reason)
			}
		}
	}
}
