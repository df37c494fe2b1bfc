package stats

import (
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// What a cluster's parts have counted while there was no room for a counter is counted once there is.
func TestEjectionsWaitForRoom(t *testing.T) {
	m := &countingMetrics{defined: map[string]int{}, values: map[string]int64{}}
	r := New(m)
	c := NewCluster(r, "llm")
	for i := range maxNames {
		r.Count(strconv.Itoa(i), 0)
	}
	c.Ejections(2, 1)
	if len(m.defined) != maxNames {
		t.Errorf("%d names are defined, want %d at most", len(m.defined), maxNames)
	}
	delete(r.defined, "0")
	c.Ejections(3, 0)
	c.Ejections(3, 0)
	if n := m.values[OfCluster(Ejections, "llm")]; n != 3 {
		t.Errorf("%d ejections are counted, want 3", n)
	}
}

// Once a gauge is shown it is kept right, and at rest when the cluster is forgotten; what was never known has none.
func TestGaugesAtRest(t *testing.T) {
	m := &countingMetrics{defined: map[string]int{}, values: map[string]int64{}}
	c := NewCluster(New(m), "llm")
	c.Ejections(0, 0)
	c.Add("a")
	c.Load("a", lb.Load{Requests: 1}, false, 0)
	if len(m.defined) != 1 {
		t.Errorf("%v are defined, want the requests in flight alone", m.names)
	}
	c.AddTarget("a")
	c.AddTarget("b") // no endpoint of it
	c.Budget("a", budget.Level{Left: budget.Left{Tokens: 7, Requests: -1}})
	c.Load("a", lb.Load{}, true, 5)
	c.Ejections(1, 1)
	c.Class("interactive", 3)
	c.Pressure(0.256)
	if m.values[OfEndpoint(BudgetLeft, "llm", "a")] != 7 || m.values[OfEndpoint(PushLimit, "llm", "a")] != 5 ||
		m.values[OfClass(Queue, "llm", "interactive")] != 3 || m.values[OfCluster(Pressure, "llm")] != 26 {
		t.Errorf("%v", m.values)
	}
	if c.HasTarget("b") || m.defined[OfEndpoint(LeftRequests, "llm", "a")] > 0 {
		t.Errorf("%v are defined", m.names)
	}
	c.Clear()
	for name, n := range m.values {
		if n != 0 && name != OfCluster(Ejections, "llm") {
			t.Errorf("%s is %d", name, n)
		}
	}
}
