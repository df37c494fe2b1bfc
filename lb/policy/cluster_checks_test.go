package policy

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"pgregory.net/rapid"
)

// usual is the health of clusters as it is by default.
var usual = health.Config{
	ConsecutiveFailures: 5, EjectionTime: 10 * time.Second, MaxEjectionTime: 5 * time.Minute, MaxEjectionPercent: 100,
	SlowStart: 30 * time.Second, EjectsAll: true,
}

// newUsualBench is a bench of AdaptiveScore with all keys as they are by default.
func newUsualBench(t interface{ Fatalf(string, ...any) }, n int) *clusterBench {
	b := newClusterBench(t, AdaptiveScore, n, nil)
	b.config.Cluster.Health = usual
	b.setCap(0)
	return b
}

// However long a cluster fails, and however many of its requests fail at once, it has requests again within 10 s after
// it works; meanwhile it has few.
func TestFailedClustersAreTried(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := time.Duration(rapid.IntRange(10, 200).Draw(rt, "ms between requests")) * time.Millisecond
		fails := time.Duration(rapid.IntRange(100, 200_000).Draw(rt, "ms of failures")) * time.Millisecond
		atOnce := rapid.IntRange(0, 20).Draw(rt, "at once")
		b := newUsualBench(rt, 3)
		bad := false
		answers := func(i int) (lb.Verdict, time.Duration) {
			if bad && i == 1 {
				return lb.Failure, time.Millisecond
			}
			return lb.Success, 100 * time.Millisecond
		}
		b.serve(int(10*time.Second/every), every, answers)
		bad = true
		for range atOnce {
			b.loads[1].Requests++
			b.end(1, lb.Failure, 0, time.Millisecond)
		}
		n := b.serve(int(fails/every)+1, every, answers)
		// Until it cools down it is chosen like others, and one that took no time has nothing in flight.
		if most := 10 + int(fails/lastCheck); n[1] > most {
			rt.Fatalf("%d requests to a cluster that fails for %v", n[1], fails)
		}
		bad = false
		if n := b.serve(int(10*time.Second/every), every, answers); n[1] == 0 {
			rt.Fatalf("no request within 10 s after %v of failures", fails)
		}
	})
}

// A check that fails is nothing new for the health of the cluster: else it would be ejected for longer each time.
func TestChecksEjectNothing(t *testing.T) {
	b := newUsualBench(t, 2)
	answers := func(i int) (lb.Verdict, time.Duration) {
		if i == 1 {
			return lb.Failure, time.Millisecond
		}
		return lb.Success, 50 * time.Millisecond
	}
	n := b.serve(6000, 50*time.Millisecond, answers)
	if h := b.config.Health; n[1] < 20 || h.IsEjected(b.now, clusterName(1)) {
		t.Errorf("%d requests in five minutes, ejected: %t", n[1], h.IsEjected(b.now, clusterName(1)))
	}
}

// A check that takes longer than the cooldown does not have the failures behind it pass for checks.
func TestFailuresBehindACooldown(t *testing.T) {
	b := newUsualBench(t, 2)
	b.plan()
	l := b.policy.(*clusterMetrics).latencies.of(clusterName(1))
	l.coolsUntil = b.now + 30*time.Second
	for range 30 {
		b.plan()
	}
	if l.checks.from == 0 {
		t.Fatal("it is not tried")
	}
	b.now += 31 * time.Second
	b.plan()
	b.now += time.Minute
	for range 9 {
		b.loads[1].Requests++
		b.end(1, lb.Failure, 0, time.Millisecond)
	}
	if !b.config.Health.IsEjected(b.now, clusterName(1)) {
		t.Error("nine failures eject nothing")
	}
}

// A worker to which a cluster has not failed yet tries it with one request when its ejection by another one is over.
func TestEjectedElsewhere(t *testing.T) {
	a, b := newUsualBench(t, 3), newUsualBench(t, 3)
	answers := func(int) (lb.Verdict, time.Duration) { return lb.Success, 100 * time.Millisecond }
	a.serve(200, 20*time.Millisecond, answers)
	b.serve(200, 20*time.Millisecond, answers)
	for range 9 {
		a.loads[1].Requests++
		a.end(1, lb.Failure, 0, time.Millisecond)
	}
	ejections, _ := a.config.Health.Export(a.now, nil)
	if len(ejections) == 0 {
		t.Fatal("nine failures eject nothing")
	}
	b.config.Health.Import(b.now, ejections)
	n := b.serve(900, 20*time.Millisecond, func(i int) (lb.Verdict, time.Duration) {
		if i == 1 {
			return lb.Failure, time.Millisecond
		}
		return answers(i)
	})
	if n[1] < 1 || n[1] > 4 {
		t.Errorf("%d requests in eight seconds behind the ejection", n[1])
	}
	if b.config.Health.IsEjected(b.now, clusterName(1)) {
		t.Error("the failed check has ejected it for longer")
	}
}

// Where all cool down, all are used, and their failures count: nobody tries them.
func TestAllCoolDown(t *testing.T) {
	b := newUsualBench(t, 2)
	b.plan()
	ls := b.policy.(*clusterMetrics).latencies
	ls.of(clusterName(0)).coolsUntil = b.now + time.Minute
	for range 30 {
		b.plan()
	}
	if ls.of(clusterName(0)).checks.from == 0 {
		t.Fatal("one of two is not tried")
	}
	ls.of(clusterName(1)).coolsUntil = b.now + time.Minute
	for range 100 {
		b.now += 100 * time.Millisecond
		if p, _ := b.plan(); len(p.Candidates) != 2 {
			t.Fatalf("%d candidates", len(p.Candidates))
		}
	}
	for range 5 {
		b.loads[0].Requests++
		b.end(0, lb.Failure, 0, time.Millisecond)
	}
	if !b.config.Health.IsEjected(b.now, clusterName(0)) {
		t.Error("five failures of one that was no longer tried have not ejected it")
	}
}

// A request that is only asked about tries nothing, and asks no neglected cluster.
func TestTrialRequestsTryNothing(t *testing.T) {
	b := newUsualBench(t, 3)
	b.serve(500, 20*time.Millisecond, func(int) (lb.Verdict, time.Duration) {
		return lb.Success, 50 * time.Millisecond
	})
	b.loads[1].Requests++
	b.end(1, lb.Failure, 0, time.Millisecond)
	b.now += 3 * time.Second
	ls := b.policy.(*clusterMetrics).latencies
	before, since := *ls.of(clusterName(1)), ls.sinceRetry
	for range 50 {
		p, why := b.policy.Plan(b.now, &lb.Request{Random: 7, Trial: true}, b.view)
		if why != lb.ReasonChosen {
			t.Fatal(why)
		}
		for _, c := range p.Candidates {
			if c.Addr == clusterName(1) {
				t.Fatal("a cluster that cools down is a candidate")
			}
		}
	}
	if after := *ls.of(clusterName(1)); after != before || ls.sinceRetry != since {
		t.Errorf("%+v and %d, were %+v and %d", after, ls.sinceRetry, before, since)
	}
}
