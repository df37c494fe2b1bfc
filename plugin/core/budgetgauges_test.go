package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/views"
)

// The gauges of each target show what is left by now, and 0 once it is none any more.
func TestBudgetGauges(t *testing.T) {
	d := startTasks(t, 2)
	of := func(stat, target string) string {
		return stat + ";cluster=" + views.BudgetScope + ";endpoint=" + target
	}
	want := func(what, stat, target string, least, most uint64) {
		t.Helper()
		if got := d.Gauge(of(stat, target)); got < least || got > most {
			t.Errorf("%s: %s of %s is %d, want %d to %d", what, stat, target, got, least, most)
		}
	}
	d.answer(0, "/schedule", `{"estimated_tokens":100000,"models":["a"]}`)
	d.admit(1, "b", "")
	d.workers[0].vm.Stores.Local.Restrict(d.now, views.BudgetScope, "b",
		budget.Restriction{Tokens: -1, Requests: 5, RetryAfter: 5 * time.Second})
	d.advance(1100 * time.Millisecond)
	want("a second later", stats.BudgetLeft, "a", 100_000, 104_000)
	want("a second later", stats.LeftRequests, "b", 5, 6)
	want("a second later", stats.BudgetClosed, "b", 3900, 5000)
	want("a second later", stats.BudgetClosed, "a", 0, 0)
	for _, name := range []string{of(stats.BudgetLeft, "b"), of(stats.LeftRequests, "a"), of(stats.BudgetLeft, "c")} {
		if _, there := d.metrics.values[name]; there {
			t.Errorf("%s is there, without such a limit", name)
		}
	}
	d.advance(10 * time.Second)
	want("11 s later", stats.BudgetLeft, "a", 133_000, 138_000)
	want("11 s later", stats.LeftRequests, "b", 15, 17)
	want("11 s later", stats.BudgetClosed, "b", 0, 0)
	d.advance(time.Minute)
	want("refilled", stats.BudgetLeft, "a", 200_000, 200_000)
	want("refilled", stats.LeftRequests, "b", 60, 60)

	without := strings.Replace(apiConfig(""), `"a":{`, `"d":{`, 1)
	if !d.configure(without) {
		t.Fatal("refused")
	}
	d.answer(0, "/advice")
	d.answer(1, "/advice")
	d.advance(2 * time.Second)
	want("no target any more", stats.BudgetLeft, "a", 0, 0)
	want("still one", stats.LeftRequests, "b", 60, 60)

	if !d.configure(amongConfig("global_least_request", "")) {
		t.Fatal("refused")
	}
	d.client(0, streamtest.Request{}).Finish()
	d.advance(2 * time.Second)
	want("no budgets any more", stats.LeftRequests, "b", 0, 0)
}
