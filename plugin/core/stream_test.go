package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/placement"
)

func TestStreams(t *testing.T) {
	streamtest.Run(t, func(t *testing.T, o streamtest.Options) streamtest.Gateway {
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
		if !o.Unconfigured && !d.configure(`{"enabled":false}`) {
			t.Fatal("the first configuration was refused")
		}
		t.Cleanup(func() { d.drained() })
		return d
	})
}

// TestStreamsWithRedis runs the same scenarios with counts in Redis: with answers that are there at once, and with
// answers that each request has to wait for.
func TestStreamsWithRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for name, latency := range map[string]time.Duration{"at once": 0, "after a while": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			streamtest.Run(t, func(t *testing.T, o streamtest.Options) streamtest.Gateway {
				d := &fakeDriver{fakeProcess: newFakeProcess(t, 2), source: `"serviceFQDN":"redis.static"`}
				d.attachRedis(t, server).latency = latency
				if !o.Unconfigured && !d.configure(`{"enabled":false}`) {
					t.Fatal("the first configuration was refused")
				}
				t.Cleanup(func() {
					d.advance(10 * time.Millisecond)
					d.drained()
				})
				return d
			})
		})
	}
}

// fakeDriver plays the scenarios on a fakeProcess.
type fakeDriver struct {
	*fakeProcess
	made   int // endpoints so far: none has the address of an earlier one
	source string
	lost   bool // a worker was lost; its leases in Redis, whose clock is real, have not expired
}

func (d *fakeDriver) Lacks(a streamtest.Ability) string {
	if d.source != "" {
		switch a {
		case streamtest.WakeUp:
			return "a request that waits in Redis is found by its worker's next poll"
		case streamtest.RefillTime, streamtest.RecordTime:
			return "the clock of Redis is real"
		}
	}
	if a == streamtest.SimulatedTime && d.redis.latency > 0 {
		return "time passes with every answer of Redis"
	}
	return ""
}

func (d *fakeDriver) Workers() int   { return len(d.workers) }
func (d *fakeDriver) Source() string { return d.source }

func (d *fakeDriver) Names() streamtest.Names {
	return streamtest.Names{Route: fakeRoute, Cluster: fakeCluster, Service: "llm.static:80"}
}

func (d *fakeDriver) Configure(raw string) error {
	if !d.configure(raw) {
		return streamtest.ErrRefused
	}
	return nil
}

func (d *fakeDriver) SetEndpoints(list []streamtest.Endpoint) {
	states := map[streamtest.State]lb.State{
		streamtest.Healthy: lb.Healthy, streamtest.Unhealthy: lb.Unhealthy, streamtest.Draining: lb.Draining,
		streamtest.Ejected: lb.Ejected, streamtest.Refusing: lb.Healthy,
	}
	old := d.view
	d.view = &lb.View{Cluster: fakeCluster}
	d.endpoints = d.endpoints[:min(len(list), len(d.endpoints))]
	for i, e := range list {
		if i == len(d.endpoints) {
			d.made++
			d.endpoints = append(d.endpoints,
				&fakeEndpoint{Endpoint: lb.Endpoint{Addr: fmt.Sprintf("10.0.0.%d:8000", d.made)}})
		}
		to := d.endpoints[i]
		to.State, to.Weight, to.refuses = states[e.State], float64(e.Weight), e.State == streamtest.Refusing
		d.view.Endpoints = append(d.view.Endpoints, to.Endpoint)
	}
	d.view.Follow(d.now, old)
}

func (d *fakeDriver) Addr(i int) string { return d.endpoints[i].Addr }

func (d *fakeDriver) SetPage(i int, page string) {
	if d.pages == nil {
		d.pages = map[string]string{}
	}
	if d.pages[d.Addr(i)] = page; page == "" {
		delete(d.pages, d.Addr(i))
	}
}

func (d *fakeDriver) Open(r streamtest.Request) streamtest.Stream { return d.client(r.Worker, r) }

// client sends a request to a worker.
func (d *fakeDriver) client(worker int, r streamtest.Request) *fakeStream {
	s := d.workers[worker].open(r.Filled())
	d.redis.await()
	return s
}

func (d *fakeDriver) Load(i int) streamtest.Load {
	return streamtest.Load(d.load(d.Addr(i)))
}

func (d *fakeDriver) Counter(name string) uint64       { return d.metrics.values[name] }
func (d *fakeDriver) Gauge(name string) uint64         { return d.metrics.values[name] }
func (d *fakeDriver) AccessLog() []string              { return d.access }
func (d *fakeDriver) Advance(by time.Duration)         { d.advance(by) }
func (d *fakeDriver) Await(condition func() bool) bool { return condition() }

func (d *fakeDriver) Lose(worker int) {
	d.lost = true
	d.workers[worker].lose()
}

// A transition that is not in the table is logged, and made all the same.
func TestTransitionThatIsMissing(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	s := NewStream(d.workers[0].current, 7, &fakeStream{process: d.fakeProcess}).first
	s.Phase = placement.PhaseDone
	s.Enter(placement.PhaseLeased)
	line := d.log[len(d.log)-1]
	if s.Phase != placement.PhaseLeased || line != "2 a request in phase done enters leased" {
		t.Errorf("phase %s, the log has %q", s.Phase, line)
	}
	d.log = nil
}

// A cluster that a route may use in part falls back to native balancing.
func TestClusterWithSubsetsIsLeftAlone(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.divided = true
	c := d.client(0, streamtest.Request{})
	c.Finish()
	if c.Override != "" || d.metrics.decisions()["subset"] != 1 {
		t.Errorf("sent to %q, counted %v", c.Override, d.metrics.decisions())
	}
	d.drained()
}
