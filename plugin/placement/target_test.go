package placement

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/request"
)

// Times in headers are taken in steps, and what is no such time is as no header.
func TestReadTarget(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "soon": 0, "1,1": 0, "3600001": 0, "999999999999999999999": 0, "0.5ms": 0, "NaN": 0,
		"2h": 0, "1s": time.Second, "2000": 2 * time.Second, "50": 50 * time.Millisecond, "50ms": 50 * time.Millisecond,
	} {
		got := readTarget(text)
		if (got == 0) != (want == 0) || got > want || float64(got) < 0.91*float64(want) {
			t.Errorf("%q is %v, want %v or a bit less", text, got, want)
		}
	}
	seen := map[time.Duration]bool{}
	rapid.Check(t, func(rt *rapid.T) {
		d := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(rt, "time"))
		seen[readTarget(d.String())] = true
	})
	if len(seen) > 22*targetSteps {
		t.Errorf("%d different targets", len(seen))
	}
}

// Headers count only where targets are configured.
func TestTargetOfHeaders(t *testing.T) {
	for _, c := range []struct {
		policy     string
		configured lb.Target
		want       bool
	}{
		{"prefix_cache", lb.Target{}, false},
		{"prefix_cache", lb.Target{TTFT: time.Second}, true},
		{"global_least_request", lb.Target{TTFT: time.Second}, false},
	} {
		b := &basis{}
		b.Subject.Request = &request.Request{}
		b.Config = &config.Config{Policy: c.policy}
		b.Config.Prefix.Target = c.configured
		b.Traits = request.Traits{Known: true, Headers: [][2]string{{"X-SLO-TPOT-MS", "64"}}}
		if got := b.target(); (got.PerToken > 0) != c.want || got.TTFT != 0 {
			t.Errorf("%s with %+v: %+v", c.policy, c.configured, got)
		}
	}
}

// Late is who finds more requests at the chosen endpoint than are in time there; of no target nothing is said.
func TestInTime(t *testing.T) {
	target := lb.Target{TTFT: time.Second}
	for name, c := range map[string]struct {
		target lb.Target
		load   int64
		slope  float64
		want   string
	}{
		"no target":             {lb.Target{}, 9, 1, ""},
		"the last one in time":  {target, 4, 1, "in_time"},
		"one more":              {target, 5, 1, "late"},
		"in time at any number": {target, 9, 0, "in_time"},
	} {
		l := lease{Chosen: "b:1", Load: c.load}
		l.Reservation.Grant.Index = 1
		l.Reservation.Plan.Target = c.target
		l.Reservation.Plan.Candidates = []lb.Candidate{
			{Addr: "a:1", OverSlope: 1}, {Addr: "b:1", OverSlope: c.slope, Capacity: 4.5},
		}
		if got := l.InTime(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
