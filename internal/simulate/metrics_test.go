package simulate

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// TestMetricsDoNotScatterPrompts has many users of short answers share some system prompts: an engine with one new
// prompt is not full, so what is known of engines must not send requests away from where their prompts are cached.
func TestMetricsDoNotScatterPrompts(t *testing.T) {
	engine := Engine{Config: enginesim.Config{MaxNumSeqs: 32, MaxQueued: -1, NumBlocks: 4096}}
	load := &Sessions{
		Users: 160, Requests: 4000, Prompts: 60, System: 3000, Turns: 2, Question: 100, Answer: 30,
		Think: 2 * time.Second,
	}
	var with, without float64
	for seed := range uint64(3) {
		c, err := OfPolicy("prefix_cache")
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []struct {
			noMetrics bool
			sum       *float64
		}{{false, &with}, {true, &without}} {
			c.NoMetrics = of.noMetrics
			r, err := Run(load.New(seed), Alike(6, engine), c, seed, nil)
			if err != nil {
				t.Fatal(err)
			}
			*of.sum += r.TTFT.Mean
		}
	}
	if ratio := with / without; ratio > 1.4 {
		t.Errorf("with metrics the mean time to the first token is %.2f times that without", ratio)
	}
}

// TestSlowEnginesGetLess has half of the engines take two and a half times as long, with prefix_cache as shipped:
// answers take about as long as if these were not there.
func TestSlowEnginesGetLess(t *testing.T) {
	fast, slow := DefaultEngine(), DefaultEngine()
	fast.Times.Speed = 2.5
	load := &Sessions{
		Users: 41, Requests: 3000, Prompts: 30, System: 1500, Turns: 6, Question: 300, Answer: 200,
		Think: 2 * time.Second,
	}
	c, err := OfPolicy("prefix_cache")
	if err != nil {
		t.Fatal(err)
	}
	for _, noMetrics := range []bool{true, false} {
		c.NoMetrics = noMetrics
		for seed := range uint64(3) {
			mixed, err := Run(load.New(seed), append(Alike(3, slow), Alike(3, fast)...), c, seed, nil)
			if err != nil {
				t.Fatal(err)
			}
			alone, err := Run(load.New(seed), Alike(3, fast), c, seed, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ratio := mixed.Total.Mean / alone.Total.Mean; ratio > 1.1 {
				t.Errorf("seed %d, without metrics: %t: the mean latency is %.2f times that of the fast engines alone",
					seed, noMetrics, ratio)
			}
		}
	}
}
