package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
)

// A target that has closed itself for an hour is asked after a minute by one task, and at once when it was taken out of
// the configuration and added again; not by a push that leaves it there.
func TestTargetsThatAreAddedAgain(t *testing.T) {
	d := startTasks(t, 1)
	text := apiConfig("")
	push := func(text string) {
		t.Helper()
		if !d.configure(text) {
			t.Fatalf("refused: %s", text)
		}
		d.advance(time.Second)
	}
	closes := func() {
		memstore.New(d.kv, 1, stores.LeaseTTL).Restrict(d.now, views.BudgetScope, "a",
			budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Hour, MaxClosed: time.Minute})
	}
	if d.admit(0, "a", "") == "" {
		t.Fatal("not admitted")
	}
	closes()
	push(text)
	if d.admit(0, "a", "") != "" {
		t.Error("admitted to a target that is closed")
	}
	without := strings.Replace(text, `"a":`, `"elsewhere":`, 1)
	if without == text {
		t.Fatal(text)
	}
	push(without)
	push(text)
	if d.admit(0, "a", "") == "" || d.admit(0, "a", "") != "" {
		t.Error("a target that was added again is not asked by one task")
	}
	d.advance(2 * stores.LeaseTTL)
	if n := d.metrics.values[stats.Owners]; n != 1 {
		t.Errorf("%d owners with one worker, and the main thread's VM, which serves nothing", n)
	}
	closes()
	d.advance(59 * time.Second)
	if d.admit(0, "a", "") != "" {
		t.Error("admitted after 59 s")
	}
	d.advance(time.Second)
	if d.admit(0, "a", "") == "" || d.admit(0, "a", "") != "" {
		t.Error("a target is not asked by one task after a minute")
	}
}

// Likewise for targets that are endpoints, in every cluster that is known.
func TestEndpointsThatAreAddedAgain(t *testing.T) {
	text := `{"lb_policy":"token_budget","lb_config":{"targets":{"10.0.0.1:8000":{"weight":1},` +
		`"10.0.0.2:8000":{"weight":1}}}}`
	d := startFake(t, 1, 2, text)
	for range 2 {
		d.serve(0, 200)
	}
	s := memstore.New(d.kv, 1, stores.LeaseTTL)
	s.Restrict(d.now, fakeCluster, d.Addr(1), budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Hour})
	closed := func() (ms time.Duration) {
		s.Levels(d.now, fakeCluster, []string{d.Addr(1)}, func(l []lb.BudgetLevel, err error) {
			if err != nil {
				t.Fatal(err)
			}
			ms = time.Duration(l[0].Budget.Closed) * time.Millisecond
		})
		return ms
	}
	for _, c := range []struct {
		text   string
		closed bool
	}{
		{text, true}, {strings.Replace(text, "10.0.0.2:", "10.0.0.3:", 1), true}, {text, false},
	} {
		if !d.configure(c.text) {
			t.Fatalf("refused: %s", c.text)
		}
		d.advance(time.Second)
		if (closed() > 0) != c.closed {
			t.Errorf("with %s it is closed for %v", c.text, closed())
		}
	}
}

// A push of a plugin takes out none of its targets because another plugin of the VM has others. The only target is
// added again as any other is.
func TestTargetsOfSeveralPlugins(t *testing.T) {
	d := startTasks(t, 1)
	text := apiConfig("")
	d.admit(0, "a", "")
	memstore.New(d.kv, 1, stores.LeaseTTL).Restrict(d.now, views.BudgetScope, "a",
		budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Hour, MaxClosed: time.Minute})
	const other = `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"targets":{"x":{"weight":1}}}}`
	for _, w := range d.threads() {
		if started(w.vm, 99, "other", other) == nil {
			t.Fatalf("refused: %s", other)
		}
	}
	d.configure(text)
	d.advance(time.Second)
	if d.admit(0, "a", "") != "" {
		t.Error("a target that was there all the time is asked")
	}
	d.configure(`{"lb_policy":"global_least_request"}`)
	d.configure(text)
	d.advance(time.Second)
	if d.admit(0, "a", "") == "" || d.admit(0, "a", "") != "" {
		t.Error("after a configuration without targets, one that was added again is not asked by one task")
	}
}
