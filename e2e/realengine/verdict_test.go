package main

import (
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

// typical is a report as the comparison usually gives it.
func typical() report {
	c := counters{computed: 1000, cached: 500, generated: 200}
	return report{
		cold:       map[int]float64{500: 200, 1000: 420, 2000: 900},
		warm:       map[int]float64{500: 4, 1000: 5, 2000: 6},
		half:       500,
		cachedWarm: 1, cachedHalf: .5,
		decodeAlone: 2, decodeFull: 5,
		queue: queueReport{
			running: []int{4, 4}, waiting: []int{4, 4}, firstMS: 300, lastMS: 900, totalMS: 1200,
			perEndpoint: map[string]int{"a": 8, "b": 8},
		},
		clients: c, counted: c,
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*report)
		fails  string // part of the one line that fails
	}{
		{"equal", func(*report) {}, ""},
		{"a little slower", func(r *report) { r.cold[500] *= 1.9; r.queue.totalMS *= 2.9 }, ""},
		{"other names", func(r *report) { r.queue.perEndpoint = map[string]int{"x": 8, "y": 8} }, ""},
		{"block rounding", func(r *report) { r.cachedWarm = .992 }, ""},
		{"much slower", func(r *report) { r.cold[1000] *= 2.1 }, "1000 tokens cold"},
		{"much faster", func(r *report) { r.cold[1000] /= 2.1 }, "1000 tokens cold"},
		{"nothing measured", func(r *report) { r.decodeAlone = 0 }, "alone"},
		{"cache without effect", func(r *report) { r.warm[1000] = 420 }, "1000 tokens cached"},
		{"little gain", func(r *report) { r.cold[2000], r.warm[2000] = 460, 100 }, "2000 tokens cached"},
		{"half cached like cold", func(r *report) { r.half = 1200 }, "half cached"},
		{"cached share", func(r *report) { r.cachedHalf = .4 }, "half repeated"},
		{"more running", func(r *report) { r.queue.running = []int{5, 4} }, "most running"},
		{"no queue", func(r *report) { r.queue.waiting = []int{0, 0} }, "most waiting"},
		{"served at once", func(r *report) { r.queue.lastMS = 250 }, "last slots"},
		{"uneven", func(r *report) { r.queue.perEndpoint = map[string]int{"a": 10, "b": 6} }, "per endpoint"},
		{"miscounted", func(r *report) { r.counted.cached++ }, "prompt tokens cached"},
		{"left over", func(r *report) { r.counted.running = 1 }, "running when all is done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := typical()
			c.change(&sim)
			var failed []string
			for _, line := range verdict(typical(), sim) {
				if !line.ok {
					failed = append(failed, line.what)
				}
			}
			got := strings.Join(failed, "; ")
			if (c.fails == "") != (got == "") || !strings.Contains(got, c.fails) {
				t.Errorf("failed lines %q, want %q", got, c.fails)
			}
			var table strings.Builder
			if alike := printVerdict(&table, "title", typical(), sim); alike != (c.fails == "") ||
				strings.Contains(table.String(), "UNLIKE") == alike {
				t.Errorf("alike %v with the table\n%s", alike, table.String())
			}
		})
	}
}

// TestOneServerHasLessSlack checks that the slack for engines that share cores is not given to a single one.
func TestOneServerHasLessSlack(t *testing.T) {
	one := func(totalMS float64) queueReport {
		q := typical().queue
		q.running, q.waiting, q.totalMS = []int{4}, []int{12}, totalMS
		return q
	}
	real, sim := typical(), typical()
	real.queue, sim.queue = one(1000), one(2500)
	if printVerdict(io.Discard, "", real, sim) {
		t.Errorf("a factor of 2.5 passes with one server, %g is allowed", timeFactor)
	}
	sim.queue = one(1900)
	if !printVerdict(io.Discard, "", real, sim) {
		t.Errorf("a factor of 1.9 does not pass, %g is allowed", timeFactor)
	}
}

func TestSpeedupHoldsForBoth(t *testing.T) {
	slow := typical()
	slow.warm[2000] = slow.cold[2000] / (minSpeedup - 1)
	if speedup(2000, slow, typical()).ok || speedup(2000, typical(), slow).ok ||
		!speedup(2000, typical(), typical()).ok {
		t.Error("a cached prompt has to gain with both kinds of servers")
	}
}

func TestFit(t *testing.T) {
	want := vllmsim.NoLatency()
	want.PrefillOverheadMS, want.PrefillTokenMS, want.DecodeStepMS, want.DecodeSeqMS = 5, .4, 1, 2
	got := fit(16, 5+.4*fitSize, 5+.4*8, 3, 1+2*slots)
	for _, v := range [][2]float64{
		{got.PrefillOverheadMS, 5}, {got.PrefillTokenMS, .4}, {got.DecodeStepMS, 1}, {got.DecodeSeqMS, 2},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("fitted %+v, want %+v", got, want)
		}
	}
	if noisy := fit(16, 4, 5, 3, 2); noisy.Validate() != nil {
		t.Errorf("noise gives %+v: %v", noisy, noisy.Validate())
	}
}

func TestFindCounters(t *testing.T) {
	for _, c := range []struct {
		file  string
		names counterNames
		want  counters
	}{
		{"testdata/llamacpp.prom", llamaNames, counters{computed: 26981, cached: 28396, generated: 108}},
		{
			"../../internal/vllmsim/testdata/vllm-0.32.0-second.prom", vllmNames,
			counters{computed: 29125, cached: 28160, generated: 876},
		},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.names.find(string(text)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.file, got, err, c.want)
		}
	}
	if _, err := llamaNames.find("llamacpp:requests_processing 1\n"); err == nil {
		t.Error("missing metrics were not noticed")
	}
	if _, err := llamaNames.find("llamacpp:requests_processing one\n"); err == nil {
		t.Error("a metric without a number was not noticed")
	}
}

func TestScriptsVersion(t *testing.T) {
	seen := map[string]string{}
	for _, e := range engines {
		a, err := scriptsVersion(e)
		if err != nil || len(a) != 12 {
			t.Errorf("version %q of %s, %v", a, e.name, err)
		}
		if b, _ := scriptsVersion(e); b != a {
			t.Errorf("versions %q and %q of the same scripts", a, b)
		}
		if other := seen[a]; other != "" {
			t.Errorf("%s and %s have the same version", e.name, other)
		}
		seen[a] = e.name
	}
	if _, err := scriptsVersion(engine{files: "none"}); err == nil {
		t.Error("an engine without files has a version")
	}
}
