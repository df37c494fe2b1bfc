package health

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// The share of a group is the median over the other endpoints with outcomes within groupWindow, each with the prior as
// one more outcome.
func TestFailuresElsewhereOfAGroup(t *testing.T) {
	const now = time.Hour
	entry := func(i int, share, outcomes float64, age time.Duration) groupEndpoint {
		e := groupEndpoint{addr: addrOf(i), outcomes: outcomes, lastAt: now - age}
		e.badShare[failureKind] = share
		return e
	}
	for _, c := range []struct {
		name    string
		entries []groupEndpoint
		want    float64
	}{
		{"nothing known", nil, 0.1},
		{"only this endpoint", []groupEndpoint{entry(0, 1, 9, 0)}, 0.1},
		{"one other", []groupEndpoint{entry(0, 1, 9, 0), entry(1, 0.5, 3, 0)}, (0.1 + 1.5) / 4},
		{"an old one", []groupEndpoint{entry(1, 0.5, 3, groupWindow)}, 0.1},
		{"one that is nearly old", []groupEndpoint{entry(1, 0.5, 3, groupWindow-1)}, (0.1 + 1.5) / 4},
		{"two others", []groupEndpoint{entry(1, 0.5, 3, 0), entry(2, 0, 9, 0)}, ((0.1+1.5)/4 + 0.1/10) / 2},
		{"three others", []groupEndpoint{entry(1, 1, 9, 0), entry(2, 0, 9, 0), entry(3, 0.5, 3, 0)}, (0.1 + 1.5) / 4},
	} {
		g := &group{endpoints: c.entries}
		if got := g.failuresElsewhere(now, &lb.Outcome{Addr: addrOf(0), Verdict: lb.Failure}, 0.1); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A group's shares are moving averages over maxGroupOutcomes outcomes of each endpoint, by kind of failure.
func TestSharesOfAGroup(t *testing.T) {
	h, key := New(), groupKey{false, 7}
	record := func(v lb.Verdict, bad float64, n int) *groupEndpoint {
		for range n {
			h.groups.record(time.Hour, key, &lb.Outcome{Addr: addrOf(0), Verdict: v}, bad)
		}
		return &h.groups[key].endpoints[0]
	}
	record(lb.Failure, 1, 1)
	record(lb.Rejected, 1, 1)
	e := record(lb.Success, 0, 2)
	if e.outcomes != 4 || !near(e.badShare[failureKind], 0.25) || !near(e.badShare[rejectionKind], 0.25) ||
		e.badShare[overloadKind] != 0 {
		t.Errorf("%+v", e)
	}
	for v, want := range map[lb.Verdict]float64{
		lb.Failure: 0.25, lb.TimedOut: 0.25, lb.Rejected: 0.25, lb.Overload: 0, lb.Success: 0.25,
	} {
		if got := e.shareLike(&lb.Outcome{Verdict: v}); !near(got, want) {
			t.Errorf("verdict %d: %v, want %v", v, got, want)
		}
	}
	record(lb.Success, 0, 100)
	if e = record(lb.Failure, 1, 1); e.outcomes != maxGroupOutcomes || e.badShare[failureKind] < 1.0/maxGroupOutcomes ||
		e.badShare[failureKind] > 1.02/maxGroupOutcomes {
		t.Errorf("after a failure that follows successes: %+v", e)
	}
	if h.groups.record(0, groupKey{true, 0}, &lb.Outcome{}, 1); len(h.groups) != 1 {
		t.Error("an unknown model is recorded")
	}
}

// The oldest group, and the oldest endpoint of a group, makes room for a new one.
func TestGroupsAreBounded(t *testing.T) {
	h := New()
	for i := range uint64(maxGroups + 10) {
		at := time.Hour - time.Duration(i)*time.Second // the first is the latest
		if i == maxGroups {
			h.groups[groupKey{false, 2}].lastAt = 0
		}
		h.groups.record(at, groupKey{false, i + 1}, &lb.Outcome{Addr: addrOf(0)}, 1)
		if i == maxGroups && h.groups[groupKey{false, 2}] != nil {
			t.Error("the oldest group remains")
		}
	}
	if len(h.groups) != maxGroups || h.groups[groupKey{false, 1}] == nil {
		t.Errorf("%d groups are known", len(h.groups))
	}
	h = New()
	for i := range uint64(maxGroups + 1) { // all of one age: the lowest number is dropped first
		h.groups.record(time.Hour, groupKey{false, i + 1}, &lb.Outcome{Addr: addrOf(0)}, 1)
	}
	if h.groups[groupKey{false, 1}] != nil || h.groups[groupKey{false, 2}] == nil {
		t.Error("of groups of one age another one was dropped")
	}
	var g group
	for i := range maxGroupEndpoints {
		g.endpoint(addrOf(i)).lastAt = time.Duration(100 - i)
	}
	g.endpoint(addrOf(3)).lastAt = 1
	if g.endpoint("new").outcomes = 5; len(g.endpoints) != maxGroupEndpoints || g.endpoints[3].addr != "new" {
		t.Errorf("%d endpoints, the oldest is %s", len(g.endpoints), g.endpoints[3].addr)
	}
	if e := g.endpoint(addrOf(5)); e != &g.endpoints[5] || e.lastAt != 95 {
		t.Errorf("an endpoint that is known is %+v", e)
	}
	for i := range g.endpoints {
		g.endpoints[i].lastAt = time.Hour
	}
	if e := g.endpoint("another"); e != &g.endpoints[0] {
		t.Error("of endpoints of one age the first does not make room")
	}
}

// Successes need a client for groupWindow after a failure.
func TestNeedsClient(t *testing.T) {
	h := New()
	if h.NeedsClient(0) {
		t.Error("without any failure")
	}
	h.lastFailureAt = time.Minute
	for after, want := range map[time.Duration]bool{0: true, groupWindow - 1: true, groupWindow: false} {
		if got := h.NeedsClient(time.Minute + after); got != want {
			t.Errorf("%v after a failure: %v", after, got)
		}
	}
}

// Elsewhere, the highest of all shares counts: of all requests, of the client's and of the model's. Of a client or
// model without history rejections are assumed to be typical.
func TestFailuresElsewhere(t *testing.T) {
	const rejections = typicalRejections
	for _, c := range []struct {
		name          string
		verdict       lb.Verdict
		client, model uint64
		others        float64 // failure rate of the other endpoints
		want          float64
	}{
		{"nothing fails", lb.Failure, 1, 1, 0, minFailureShare},
		{"others fail", lb.Failure, 1, 1, 0.4, 0.4},
		{"all others fail", lb.Failure, 1, 1, 1, failingShare},
		{"rejected, nothing known", lb.Rejected, 0, 0, 0, rejections},
		{"rejected, known client", lb.Rejected, 1, 0, 0, rejections},
		{"rejected, known model", lb.Rejected, 0, 1, 0, rejections},
		{"the client fails elsewhere", lb.Failure, 8, 1, 0, (minFailureShare + 3) / 4},
		{"requests for the model fail elsewhere", lb.Failure, 1, 8, 0, (minFailureShare + 3) / 4},
		{"both", lb.Failure, 8, 8, 0, (minFailureShare + 3) / 4},
	} {
		h := healthOf(1, c.others, c.others)
		for _, model := range []bool{false, true} {
			for range 3 {
				h.groups.record(time.Minute, groupKey{model, 8}, &lb.Outcome{Addr: addrOf(1), Verdict: lb.Failure}, 1)
			}
		}
		o := lb.Outcome{Addr: addrOf(0), Verdict: c.verdict, Client: c.client, Model: c.model}
		if got := h.failuresElsewhere(time.Minute, h.current[0], &o); !near(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
