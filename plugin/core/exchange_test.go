package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// ejectConfig ejects after two failures.
var ejectConfig = &health.ClusterConfig{Health: health.Config{
	ConsecutiveFailures: 2, EjectionTime: 10 * time.Second, MaxEjectionTime: 5 * time.Minute, MaxEjectionPercent: 50,
}}

// ejects lets a worker observe enough failures of an endpoint to eject it.
func (d *fakeDriver) ejects(worker int, addr string) {
	for range 2 {
		d.workers[worker].vm.Clusters[fakeCluster].Health.Observe(d.now, lb.Outcome{Addr: addr, Verdict: lb.Failure},
			ejectConfig)
	}
}

// chooses reports whether the worker still chooses the endpoint when the others are at their cap.
func (d *fakeDriver) chooses(worker int, addr string) bool {
	cl := d.workers[worker].vm.Clusters[fakeCluster]
	list, _ := cl.Health.Candidates(d.now, d.view, ejectConfig, 0)
	candidates := list.Candidates
	for _, c := range candidates {
		if c.Addr == addr {
			return true
		}
	}
	return false
}

// startEjections returns a process of three workers that know the cluster.
func startEjections(t *testing.T) *fakeDriver {
	t.Helper()
	d := startFake(t, 3, 4, requestsConfig)
	for i := range d.workers {
		d.serve(i, 200)
	}
	return d
}

func TestEjectionsAreShared(t *testing.T) {
	d := startEjections(t)
	d.ejects(0, d.Addr(1))
	d.advance(2 * process.TickPeriod)
	for i := range d.workers {
		if d.chooses(i, d.Addr(1)) {
			t.Errorf("worker %d still chooses the endpoint that worker 0 has ejected", i)
		}
		if !d.chooses(i, d.Addr(0)) {
			t.Errorf("worker %d does not choose an endpoint that is well", i)
		}
	}
	d.advance(3 * time.Second)
	if got := d.metrics.values[stats.Ejections+";cluster="+fakeCluster]; got != 1 {
		t.Errorf("one ejection was counted as %d", got)
	}
	if got := d.metrics.values[stats.Ejected+";cluster="+fakeCluster]; got != 1 {
		t.Errorf("%d endpoints are shown as ejected, want 1", got)
	}
	line := "1 cluster=" + fakeCluster + " " + d.Addr(1) + " is ejected for 10s after 2 failures"
	if n := strings.Count(strings.Join(d.log, "\n"), line); n != 1 {
		t.Errorf("the log has %d times %q", n, line)
	}
	d.ejects(2, d.Addr(2))
	d.advance(2 * process.TickPeriod)
	for i := range d.workers {
		if d.chooses(i, d.Addr(1)) || d.chooses(i, d.Addr(2)) {
			t.Errorf("worker %d: the second ejection took the place of the first", i)
		}
	}
	d.advance(15 * time.Second)
	for i := range d.workers {
		if !d.chooses(i, d.Addr(1)) || !d.chooses(i, d.Addr(2)) {
			t.Errorf("worker %d: an ejection of 10 s has not ended", i)
		}
	}
	d.advance(time.Second)
	if got := d.metrics.values[stats.Ejected+";cluster="+fakeCluster]; got != 0 {
		t.Errorf("%d endpoints are shown as ejected after the end of the ejections", got)
	}
	d.ejects(1, d.Addr(3))
	d.advance(2 * process.TickPeriod)
	val, _, err := d.kv.Get(process.KeyEjections)
	if entries := len(val) - len("__"+fakeCluster) - 8 - 4; err != nil || entries != 32 {
		t.Errorf("shared memory holds %d bytes (%v), want those of the one ejection that lasts", entries, err)
	}
}

// A value that is already in shared memory is not written again, ten times a second.
func TestEjectionsAreWrittenOnce(t *testing.T) {
	d := startEjections(t)
	writes := 0
	d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if key == process.KeyEjections {
			writes++
		}
		return nil
	}
	d.ejects(0, d.Addr(1))
	d.advance(5 * time.Second)
	if writes != 1 {
		t.Errorf("one ejection was written %d times", writes)
	}
}

// A swap that another worker wins, or memory that fails, delays an ejection and does not lose it.
func TestEjectionsAreTriedAgain(t *testing.T) {
	for name, trouble := range map[string]error{
		"lost swap": lb.ErrMismatch, "host trouble": errors.New("host trouble"),
	} {
		t.Run(name, func(t *testing.T) {
			d := startEjections(t)
			failures := 0
			d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
				if key == process.KeyEjections && failures < 3 {
					failures++
					return trouble
				}
				return nil
			}
			d.ejects(0, d.Addr(1))
			d.advance(10 * process.TickPeriod)
			if failures != 3 || d.chooses(1, d.Addr(1)) {
				t.Errorf("after %d failed writes worker 1 chooses the endpoint: %v", failures, d.chooses(1, d.Addr(1)))
			}
		})
	}
}

func TestEjectionsWithoutSharedMemory(t *testing.T) {
	d := startEjections(t)
	d.kv.Broken = errors.New("host trouble")
	d.ejects(0, d.Addr(1))
	d.advance(time.Second)
	if d.chooses(0, d.Addr(1)) {
		t.Error("the worker that saw the failures needs no memory to act on them")
	}
	d.kv.Broken = nil
	d.advance(2 * process.TickPeriod)
	if d.chooses(1, d.Addr(1)) {
		t.Error("the ejection did not get through when memory was back")
	}
}

func TestDamagedEjections(t *testing.T) {
	d := startEjections(t)
	name := "\x17\x00" + fakeCluster
	for _, damage := range []string{
		"", "\x00", "short", string(make([]byte, 24)), string(make([]byte, 25)), name, name + "12345678",
		name + "12345678\xff\xff\xff\xff", name + "12345678\x18\x00\x00\x00" + string(make([]byte, 24)),
	} {
		if err := d.kv.Set(process.KeyEjections, []byte(damage), 0); err != nil {
			t.Fatal(err)
		}
		d.advance(2 * process.TickPeriod)
		for _, e := range d.endpoints {
			if !d.chooses(0, e.Addr) {
				t.Errorf("%q ejects %s", damage, e.Addr)
			}
		}
	}
	d.ejects(0, d.Addr(1))
	d.advance(2 * process.TickPeriod)
	if d.chooses(1, d.Addr(1)) {
		t.Error("after the damage ejections are not shared any more")
	}
}

// If two workers eject at the same moment, both ejections are kept, also the first time.
func TestEjectionsAtTheSameMoment(t *testing.T) {
	d := startEjections(t)
	second := false
	d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if key == process.KeyEjections && !second { // the other worker reads and writes between our read and our write
			second = true
			d.ejects(1, d.Addr(2))
			d.workers[1].vm.Clusters.ExchangeEjections(d.now, d.kv)
		}
		return nil
	}
	d.ejects(0, d.Addr(1))
	d.advance(3 * process.TickPeriod)
	for i := range d.workers {
		if d.chooses(i, d.Addr(1)) || d.chooses(i, d.Addr(2)) {
			t.Errorf("worker %d does not know both ejections", i)
		}
	}
}
