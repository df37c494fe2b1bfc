package budget

import (
	"math"
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

// Shares are those of the weights if each is 1.
func TestShares(t *testing.T) {
	models := []quotasim.Config{{Name: "a", TokensPerMinute: 3000}, {Name: "b", TokensPerMinute: 1000}}
	if worst := shareOff(models, []float64{75, 25}); worst != 0 {
		t.Error(worst)
	}
	if worst := shareOff(models, []float64{50, 50}); worst != 1 {
		t.Error(worst)
	}
}

// A full bucket and what the rate brings may be sent, in any time.
func TestExcess(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		sent []sentTokens
		want float64
	}{
		{[]sentTokens{{0, 600, false}}, 1},
		{[]sentTokens{{0, 600, false}, {6 * s, 60, false}, {12 * s, 60, false}}, 1},
		{[]sentTokens{{6 * s, 60, false}, {0, 600, false}, {12 * s, 60, false}, {11 * s, 60, false}}, 780. / 720},
		{[]sentTokens{{0, 600, false}, {6 * s, 120, true}, {7 * s, 60, true}, {12 * s, 120, false}}, 720. / 660},
		{[]sentTokens{{0, 600, false}, {60 * s, 600, false}, {121 * s, 900, false}}, 1.5},
		{nil, 0},
	} {
		if got := excess(c.sent, 600); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c.sent, got, c.want)
		}
	}
}

// Of 200 tasks the two largest are 1 %, and 20 are around the median size; what was not accepted does not count.
func TestWaits(t *testing.T) {
	var tasks []task
	asked, accepted := make([]time.Duration, 200), make([]time.Duration, 200)
	for i := range 200 {
		tasks = append(tasks, task{prompt: 1000 - i})
		asked[i], accepted[i] = time.Second, time.Second+time.Duration(i)*time.Millisecond
	}
	if large, median := waits(tasks, asked, accepted); large != time.Millisecond || median != 109*time.Millisecond {
		t.Errorf("%v, %v", large, median)
	}
	accepted[1] = none
	if large, _ := waits(tasks, asked, accepted); large != 0 {
		t.Errorf("%v", large)
	}
}

// A stampede is the most calls within 100 ms over the mean, from when every bucket is used up.
func TestStampede(t *testing.T) {
	ms := time.Millisecond
	asks := []time.Duration{0, 1, 2, 3, 100 * ms, 350 * ms, 399 * ms, 400 * ms, 401 * ms, 420 * ms, 430 * ms, 2000 * ms}
	if got := stampede(asks, 100*ms, 500*ms); got != 4*4/7. {
		t.Errorf("%v", got)
	}
	if got := stampede(nil, 0, 0); got != 0 {
		t.Errorf("%v", got)
	}
	sent := []sentTokens{{3, 5, false}, {1, 5, false}, {2, 9, true}, {4, 5, false}}
	if at := emptied(sent, 10); at != 3 {
		t.Errorf("%v", at)
	}
	if at := emptied(sent, 17); at != 0 {
		t.Errorf("%v", at)
	}
	refilled := []sentTokens{{0, 8, false}, {time.Minute / 2, 6, false}, {time.Minute, 6, false}}
	if at := emptied(refilled, 10); at != time.Minute {
		t.Errorf("%v", at)
	}
}

// A run is judged by what the models have seen.
func TestJudge(t *testing.T) {
	g := newGame(fleet()[:2], tasksOf(1, 2))
	defer g.close()
	for range 2 {
		i, ok := g.take()
		if !ok {
			t.Fatal("no task")
		}
		if err := g.callUntil(t.Context(), i, func() string { return g.servers[i].URL }); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := g.take(); ok {
		t.Error("a third task")
	}
	r := g.judge()
	if r.unfinished != 0 || r.twice != 0 || r.asks != 2 || r.makespan != slices.Max(g.done) || len(r.refused) != 0 ||
		r.tpmExcess <= 0 || r.tpmExcess > 1 || r.audit() != 0 || r.perfect <= 0 {
		t.Errorf("%+v", r)
	}
	g.finish(0)
	if r := g.judge(); r.twice != 1 || r.audit() != 1 {
		t.Errorf("%+v", r)
	}
}
