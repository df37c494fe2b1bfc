package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb/engines"
)

// decoded returns the lines of an engine that has generated that many tokens, at the given speed per request.
func decoded(tokens, speed float64) []string {
	return []string{
		fmt.Sprintf("vllm:inter_token_latency_seconds_count %g", tokens),
		fmt.Sprintf("vllm:inter_token_latency_seconds_sum %g", tokens/speed),
	}
}

// weights returns the weight of each endpoint after a minute in which the engines generated at these speeds.
func (w *engineCluster) weights(speeds ...float64) []float64 {
	w.t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	tokens := make([]float64, len(speeds))
	for range 60 {
		w.now += time.Second
		for i, speed := range speeds {
			tokens[i] += math.Floor(30 * rng.Float64())
			w.report(i, 3, append(decoded(tokens[i], speed), running(3), waiting(0))...)
		}
		w.update()
	}
	p, _ := w.plan("")
	var out []float64
	for _, c := range p.Candidates {
		out = append(out, c.Weight)
	}
	return out
}

// Weights are learned from the speed per request, whatever the load is, unless they are configured.
func TestLearnsSpeed(t *testing.T) {
	w := newEngineCluster(t, 3, nil)
	if got := w.weights(80, 45, 30); math.Abs(got[0]/got[2]-80.0/30) > 0.1 || got[1] != 1 {
		t.Errorf("engines of 80, 45 and 30 tokens a second weigh %v, want 1.8, 1 and 0.7", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(45, 40, 36); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("engines that hardly differ weigh %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	w.clusterConfig.Weights = map[string]float64{w.addr(0): 1}
	w.build("endpoint_metrics")
	if got := w.weights(80, 40, 30); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("weights are configured, and still learned: %v", got)
	}
	w = newEngineCluster(t, 3, func(c *engines.Config) { c.Learn = false })
	if got := w.weights(80, 40, 30); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("learning is off: %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(8000, 40, 40); got[0] != 8 || got[1] != 1 || got[2] != 1 {
		t.Errorf("a misreporting engine makes the weights %v", got)
	}
	w = newEngineCluster(t, 3, nil)
	if got := w.weights(1e308, 1e7, 40); got[0] != 1 || got[1] != 1 || got[2] != 1 {
		t.Errorf("engines with impossible values make the weights %v", got)
	}
}

// A reset counter has no effect.
func TestLearnsNothingFromARestart(t *testing.T) {
	w := newEngineCluster(t, 2, nil)
	for i := range 40 {
		w.now += time.Second
		tokens := 100 * float64(i)
		w.report(1, 2, append(decoded(tokens, 50), running(2), waiting(0))...)
		if i >= 20 {
			tokens = 100 * float64(i-20)
		}
		w.report(0, 2, append(decoded(tokens, 50), running(2), waiting(0))...)
		w.update()
	}
	p, _ := w.plan("")
	if p.Candidates[0].Weight != 1 || p.Candidates[1].Weight != 1 {
		t.Errorf("after a restart the weights are %+v", p.Candidates)
	}
}
