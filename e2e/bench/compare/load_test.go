package compare

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

func engine() vllmsim.Config {
	c := vllmsim.Config{MaxNumSeqs: 4}
	c.Tuning = vllmsim.NoLatency()
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
		if span := reqs[len(reqs)-1].Due; math.Abs(span.Seconds()-100) > 1 {
			t.Errorf("the requests span %v, want 100s", span)
		}
		if got := Load(servers, reqs); math.Abs(got/load-1) > 0.05 {
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
