package gpu

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// at is a request at an engine from one second to another.
func at(engine string, from, to int) loadgen.Sample {
	begun := time.Duration(from) * time.Second
	return loadgen.Sample{Endpoint: engine, Due: begun, Sent: begun, Total: time.Duration(to-from) * time.Second}
}

func TestBusiest(t *testing.T) {
	for name, c := range map[string]struct {
		samples []loadgen.Sample
		want    float64
	}{
		"nothing":                    {nil, 0},
		"one has all":                {[]loadgen.Sample{at("a", 0, 4)}, 2},
		"as many at each":            {[]loadgen.Sample{at("a", 0, 4), at("b", 0, 4)}, 1},
		"half of the time":           {[]loadgen.Sample{at("a", 0, 4), at("b", 2, 4)}, 1.5},
		"a pause does not count":     {[]loadgen.Sample{at("a", 0, 2), at("a", 8, 10), at("b", 8, 10)}, 1.5},
		"three of four":              {append(slices.Repeat([]loadgen.Sample{at("a", 0, 1)}, 3), at("b", 0, 1)), 1.5},
		"first one ends, one begins": {[]loadgen.Sample{at("a", 0, 2), at("b", 2, 4)}, 2},
	} {
		if got := busiest(c.samples, 2); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestBusiestIsBounded holds that it is between 1 and the number of engines, whatever was measured.
func TestBusiestIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "engines")
		var samples []loadgen.Sample
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			from := rapid.IntRange(0, 50).Draw(t, "from")
			engine := string(rune('a' + rapid.IntRange(0, n-1).Draw(t, "engine")))
			samples = append(samples, at(engine, from, from+rapid.IntRange(1, 20).Draw(t, "took")))
		}
		if got := busiest(samples, n); !(got >= 1-1e-9 && got <= float64(n)+1e-9) {
			t.Fatalf("%v with %d engines", got, n)
		}
	})
}

// TestResult checks times by token: those after the first.
func TestResult(t *testing.T) {
	s := loadgen.Sample{
		Endpoint: "a", TTFT: 100 * time.Millisecond, Total: 400 * time.Millisecond,
		Usage: loadgen.Usage{Prompt: 100, Cached: 25, Completion: 4},
		Gaps:  []time.Duration{90 * time.Millisecond, 110 * time.Millisecond, 100 * time.Millisecond},
	}
	short := s
	short.Usage.Completion, short.Gaps, short.Endpoint = 1, nil, "b"
	r := resultOf([]loadgen.Sample{s, s, short, short}, 2)
	if r.perToken != 100 || r.gapP99 != 110 || r.Cached != 0.25 || r.uneven != 1 || ttft(&r) != 100 ||
		total(&r) != 400 {
		t.Errorf("%+v", r)
	}
	if err := answered([]loadgen.Sample{s, {Status: 404, Error: "status_404", Detail: "no such model"}}); err == nil ||
		!strings.Contains(err.Error(), "no such model") {
		t.Error(err)
	}
}

func TestSince(t *testing.T) {
	from := time.Date(2026, 11, 28, 6, 0, 0, 5_700_000, time.UTC)
	log := "2026-11-28T06:00:00.004Z before\n[warning]\n2026-11-28T06:00:00.005Z same ms\n\n2026-11-28T06:00:01Z late"
	if got, want := since(log, from), "2026-11-28T06:00:00.005Z same ms\n2026-11-28T06:00:01Z late"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := off(100, 85); math.Abs(got+0.15) > 1e-9 || off(0, 3) != 0 {
		t.Error(got)
	}
}
