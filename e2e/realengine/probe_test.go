package main

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// quick is a simulated server fast enough for a test and slow enough for queues to be seen.
func quick(t *testing.T) servers {
	t.Helper()
	tuning := vllmsim.NoLatency()
	tuning.PrefillOverheadMS, tuning.PrefillTokenMS, tuning.DecodeStepMS = 1, .02, 1
	return simulated(t, tuning, 1)
}

// simulated starts n simulated servers, until the test ends.
func simulated(t *testing.T, tuning vllmsim.Tuning, n int) (list servers) {
	t.Helper()
	if err := lab.Try(func() { list = startSimulated(tuning, n, 16) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(list.stop)
	return list
}

// TestMeasure checks that the prober measures a server of known behaviour correctly. Times depend on the machine and
// are only compared where the server decides them.
func TestMeasure(t *testing.T) {
	s := quick(t)
	var r report
	if err := lab.Try(func() { r = measure(t.Context(), target{url: s[0].url, servers: s}) }); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(r.cold)); !slices.Equal(got, promptSizes) {
		t.Errorf("prompts of %v tokens measured, want %v", got, promptSizes)
	}
	// Prefill takes 0.02 ms a token, and sleeping never takes less than requested.
	if r.cold[2000] < 41 || r.half < 21 {
		t.Errorf("2000 tokens: first token after %.1f ms, half cached %.1f ms; the server takes 41 and 21",
			r.cold[2000], r.half)
	}
	if r.cachedWarm != 1984./2000 || r.cachedHalf != 992./2000 {
		t.Errorf("cached shares %v and %v, want all full blocks but the last", r.cachedWarm, r.cachedHalf)
	}
	if r.decodeAlone < .5 {
		t.Errorf("%.2f ms between tokens of a lone answer, the server takes 1", r.decodeAlone)
	}
	if r.clients != r.counted || r.counted.generated == 0 {
		t.Errorf("clients saw %+v, the server counted %+v", r.clients, r.counted)
	}
	// A stalled machine may miss the moment of the longest queue, but cannot see a longer one.
	if q := r.queue; q.running[0] < 1 || q.running[0] > slots || q.waiting[0] < 1 || q.waiting[0] > burst-slots ||
		q.lastMS < q.firstMS {
		t.Errorf("queue %+v", q)
	}
}

func TestMeasureNoticesFailures(t *testing.T) {
	sim := vllmsimtest.StartT(t, vllmsim.Config{Model: "tiny", Tuning: vllmsim.NoLatency()})
	one := servers{{url: sim.URL(), names: vllmNames}}
	if err := sim.SetMode(vllmsim.ModeError); err != nil {
		t.Fatal(err)
	}
	if lab.Try(func() { measure(t.Context(), target{url: sim.URL(), servers: one}) }) == nil {
		t.Error("a server that answers 500 was measured without error")
	}
	if err := sim.SetMode(vllmsim.ModeOK); err != nil {
		t.Fatal(err)
	}
	p := newProber(target{url: sim.URL(), servers: one})
	prompt := p.tokens(100)
	if lab.Try(func() { p.firstToken(t.Context(), func() []int { return prompt }, .2, .3) }) == nil {
		t.Error("a cached share that never comes was not noticed")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if lab.Try(func() { p.inTurn(gone, 2, 2, 16, 1) }) == nil {
		t.Error("requests after the end succeeded")
	}
}

func TestCalibrate(t *testing.T) {
	s := quick(t)
	var got vllmsim.Tuning
	if err := lab.Try(func() { got = calibrate(t.Context(), s[0], 16, 1) }); err != nil {
		t.Fatal(err)
	}
	// Less than the truth cannot be measured, but for rounding; more depends on the machine.
	if got.PrefillOverheadMS < 1 || got.DecodeStepMS+got.DecodeSeqMS < .5 || got.Validate() != nil {
		t.Errorf("fitted %+v to a server of 1 ms a prompt and 1 ms a step", got)
	}
}
