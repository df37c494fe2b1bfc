package health

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// An ejection lasts twice as long as the previous one, up to the longest.
func TestEjectionTime(t *testing.T) {
	for _, c := range []struct {
		first, longest time.Duration
		n              int
		want           time.Duration
	}{
		{time.Second, time.Minute, 1, time.Second},
		{time.Second, time.Minute, 2, 2 * time.Second},
		{time.Second, 4 * time.Second, 3, 4 * time.Second},
		{time.Second, 4 * time.Second, 4, 4 * time.Second},
		{time.Second, 0, 5, 16 * time.Second},
		{time.Second, 0, 21, 1 << 20 * time.Second},
		{time.Second, 0, 100, 1 << 20 * time.Second},
		{1 << 43, time.Minute, 21, time.Minute}, // overflows to a negative time
		{1 << 44, time.Minute, 21, time.Minute}, // and this one to 0
	} {
		cfg := Config{EjectionTime: c.first, MaxEjectionTime: c.longest}
		if got := cfg.ejectionTime(c.n); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// An ejection has no effect under a configuration that requires more failures.
func TestEjectedUntil(t *testing.T) {
	e := ejection{from: time.Minute, until: time.Hour, times: 2, failures: 5}
	for consecutive, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Minute + 20*time.Second, 5: time.Minute + 20*time.Second, 6: 0,
	} {
		cfg := &Config{ConsecutiveFailures: consecutive, EjectionTime: 10 * time.Second}
		if got := e.ejectedUntil(cfg); got != want {
			t.Errorf("%d failures required: until %v, want %v", consecutive, got, want)
		}
	}
	if got := new(ejection).ejectedUntil(&Config{ConsecutiveFailures: 1}); got != 0 {
		t.Errorf("ejected until %v without an ejection", got)
	}
}

// An ejection before the end of the previous one extends that; from its end on it counts as another one. One failure
// less than it took is left as the score.
func TestEject(t *testing.T) {
	cfg := &Config{ConsecutiveFailures: 5, EjectionTime: 10 * time.Second}
	for now, want := range map[time.Duration]ejection{
		time.Minute - 1: {time.Minute - 1, time.Minute + 10*time.Second - 1, 1, 7},
		time.Minute:     {time.Minute, time.Minute + 20*time.Second, 2, 7},
	} {
		h := healthOf(1)
		e := h.current[0]
		e.ejection = ejection{until: time.Minute, times: 1, failures: 5}
		h.eject(now, e, 7, cfg)
		if e.ejection != want || e.score != 6 || !e.probation || h.Ejections() != 1 || !h.exportPending {
			t.Errorf("at %v: %+v, score %v", now, e.ejection, e.score)
		}
	}
	h := healthOf(1)
	e := h.current[0]
	e.ejection = ejection{until: time.Hour, times: 1, failures: 5}
	if h.eject(time.Minute, e, 7, cfg); e.until != time.Hour {
		t.Errorf("a longer ejection ends at %v", e.until)
	}
}

// An endpoint is ejected by the configured number of failures, unless it is ejected already or the number is 0.
func TestScoreThatEjects(t *testing.T) {
	for _, c := range []struct {
		failures, consecutive int
		from                  time.Duration // of an ejection of ten seconds before
		want                  uint64
	}{
		{4, 5, 0, 0},
		{5, 5, 0, 1},
		{6, 5, 0, 1},
		{5, 0, 0, 0},
		{5, -1, 0, 0},
		{5, 5, time.Minute - 10*time.Second, 1},
		{5, 5, time.Minute - 10*time.Second + 1, 0},
	} {
		h := healthOf(0, 0, 0)
		if c.from > 0 {
			h.current[0].ejection = ejection{from: c.from, until: c.from + 10*time.Second, times: 1, failures: 9}
		}
		cfg := &ClusterConfig{Health: Config{
			ConsecutiveFailures: c.consecutive, EjectionTime: 10 * time.Second, MaxEjectionTime: 10 * time.Second,
		}}
		for i := range c.failures {
			h.Observe(time.Minute, failing(lb.Failure, uint64(i+1)), cfg)
		}
		if h.Ejections() != c.want {
			t.Errorf("%+v: %d ejections", c, h.Ejections())
		}
	}
}

// An import adopts ejections that end later, or began later, and replaces one that has ended.
func TestImport(t *testing.T) {
	const now, s = time.Minute, time.Second
	own, ended := ejection{50 * s, 70 * s, 3, 9}, ejection{40 * s, now, 3, 9}
	for _, c := range []struct {
		name                string
		own, theirs, wanted ejection
	}{
		{"the same", own, own, own},
		{"ends later", own, ejection{50 * s, 71 * s, 1, 5}, ejection{50 * s, 71 * s, 3, 9}},
		{"began later", own, ejection{51 * s, 70 * s, 1, 5}, ejection{51 * s, 70 * s, 3, 9}},
		{"is older in all", own, ejection{50 * s, 69 * s, 2, 5}, own},
		{"has ended", own, ejection{55 * s, now, 4, 99}, own},
		{"ends next", own, ejection{55 * s, now + 1, 4, 99}, ejection{55 * s, 70 * s, 4, 99}},
		{"never happened", own, ejection{55 * s, 99 * s, 0, 99}, own},
		{"after its own", ended, ejection{55 * s, 99 * s, 1, 5}, ejection{55 * s, 99 * s, 1, 5}},
	} {
		other := healthOf(0)
		other.current[0].ejection, other.exportPending = c.theirs, true
		shared, _ := other.Export(0, nil)
		h := healthOf(0)
		h.current[0].ejection = c.own
		version := h.version
		if h.Import(now, shared); h.current[0].ejection != c.wanted {
			t.Errorf("%s: %+v, want %+v", c.name, h.current[0].ejection, c.wanted)
		}
		if changed := c.wanted != c.own; changed != (h.version > version) || changed != h.current[0].probation {
			t.Errorf("%s: lists are computed again: %v", c.name, h.version > version)
		}
		if want := float64(c.theirs.failures - 1); c.wanted != c.own && h.current[0].score != want {
			t.Errorf("%s: a score of %v, want %v", c.name, h.current[0].score, want)
		}
	}
}
