package health_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// Two rules of one cluster have different lists of endpoints: the history of one list's endpoints survives the other's
// views.
func TestViewsOfSeveralLists(t *testing.T) {
	a := &lb.View{Cluster: "llm", ListID: 1, Endpoints: healthtest.View(8).Endpoints[:4]}
	b := &lb.View{Cluster: "llm", ListID: 2, Endpoints: healthtest.View(8).Endpoints[4:]}
	h, bad, now := health.New(), a.Endpoints[0].Addr, time.Duration(0)
	for range 3000 {
		now += 5 * time.Millisecond
		h.Candidates(now, a, healthtest.Cluster, 0)
		h.Observe(now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, healthtest.Cluster)
		h.Candidates(now, b, healthtest.Cluster, 0)
		h.Observe(now, lb.Outcome{Addr: b.Endpoints[0].Addr, Verdict: lb.Success}, healthtest.Cluster)
	}
	if h.Ejections() == 0 {
		t.Error("3,000 failures in a row eject no endpoint")
	}
	for _, v := range []*lb.View{a, b} {
		for addr, w := range weights(t, h, now, v) {
			if addr != bad && w != 1 {
				t.Errorf("%s has weight %v", addr, w)
			}
		}
	}
	// An endpoint that leaves its list is forgotten, although the other list stays.
	left := &lb.View{Cluster: "llm", ListID: 1, Endpoints: a.Endpoints[:3]}
	last := a.Endpoints[3].Addr
	now += time.Hour
	drawnFor(h, now, left, healthtest.Cluster, last) // with the same load at the others
	h.Candidates(now, b, healthtest.Cluster, 0)
	now += time.Minute
	if part := drawnFor(h, now, a, healthtest.Cluster, last); part > 0.5 {
		t.Errorf("an endpoint that returns gets %v of its share at once", part)
	}
}

// Only endpoints that are added to a list start slowly, also if the list gets another id by that; those that another
// list names first do not.
func TestFirstViewsOfLists(t *testing.T) {
	list := func(source uint64, from, to int) *lb.View {
		return &lb.View{Cluster: "llm", ListID: source, Endpoints: healthtest.View(12).Endpoints[from:to]}
	}
	for _, c := range []struct {
		name string
		next *lb.View
		slow bool
	}{
		{"another list", list(2, 6, 10), false},
		{"another list that has one of the first", list(2, 3, 7), false},
		{"the list with more", list(1, 0, 8), true},
		{"a list that is the first with one more", list(2, 0, 5), true},
		{"the list with all others", list(1, 4, 8), false},
	} {
		h := health.New()
		h.Candidates(0, list(1, 0, 4), healthtest.Cluster, 0)
		list, _ := h.Candidates(time.Minute, c.next, healthtest.Cluster, 1<<64-1)
		cs := list.Candidates
		if slow := cs[len(cs)-1].Base > 0; slow != c.slow {
			t.Errorf("%s: its last endpoint starts slowly: %v", c.name, slow)
		}
	}
}

// An ejection is in effect for the configurations whose number of failures is reached, for as long as each one
// configures.
func TestEjectionsByConfig(t *testing.T) {
	v := healthtest.View(4)
	bad := v.Endpoints[0].Addr
	with := func(failures int, lasts time.Duration) *health.ClusterConfig {
		cluster := &health.ClusterConfig{Health: healthtest.Config}
		cluster.Health.ConsecutiveFailures, cluster.Health.EjectionTime = failures, lasts
		return cluster
	}
	never, hasty := with(0, time.Minute), with(2, 20*time.Second)
	patient, short := with(50, 20*time.Second), with(2, 5*time.Second)
	all := []*health.ClusterConfig{never, hasty, patient, short}
	h := healthtest.New(v)
	want := func(what string, now time.Duration, out ...bool) {
		t.Helper()
		for i, cluster := range all {
			list, _ := h.Candidates(now, v, cluster, 0)
			cs := list.Candidates
			if (len(cs) == 3) != out[i] {
				t.Errorf("%s: %d candidates under configuration %d", what, len(cs), i)
			}
		}
	}
	observe := func(n int, now time.Duration, under *health.ClusterConfig) {
		for range n {
			h.Observe(now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, under)
		}
	}
	now := time.Minute
	observe(2, now, hasty)
	want("two failures", now, false, true, false, true)
	if got, _ := h.Export(now, nil); len(got) > 0 {
		other := healthtest.New(v)
		other.Import(now, got)
		if list, _ := other.Candidates(now, v, never, 0); len(list.Candidates) != 4 {
			t.Error("another VM ejects under a configuration that never does")
		}
	}
	want("six seconds later", now+6*time.Second, false, true, false, false)
	observe(60, now+6*time.Second, patient)
	want("many failures", now+6*time.Second, false, true, true, true)
	want("a minute later", now+time.Minute, false, false, false, false)
}

// While endpoints fail, nearly every outcome makes a new list. Few of them are retained.
func TestFailuresFillNoMemory(t *testing.T) {
	const n, requests, most = 1000, 3000, 3000
	v, h := healthtest.View(n), health.New()
	for i := range v.Endpoints {
		v.Endpoints[i].Priority = uint8(i % 2)
		if i%8 < 6 {
			v.Endpoints[i].State = lb.Degraded
		}
	}
	lists := map[uint64]bool{}
	for i := range requests {
		now := time.Hour + time.Duration(i)*time.Millisecond
		list, reason := h.Candidates(now, v, healthtest.Cluster, 0)
		if reason != lb.ReasonChosen {
			t.Fatal(reason)
		}
		lists[list.Digest()] = true
		verdict := lb.Success
		if i%10 == 0 {
			verdict = lb.Overload
		}
		addr := list.Candidates[i*37%len(list.Candidates)].Addr
		h.Observe(now, lb.Outcome{Addr: addr, Verdict: verdict}, healthtest.Cluster)
	}
	if kept := health.CachedCandidates(h); kept > most || len(lists) < requests/20 {
		t.Errorf("%d candidates are cached, of %d lists of %d; want %d at most", kept, len(lists), n, most)
	}
}
