package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
)

// Scenes are chosen by their names, or by what several have in their names; a stage without one is left out.
func TestChosen(t *testing.T) {
	stages := []Stage{
		{Scenes: []Scene{{Name: "clients leave"}, {Name: "clients leave the queue"}}},
		{Scenes: []Scene{{Name: "herd"}}},
	}
	for only, want := range map[string]string{
		"clients leave": "clients leave", "clients": "clients leave,clients leave the queue",
		"clients leave,clients": "clients leave,clients leave the queue", "nothing": "",
		"herd,leave the": "clients leave the queue,herd",
	} {
		var got []string
		for _, st := range (&Settings{Only: strings.Split(only, ",")}).Chosen(stages) {
			for _, c := range st.Scenes {
				got = append(got, c.Name)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q, want %s", only, got, want)
		}
	}
	if _, err := Run(t.Context(), "name", &Settings{Only: []string{"nothing"}}, stages); err == nil {
		t.Error("a run without a scene succeeds")
	}
	if all := new(Settings).Chosen(stages); len(all) != 2 {
		t.Errorf("%d of 2 stages without a choice", len(all))
	}
}

// A stage that does not open is closed, and its scenes count as not played.
func TestStageThatDoesNotOpen(t *testing.T) {
	closed := false
	f, err := Run(t.Context(), "name", &Settings{}, []Stage{{
		Scenes: []Scene{{Name: "herd"}},
		Open: func(context.Context, *Settings) *audit.Site {
			Check(io.EOF)
			return nil
		},
		Close: func() error { closed = true; return nil },
	}})
	if !errors.Is(err, io.EOF) || !closed || len(f.Scenes) != 0 {
		t.Errorf("%v, closed: %t, %+v", err, closed, f)
	}
}

// After a violation in one scene the others are still played, and the run fails.
func TestViolations(t *testing.T) {
	var shown bytes.Buffer
	closed := 0
	broken := func(names ...string) (st Stage) {
		for _, name := range names {
			st.Scenes = append(st.Scenes, Scene{Name: name})
		}
		st.Open = func(context.Context, *Settings) *audit.Site { return &audit.Site{Gateway: new(harness.Gateway)} }
		st.Heal = func(a *Act) {
			a.Result.Requests, a.Result.Failed, a.Result.Excused = 5, 2, 1
			Check(errors.New("it does not heal"))
		}
		st.Close = func() error { closed++; return nil }
		return st
	}
	f, err := Run(t.Context(), "name", &Settings{Seed: 7, Progress: &shown}, []Stage{broken("a", "b"), broken("c")})
	if err == nil || !strings.Contains(err.Error(), "b: it does not heal") || closed != 2 {
		t.Errorf("%v, %d stages were closed", err, closed)
	}
	if f.Bench != "name" || f.Seed != 7 || f.Violations != 3 || f.Requests != 15 || f.Failed != 6 || f.Excused != 3 ||
		len(f.Scenes) != 3 || f.Scenes[2].Scene != "c" {
		t.Errorf("%+v", f)
	}
	if n := strings.Count(shown.String(), "VIOLATION: it does not heal\n"); n != 3 {
		t.Errorf("%d violations were shown: %s", n, &shown)
	}
}

// Failures count unless they are excused, and end the scene.
func TestCount(t *testing.T) {
	tally := audit.Tally{Sent: 10, OK: 6, Left: 1, Excused: 1, Errors: map[string]int{"reset": 2}}
	for excused, want := range map[string]int{"reset": 0, "timeout": 2} {
		a := NewAct(t.Context(), &Settings{}, nil, "scene")
		err := Try(func() { a.Count(tally, Of(excused)) })
		if r := a.Result; (err != nil) != (want > 0) || r.Failed != want || r.Excused != 3-want || r.Left != 1 ||
			r.Requests != 10 {
			t.Errorf("%s excused: %v, %+v", excused, err, r)
		}
	}
}

func TestExcuses(t *testing.T) {
	tally := audit.Tally{Sent: 10, OK: 4, Left: 1, Errors: map[string]int{"truncated": 2, "reset": 1, "status_500": 2}}
	for _, tt := range []struct {
		excused func(audit.Tally) int
		want    int
	}{
		{AllFailed, 5},
		{Of("truncated", "reset"), 3},
		{Of("status_500"), 2},
		{Of("timeout"), 0},
	} {
		if got := tt.excused(tally); got != tt.want {
			t.Errorf("%d failures excused, want %d", got, tt.want)
		}
	}
}

func TestQuantileOfPulses(t *testing.T) {
	start := time.Now()
	var p Pulses
	for i := range 100 {
		p.samples = append(p.samples,
			sample{start.Add(time.Duration(i) * time.Millisecond), time.Duration(i+1) * time.Millisecond})
	}
	if got := p.P99(start, start.Add(50*time.Millisecond)); got < 49 || got > 50 {
		t.Errorf("p99 of 1..50 ms is %v ms", got)
	}
	if got := p.P99(start.Add(time.Hour), start.Add(2*time.Hour)); got != 0 {
		t.Errorf("p99 of nothing is %v", got)
	}
}
