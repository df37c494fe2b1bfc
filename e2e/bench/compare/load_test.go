package compare

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

func engine() vllmsim.Config {
	c := vllmsim.Config{Tuning: vllmsim.NoLatency()}
	c.MaxNumSeqs = 4
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS, c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 5, 0.1, 8, 0.5
	return c
}

func TestWork(t *testing.T) {
	// 5 ms + 100 tokens at 0.1 ms + 10 tokens at a quarter of (8 + 4*0.5) ms.
	if got := Work(engine(), 100, 10); got != 40*time.Millisecond {
		t.Errorf("work is %v, want 40ms", got)
	}
}

func TestAtLoadHitsTheLoad(t *testing.T) {
	servers := Servers(engine(), 2, 1, 1)
	w := loadgen.Workload{
		Seed: 3, Arrivals: loadgen.Constant,
		Prompt: loadgen.LogNormal{Median: 100, Sigma: 0.5}, Output: loadgen.LogNormal{Median: 20, Sigma: 0.5},
	}
	for _, load := range []float64{0.5, 0.8} {
		reqs, err := AtLoad(w, servers, load, 100*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		span := reqs[len(reqs)-1].Due
		if math.Abs(span.Seconds()-100) > 1 {
			t.Errorf("the requests span %v, want 100s", span)
		}
		if got := float64(len(reqs)) / (span.Seconds() * Capacity(servers, reqs)); math.Abs(got/load-1) > 0.05 {
			t.Errorf("load %.3f, want %.3f", got, load)
		}
	}
	if _, err := AtLoad(loadgen.Workload{}, servers, 0.5, time.Second); err == nil {
		t.Error("a workload without lengths was accepted")
	}
}

// TestBatchIsWhatHasRoom weighs requests by the time that they run: as long as their answer.
func TestBatchIsWhatHasRoom(t *testing.T) {
	c := engine()
	c.MaxNumSeqs, c.BlockSize = 8, 10
	short, long := loadgen.Request{Prompt: 50, MaxTokens: 100}, loadgen.Request{Prompt: 850, MaxTokens: 300}
	for _, tc := range []struct {
		name   string
		blocks int
		reqs   []loadgen.Request
		want   int
	}{
		{"room for all", 80, []loadgen.Request{short}, 8},
		{"for half", 40, []loadgen.Request{short}, 4},
		{"not for one", 9, []loadgen.Request{short}, 1},
		{"a mix holds 775 tokens in the mean", 400, []loadgen.Request{short, long}, 5},
		{"no cache is simulated", 0, []loadgen.Request{short}, 8},
		{"nothing is known", 40, nil, 8},
	} {
		c.NumBlocks = tc.blocks
		if got := Batch(c, tc.reqs); got != tc.want {
			t.Errorf("%s: %d at once, want %d", tc.name, got, tc.want)
		}
	}
}

// TestCapacity adds servers up, each with the batch that it has room for.
func TestCapacity(t *testing.T) {
	reqs := []loadgen.Request{{Prompt: 100, MaxTokens: 10}} // 40 ms each with a batch of four, as in TestWork
	full, fast, small := engine(), engine(), engine()
	fast.Tuning.Speed = 2
	small.BlockSize, small.NumBlocks = 1, 110 // room for one: 5 + 10 + 10 × 8.5 ms
	if got := Capacity([]vllmsim.Config{full, fast, small}, reqs); math.Abs(got-(25+50+10)) > 1e-9 {
		t.Errorf("%v requests a second, want 85", got)
	}
}

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
