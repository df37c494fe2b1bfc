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
	speeds := []float64{2, 1, 1}
	w := loadgen.Workload{
		Seed: 3, Arrivals: loadgen.Constant,
		Prompt: loadgen.LogNormal{Median: 100, Sigma: 0.5}, Output: loadgen.LogNormal{Median: 20, Sigma: 0.5},
	}
	for _, load := range []float64{0.5, 0.8} {
		reqs, err := AtLoad(w, engine(), speeds, load, 100*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if span := reqs[len(reqs)-1].Due; math.Abs(span.Seconds()-100) > 1 {
			t.Errorf("the requests span %v, want 100s", span)
		}
		if got := Load(engine(), speeds, reqs); math.Abs(got/load-1) > 0.05 {
			t.Errorf("load %.3f, want %.3f", got, load)
		}
	}
	if _, err := AtLoad(loadgen.Workload{}, engine(), speeds, 0.5, time.Second); err == nil {
		t.Error("a workload without lengths was accepted")
	}
}
