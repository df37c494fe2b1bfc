package compare

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

func TestPlacementOf(t *testing.T) {
	// on is a request at a server from one second to another.
	on := func(server string, from, to int) loadgen.Sample {
		return loadgen.Sample{
			Endpoint: server, Due: time.Duration(from) * time.Second, Sent: time.Duration(from) * time.Second,
			Total: time.Duration(to-from) * time.Second,
		}
	}
	for _, tc := range []struct {
		name    string
		samples []loadgen.Sample
		want    Placement
	}{
		{"room for all", []loadgen.Sample{on("0", 0, 5), on("0", 1, 5), on("1", 2, 5)}, Placement{Requests: 3}},
		{"full beside idle", []loadgen.Sample{on("0", 0, 5), on("0", 1, 5), on("0", 2, 5)}, Placement{3, 1, 1, 1}},
		{
			"full beside a free slot",
			[]loadgen.Sample{on("0", 0, 5), on("0", 1, 5), on("1", 1, 5), on("0", 2, 5)},
			Placement{4, 1, 1, 0},
		},
		{
			"all full",
			[]loadgen.Sample{on("0", 0, 5), on("0", 1, 5), on("1", 1, 5), on("1", 1, 5), on("0", 2, 5)},
			Placement{5, 1, 0, 0},
		},
		{
			"a slot is free when its request ends",
			[]loadgen.Sample{on("0", 0, 2), on("0", 0, 5), on("0", 2, 5)},
			Placement{Requests: 3},
		},
		{"unserved requests do not count", []loadgen.Sample{on("", 0, 5), on("7", 0, 5)}, Placement{}},
	} {
		if got := PlacementOf(tc.samples, []int{2, 2}, 0); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestPlacementOfUnequalServers has servers of one slot and of three, and a beginning that does not count.
func TestPlacementOfUnequalServers(t *testing.T) {
	at := func(server string, from int) loadgen.Sample {
		s := time.Duration(from) * time.Second
		return loadgen.Sample{Endpoint: server, Due: s, Sent: s, Total: 9 * time.Second}
	}
	samples := []loadgen.Sample{at("0", 0), at("0", 1), at("1", 2), at("0", 3), at("1", 4), at("1", 5), at("0", 6)}
	for _, tc := range []struct {
		from int
		want Placement
	}{
		{0, Placement{7, 3, 2, 1}},
		{1, Placement{6, 3, 2, 1}},
		{2, Placement{5, 2, 1, 0}},
		{6, Placement{1, 1, 0, 0}},
		{7, Placement{}},
	} {
		if got := PlacementOf(samples, []int{1, 3}, time.Duration(tc.from)*time.Second); got != tc.want {
			t.Errorf("from second %d: %+v, want %+v", tc.from, got, tc.want)
		}
	}
}

// TestPlacementOfLeastRequest checks the measure against its purpose: a perfect least-request never queues beside a
// free slot.
func TestPlacementOfLeastRequest(t *testing.T) {
	const servers = 5
	slots := []int{2, 2, 2, 2, 2}
	r := rand.New(rand.NewPCG(1, 2))
	var samples []loadgen.Sample
	for i := range 3000 {
		now := time.Duration(i) * time.Second
		inflight := make([]int, servers)
		for _, s := range samples[max(0, i-200):] {
			if id := Server(&s, servers); s.Due+s.Total > now {
				inflight[id]++
			}
		}
		best := 0
		for id, n := range inflight {
			if n < inflight[best] {
				best = id
			}
		}
		took := time.Duration(r.ExpFloat64() * float64(9*time.Second))
		samples = append(samples, loadgen.Sample{
			Endpoint: strconv.Itoa(best), Due: now, Sent: now,
			Total: min(took, 150*time.Second),
		})
	}
	if p := PlacementOf(samples, slots, 0); p.Requests != 3000 || p.Queued == 0 || p.BesideFree != 0 {
		t.Errorf("placement %+v, want some queueing but none beside a free slot", p)
	}
}

func TestImbalance(t *testing.T) {
	at := func(endpoint string, total time.Duration) loadgen.Sample {
		return loadgen.Sample{Endpoint: endpoint, Total: total}
	}
	for _, tc := range []struct {
		name    string
		samples []loadgen.Sample
		want    float64
	}{
		{"nothing served", []loadgen.Sample{at("", time.Second)}, 0},
		{"even", []loadgen.Sample{at("0", time.Second), at("1", time.Second)}, 1},
		{"all on one", []loadgen.Sample{at("1", time.Second), at("1", time.Second)}, 2},
		{
			"a fast server may take more requests",
			[]loadgen.Sample{at("0", 2*time.Second), at("1", time.Second), at("1", time.Second)},
			1,
		},
		{
			"unknown endpoints do not count",
			[]loadgen.Sample{at("0", time.Second), at("1", time.Second), at("9", time.Hour), at("x", time.Hour)},
			1,
		},
	} {
		if got := Imbalance(tc.samples, 2); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
