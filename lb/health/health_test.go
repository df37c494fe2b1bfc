package health_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// weights returns the weights of the candidates by address.
func weights(t *testing.T, h *health.Health, now time.Duration, v *lb.View) map[string]float64 {
	t.Helper()
	list, reason := h.Candidates(now, v, healthtest.Cluster, 0)
	cs := list.Candidates
	if reason != lb.ReasonChosen {
		t.Fatalf("at %v: no candidates, %s", now, reason)
	}
	out := map[string]float64{}
	for _, c := range cs {
		out[c.Addr] = c.Weight
	}
	return out
}

func TestCandidatesByState(t *testing.T) {
	const h, d, u, dr, ej = lb.Healthy, lb.Degraded, lb.Unhealthy, lb.Draining, lb.Ejected
	for _, tc := range []struct {
		states []lb.State
		want   []int
		reason lb.Reason
	}{
		{nil, nil, lb.ReasonNoEndpoints},
		{[]lb.State{h, h}, []int{0, 1}, lb.ReasonChosen},
		{[]lb.State{h, u, h, h}, []int{0, 2, 3}, lb.ReasonChosen},
		{[]lb.State{h, d, h}, []int{0, 1, 2}, lb.ReasonChosen},
		{[]lb.State{h, d, h, h}, []int{0, 2, 3}, lb.ReasonChosen}, // 75 % are enough
		{[]lb.State{d, u}, []int{0}, lb.ReasonChosen},
		{[]lb.State{h, dr, dr, dr}, []int{0}, lb.ReasonChosen},
		{[]lb.State{h, ej}, []int{0}, lb.ReasonChosen},
		{[]lb.State{h, u, u}, nil, lb.ReasonPanicThreshold},
		{[]lb.State{h, h, d, d, d}, []int{0, 1, 2, 3, 4}, lb.ReasonChosen},
		{[]lb.State{h, d, u, u, u}, nil, lb.ReasonPanicThreshold},
		{[]lb.State{u, u}, nil, lb.ReasonNoHealthyEndpoint},
		{[]lb.State{dr, dr}, nil, lb.ReasonNoHealthyEndpoint},
	} {
		t.Run(fmt.Sprint(tc.states), func(t *testing.T) {
			v := healthtest.View(len(tc.states))
			for i, s := range tc.states {
				v.Endpoints[i].State = s
			}
			list, reason := health.New().Candidates(0, v, healthtest.Cluster, 0)
			cs := list.Candidates
			var got []int
			for _, c := range cs {
				got = append(got, slices.IndexFunc(v.Endpoints, func(e lb.Endpoint) bool { return e.Addr == c.Addr }))
			}
			if reason != tc.reason || !slices.Equal(got, tc.want) {
				t.Fatalf("got %v, %s; want %v, %s", got, reason, tc.want, tc.reason)
			}
		})
	}
}

func TestCandidatesFollowTheConfig(t *testing.T) {
	v := healthtest.View(3)
	v.Endpoints[1].Weight, v.Endpoints[2].Weight = 2, 0
	h := health.New()
	capped := &health.ClusterConfig{
		Health: healthtest.Config, MaxInflight: 10,
		Weights: map[string]float64{v.Endpoints[0].Addr: 0.5},
	}
	list, _ := h.Candidates(0, v, capped, 0)
	cs := list.Candidates
	for i, want := range []lb.Candidate{{Weight: 0.5, Cap: 5}, {Weight: 2, Cap: 20}, {Weight: 1, Cap: 10}} {
		if relative := cs[i].Weight / cs[2].Weight; math.Abs(relative-want.Weight) > 1e-5 || cs[i].Cap != want.Cap {
			t.Errorf("candidate %d is %+v, want %v times the weight of the last and cap %d", i, cs[i],
				want.Weight, want.Cap)
		}
	}
	if list, _ = h.Candidates(time.Millisecond, v, healthtest.Cluster, 0); list.Candidates[0].Cap != 0 {
		t.Error("another configuration was not followed")
	}
}

// One failure is enough to keep a failing endpoint from looking like the best one.
func TestFailingLosesWeight(t *testing.T) {
	v := healthtest.View(2)
	h, bad := healthtest.New(v), v.Endpoints[0].Addr
	last := 1.0
	for range 4 {
		healthtest.Fail(h, 0, bad, 1)
		w := weights(t, h, 0, v)[bad]
		if w >= last*0.6 {
			t.Fatalf("a failure took the weight from %v to %v only", last, w)
		}
		last = w
	}
	for range 20 {
		h.Observe(0, lb.Outcome{Addr: bad, Verdict: lb.Success}, healthtest.Cluster)
	}
	if w := weights(t, h, 0, v)[bad]; w != 1 {
		t.Fatalf("after 20 successes the weight is %v", w)
	}
}

func TestVerdictsThatDoNotEject(t *testing.T) {
	v := healthtest.View(2)
	h, addr := healthtest.New(v), v.Endpoints[0].Addr
	for range 50 {
		h.Observe(0, lb.Outcome{Addr: addr, Verdict: lb.Overload}, healthtest.Cluster)
		h.Observe(0, lb.Outcome{Addr: addr, Verdict: lb.Neutral}, healthtest.Cluster)
		h.Observe(0, lb.Outcome{Addr: "10.9.9.9:1", Verdict: lb.Failure}, healthtest.Cluster)
	}
	if w, in := weights(t, h, 0, v)[addr]; !in || w > 0.05 {
		t.Fatalf("an overloaded endpoint has weight %v, in %v", w, in)
	}
	if h.Ejections() != 0 {
		t.Fatalf("%d ejections", h.Ejections())
	}
}

func TestEjectionGrowsAndEnds(t *testing.T) {
	v := healthtest.View(4)
	h, bad := healthtest.New(v), v.Endpoints[2].Addr
	now := time.Duration(0)
	healthtest.Fail(h, now, bad, 4)
	if _, in := weights(t, h, now, v)[bad]; !in {
		t.Fatal("ejected after four failures")
	}
	healthtest.Fail(h, now, bad, 1)
	for i, want := range []time.Duration{10, 20, 40, 60, 60} {
		want *= time.Second
		if _, in := weights(t, h, now+want-time.Millisecond, v)[bad]; in {
			t.Fatalf("ejection %d ended before %v", i+1, want)
		}
		now += want + 100*time.Millisecond // candidates are that old at most
		if _, in := weights(t, h, now, v)[bad]; !in {
			t.Fatalf("ejection %d did not end after %v", i+1, want)
		}
		healthtest.Fail(h, now, bad, 1) // it fails its first request again
	}
	if h.Ejections() != 6 {
		t.Fatalf("%d ejections counted, want 6", h.Ejections())
	}
}

func TestEjectionsAreForgiven(t *testing.T) {
	v := healthtest.View(4)
	h, addr := healthtest.New(v), v.Endpoints[0].Addr
	healthtest.Fail(h, 0, addr, 5)
	good := 10*time.Second + 6*time.Minute
	h.Observe(good, lb.Outcome{Addr: addr, Verdict: lb.Success}, healthtest.Cluster)
	healthtest.Fail(h, good, addr, 5)
	if _, in := weights(t, h, good+10*time.Second, v)[addr]; !in {
		t.Fatal("an endpoint that was good for minutes is ejected as long as one that never recovered")
	}
}

func TestAtMostHalfAreEjected(t *testing.T) {
	v := healthtest.View(6)
	h := healthtest.New(v)
	for i, e := range v.Endpoints {
		healthtest.Eject(h, time.Duration(i), v, e.Addr)
	}
	got := weights(t, h, time.Second, v)
	if len(got) != 3 {
		t.Fatalf("%d of 6 endpoints are left", len(got))
	}
	for i, e := range v.Endpoints {
		if _, in := got[e.Addr]; in != (i < 3) {
			t.Fatalf("those ejected last stay out: endpoint %d in is %v", i, in)
		}
	}
	one := healthtest.View(1)
	h = healthtest.New(one)
	healthtest.Fail(h, 0, one.Endpoints[0].Addr, 50)
	if len(weights(t, h, 0, one)) != 1 {
		t.Fatal("the only endpoint was ejected")
	}
}

// Endpoints that the gateway has removed count towards the percentage that may be ejected.
func TestEjectionsAddUp(t *testing.T) {
	for _, tc := range []struct {
		gone, percent, want int
	}{
		{0, 50, 4}, {1, 50, 4}, {3, 50, 4}, {4, 50, 4}, {0, 0, 8}, {0, 1, 7}, {1, 1, 7}, {0, 100, 1},
	} {
		v := healthtest.View(8)
		for i := range tc.gone {
			v.Endpoints[i].State = lb.Ejected
		}
		cluster := &health.ClusterConfig{Health: healthtest.Config}
		cluster.Health.MaxEjectionPercent = tc.percent
		h := health.New()
		h.Candidates(0, v, cluster, 0)
		for _, e := range v.Endpoints {
			healthtest.Eject(h, 0, healthtest.View(8), e.Addr)
		}
		if list, _ := h.Candidates(time.Second, v, cluster, 0); len(list.Candidates) != tc.want {
			t.Errorf("%d of 8 ejected by the gateway, %d %% may be: %d are left, want %d", tc.gone, tc.percent,
				len(list.Candidates), tc.want)
		}
	}
}

// Rules with different settings for one cluster do not affect each other.
func TestConfigsAreIndependent(t *testing.T) {
	v := healthtest.View(4)
	h, addr := healthtest.New(v), v.Endpoints[0].Addr
	lenient := &health.ClusterConfig{}
	for range 20 {
		h.Candidates(0, v, lenient, 0)
		h.Observe(0, lb.Outcome{Addr: addr, Verdict: lb.Failure}, lenient)
	}
	if h.Ejections() != 0 {
		t.Fatal("ejected under a configuration that never ejects")
	}
	h.Observe(0, lb.Outcome{Addr: addr, Verdict: lb.Failure}, healthtest.Cluster)
	if h.Ejections() != 1 {
		t.Fatal("not ejected under a configuration that does")
	}
}

// A list changes only with what it is of, for any sequence of requests.
func TestListsStayTheSame(t *testing.T) {
	v, other := healthtest.View(4), &health.ClusterConfig{MaxInflight: 3}
	h := healthtest.New(v)
	at := func(now time.Duration, v *lb.View, cluster *health.ClusterConfig) uint64 {
		list, reason := h.Candidates(now, v, cluster, 0)
		if reason != lb.ReasonChosen {
			t.Fatal(reason)
		}
		return list.Digest()
	}
	a, b := at(0, v, healthtest.Cluster), at(0, v, other)
	if a == b {
		t.Fatal("one list for two configurations")
	}
	for now := range 100 * time.Second / time.Millisecond / 100 {
		now := now * 100 * time.Millisecond
		if now%(3*time.Second) == 0 {
			v = healthtest.View(4) // discovered again, as it was
		}
		if at(now, v, healthtest.Cluster) != a || at(now, v, other) != b {
			t.Fatalf("another list at %v without a reason", now)
		}
	}
	healthtest.Fail(h, 100*time.Second, v.Endpoints[0].Addr, 5)
	if at(100*time.Second, v, healthtest.Cluster) == a {
		t.Error("an ejection leaves the list as it was")
	}
	for range 20 { // configurations come and go
		at(100*time.Second, v, &health.ClusterConfig{})
	}
	if list, _ := h.Candidates(100*time.Second, v, healthtest.Cluster, 0); len(list.Candidates) != 3 {
		t.Errorf("%d candidates after many configurations, want 3", len(list.Candidates))
	}
}

// An endpoint cannot end its ejection by leaving the list for a moment.
func TestFlappingKeepsTheEjection(t *testing.T) {
	v, without := healthtest.View(4), healthtest.View(3)
	h, bad := healthtest.New(v), v.Endpoints[3].Addr
	healthtest.Fail(h, 0, bad, 5)
	weights(t, h, time.Second, without)
	if _, in := weights(t, h, 2*time.Second, v)[bad]; in {
		t.Fatal("returned without its ejection")
	}
}

func TestEjectionsAreExported(t *testing.T) {
	v := healthtest.View(4)
	a, b, bad := healthtest.New(v), healthtest.New(v), v.Endpoints[1].Addr
	if _, changed := a.Export(0, nil); changed {
		t.Fatal("nothing was ejected, yet there is something to export")
	}
	healthtest.Fail(a, 0, bad, 5)
	shared, changed := a.Export(0, nil)
	if !changed {
		t.Fatal("nothing to export after an ejection")
	}
	a.ConfirmExport()
	if _, changed = a.Export(0, shared); changed {
		t.Fatal("exported twice")
	}
	b.Import(0, shared)
	if _, in := weights(t, b, time.Second, v)[bad]; in {
		t.Fatal("the other VM still uses the endpoint")
	}
	if b.Ejections() != 0 {
		t.Fatal("an ejection was counted twice")
	}
	healthtest.Fail(b, 11*time.Second, bad, 1)
	if _, in := weights(t, b, 30*time.Second, v)[bad]; in {
		t.Fatal("the second ejection is not longer although the first was another VM's")
	}
	healthtest.Fail(b, time.Minute, v.Endpoints[2].Addr, 5)
	if shared, _ = b.Export(time.Minute, shared); len(shared) != 32 {
		t.Fatalf("ended ejections stay in the export: %d bytes", len(shared))
	}
}

// A VM ignores an ejection that has ended before it reads of it.
func TestImportOfEndedEjections(t *testing.T) {
	v := healthtest.View(4)
	a, b, bad := healthtest.New(v), healthtest.New(v), v.Endpoints[1].Addr
	healthtest.Fail(a, 0, bad, 5)
	shared, _ := a.Export(0, nil)
	b.Import(time.Hour, shared)
	healthtest.Fail(b, time.Hour, bad, 4)
	if _, in := weights(t, b, time.Hour, v)[bad]; !in {
		t.Fatal("an ejection of an hour ago made four failures enough")
	}
}

// However often it is exported, an ejection is in the list once.
func TestExportMerges(t *testing.T) {
	v := healthtest.View(20)
	other := healthtest.New(v)
	var shared []byte
	for i, e := range v.Endpoints {
		h := healthtest.New(v) // of another VM
		healthtest.Fail(h, 0, e.Addr, 5)
		shared, _ = h.Export(0, shared)
		if len(shared) != (i+1)*32 {
			t.Fatalf("%d bytes for %d ejections", len(shared), i+1)
		}
	}
	healthtest.Fail(other, time.Second, v.Endpoints[3].Addr, 5)
	if shared, _ = other.Export(time.Second, shared); len(shared) != 20*32 {
		t.Fatalf("%d bytes after another VM ejected one of the same 20", len(shared))
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte{0})
	f.Add(make([]byte, 65))
	f.Fuzz(func(t *testing.T, shared []byte) {
		v := healthtest.View(3)
		h := healthtest.New(v)
		h.Import(time.Hour, shared)
		weights(t, h, time.Second, v)
	})
}
