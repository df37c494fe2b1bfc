package audit

import (
	"reflect"
	"strings"
	"testing"
)

func TestDisagreement(t *testing.T) {
	for name, tt := range map[string]struct {
		counts Counts
		agrees bool
		idle   bool
	}{
		"nothing":              {Counts{}, true, true},
		"the same":             {Counts{Plugin: 2, Server: 2, Envoy: 2}, true, false},
		"not listed by Envoy":  {Counts{Plugin: 2, Server: 2, Unknown: true}, true, false},
		"plugin forgot one":    {Counts{Plugin: 1, Server: 2, Envoy: 2}, false, false},
		"plugin kept one":      {Counts{Plugin: 1}, false, false},
		"server kept one":      {Counts{Server: 1}, false, false},
		"Envoy kept one":       {Counts{Envoy: 1}, false, false},
		"below zero":           {Counts{Plugin: -1}, false, false},
		"unlisted and too few": {Counts{Plugin: 1, Server: 2, Unknown: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			snap := Snapshot{"127.0.0.1:1": {Plugin: 1, Server: 1, Envoy: 1}, "127.0.0.1:2": tt.counts}
			if err := snap.Disagreement(); (err == nil) != tt.agrees {
				t.Errorf("Disagreement() = %v, want agreement: %t", err, tt.agrees)
			} else if err != nil && !strings.HasPrefix(err.Error(), "127.0.0.1:2: plugin ") {
				t.Errorf("the error does not name the endpoint: %v", err)
			}
			if err := (Snapshot{"127.0.0.1:2": tt.counts}).Remains(); (err == nil) != tt.idle {
				t.Errorf("Remains() = %v, want drained: %t", err, tt.idle)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	snap := Snapshot{"a": {Plugin: 1, Server: 2, Envoy: 3}, "b": {Plugin: 10, Server: 20, Envoy: 30, Unknown: true}}
	if got, want := snap.Totals(), (Counts{Plugin: 11, Server: 22, Envoy: 33}); got != want {
		t.Errorf("Totals() = %+v, want %+v", got, want)
	}
}

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		snap        Snapshot
		least, most int64
	}{
		{Snapshot{}, 0, 0},
		{Snapshot{"a": {Server: 4}}, 4, 4},
		{Snapshot{"a": {Server: 4, Plugin: 1}, "b": {Server: 2, Plugin: 9}, "c": {Server: 3}}, 2, 4},
	} {
		if least, most := tt.snap.Spread(); least != tt.least || most != tt.most {
			t.Errorf("Spread() of %v = %d, %d, want %d, %d", tt.snap, least, most, tt.least, tt.most)
		}
	}
}

func TestActiveRequests(t *testing.T) {
	page := "llm::default_priority::max_connections::65536\n" +
		"llm::127.0.0.1:8001::cx_active::7\n" +
		"llm::127.0.0.1:8001::rq_active::3\n" +
		"llm::[::1]:8002::rq_active::4\n" + // the address itself holds the divider
		"other::127.0.0.1:8001::rq_active::9\n"
	got, err := activeRequests(page, "llm")
	if want := map[string]int64{"127.0.0.1:8001": 3}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("activeRequests() = %v, %v, want %v", got, err, want)
	}
	if _, err := activeRequests("llm::127.0.0.1:8001::rq_active::many\n", "llm"); err == nil {
		t.Error("a count that is no number was taken")
	}
}

func TestPluginCounts(t *testing.T) {
	got := pluginCounts(map[string]float64{
		"wasmcustom.warmgate_inflight_requests;cluster=llm;endpoint=127.0.0.1:8001":   5,
		"wasmcustom.warmgate_inflight_requests;cluster=llm2;endpoint=127.0.0.1:8001":  6,
		"wasmcustom.warmgate_inflight_tokens;cluster=llm;endpoint=127.0.0.1:8001":     7,
		"wasmcustom.warmgate_decisions_total;policy=global_least_request;reason=none": 8,
	}, "llm")
	if want := map[string]int64{"127.0.0.1:8001": 5}; !reflect.DeepEqual(got, want) {
		t.Errorf("pluginCounts() = %v, want %v", got, want)
	}
}

func TestWatchNotes(t *testing.T) {
	gauge := inflightGauge + "llm;endpoint=127.0.0.1:8001"
	for name, tt := range map[string]struct {
		stat  string
		value float64
		bad   bool
	}{
		"a plausible count":  {gauge, 10, false},
		"a huge count":       {gauge, 11, true},
		"a negative count":   {gauge, -1, true},
		"a wrapped count":    {gauge, 1<<64 - 1, true},
		"corrected totals":   {"wasmcustom.warmgate_store_corrected_total", 1, true},
		"a recovered panic":  {"wasmcustom.warmgate_recovered_panics_total", 1, true},
		"a lost VM":          {"wasm.warmgate.vm_reload_success", 1, true},
		"what is allowed":    {"wasm.warmgate.vm_reload_failure", 1, false},
		"no correction":      {"wasmcustom.warmgate_store_corrected_total", 0, false},
		"unrelated counters": {"wasmcustom.warmgate_store_retries_total", 99, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Watch{most: 10, allows: map[string]bool{"wasm.warmgate.vm_reload_failure": true}}
			w.check(map[string]float64{tt.stat: tt.value})
			if (len(w.errs) > 0) != tt.bad {
				t.Errorf("notes: %v, want some: %t", w.errs, tt.bad)
			}
		})
	}
}
