package budget

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/quotasim"
)

// The same seed gives the same tasks, and all of them are within the bounds.
func TestTasks(t *testing.T) {
	tasks := tasksOf(1, 2000)
	if !slices.Equal(tasks, tasksOf(1, 2000)) || slices.Equal(tasks, tasksOf(2, 2000)) {
		t.Error("the tasks do not follow from the seed alone")
	}
	for _, x := range tasks {
		if x.estimate() < leastTokens || x.estimate() > mostTokens || x.used() > x.estimate() || x.output < 1 ||
			x.time < leastTime*time.Millisecond || x.time > mostTime*time.Millisecond {
			t.Fatalf("%+v", x)
		}
	}
	order := bySize(tasks)
	if small, large := tasks[order[0]].estimate(), tasks[order[1999]].estimate(); small > 200 || large < 10_000 {
		t.Errorf("from %d to %d tokens", small, large)
	}
}

// A bucket holds the tokens of the largest task, and calls last from 1 s to 2 min, scaled.
func TestFleet(t *testing.T) {
	names := map[string]bool{}
	slowest := 0.0
	for _, m := range fleet() {
		names[m.Name] = true
		slowest = max(slowest, m.Speed)
		if m.TokensPerMinute < mostTokens || m.Speed < 1 || m.Slots < 1 || m.RequestsPerMinute < 1 {
			t.Errorf("%+v", m)
		}
	}
	if len(names) != 10 {
		t.Errorf("%d models", len(names))
	}
	if least, most := leastTime*scale/1000, mostTime*slowest*scale/1000; least != 1 || most != 120 {
		t.Errorf("calls last from %d to %v s", least, most)
	}
}

// The lower bound is that of the scarcest of tokens, requests and slots.
func TestPerfect(t *testing.T) {
	models := []quotasim.Config{
		{Slots: 1, TokensPerMinute: 600, RequestsPerMinute: 60, Speed: 1},
		{Slots: 2, TokensPerMinute: 400, RequestsPerMinute: 60, Speed: 2},
	}
	near := func(got, want time.Duration) bool { return (got - want).Abs() < time.Millisecond }
	for _, c := range []struct {
		of   string
		task task
		n    int
		want time.Duration
	}{
		{"tokens", task{prompt: 15, limit: 10, output: 5}, 100, time.Minute},
		{"requests", task{prompt: 1}, 180, 30 * time.Second},
		{"slots", task{prompt: 1, time: time.Second}, 100, 50 * time.Second},
	} {
		if got := perfect(models, slices.Repeat([]task{c.task}, c.n)); !near(got, c.want) {
			t.Errorf("by %s: %v, want %v", c.of, got, c.want)
		}
	}
}
