package simload

import (
	"fmt"
	"math"
	"testing"

	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

// counts are what the four engines of a phase have counted with round_robin: requests, seconds, ms between two tokens,
// tokens of answers a second, tokens of prompts that were not cached, and seconds of prefills.
type counts struct{ requests, took, between, perSecond, computed, prefills float64 }

var roundRobin = []counts{
	{192, 13.8, 26.3, 1065, 513e3, 45.1}, // calibration
	{144, 20.1, 9.8, 598, 374e3, 22.4},   // open 1
	{144, 17.0, 12.6, 688, 364e3, 22.9},  // open 2
	{192, 12.5, 23.5, 1155, 453e3, 40.4}, // closed 1
}

// page returns a page of metrics with the counts. How many steps there were was not kept. A step generates a token for
// each request that decodes: on average as many as Little's law says, over the time that any does.
func (c *counts) page(t *testing.T) calibrate.Page {
	t.Helper()
	tokens := c.perSecond * c.took
	decoding := tokens * c.between / 1e3 / (4 * c.took)
	steps := tokens * (1 - math.Exp(-decoding)) / decoding
	p, err := calibrate.Parse(fmt.Sprintf("vllm:iteration_tokens_total_count %g\nvllm:generation_tokens_total %g\n"+
		"vllm:prompt_tokens_total %g\nvllm:inter_token_latency_seconds_sum %g\n"+
		"vllm:inter_token_latency_seconds_count %g\nvllm:request_prefill_time_seconds_sum %g\n"+
		"vllm:request_prefill_time_seconds_count %g\n", steps, tokens, c.computed,
		(tokens-c.requests)*c.between/1e3, tokens-c.requests, c.prefills, c.requests))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestForecastOfRealEngines fits the engine to what the real ones have counted with round_robin, and forecasts the
// median TTFT with the other policies: of those that keep prompts together within 12 %, and of all by 15 % on average.
func TestForecastOfRealEngines(t *testing.T) {
	var pages []calibrate.Page
	for i := range roundRobin {
		pages = append(pages, roundRobin[i].page(t))
	}
	fitted, err := calibrate.Fit(pages)
	if err != nil {
		t.Fatal(err)
	}
	engine := simulate.Engine{Config: quarter.Config, Times: fitted.Times}
	t.Logf("%+v", fitted)
	off, n := 0.0, 0
	for i := range phases {
		p := &phases[i]
		for policy, want := range p.real {
			if policy == "round_robin" {
				continue
			}
			got, err := simulated(p, policy, engine)
			if err != nil {
				t.Fatal(err)
			}
			ratio := got.ttft / want.ttft
			t.Logf("%s, %s: TTFT %.2f of the real one", p.name, policy, ratio)
			if (policy == "prefix_cache" || policy == "ring_hash") && math.Abs(ratio-1) > 0.12 {
				t.Errorf("%s, %s: a TTFT of %.2f times the real one", p.name, policy, ratio)
			}
			off += math.Abs(ratio - 1)
			n++
		}
	}
	if off /= float64(n); off > 0.15 {
		t.Errorf("TTFT is off by %.3f on average", off)
	}
}
