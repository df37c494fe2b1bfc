package streamtest_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/memstore"
)

func TestHigress(t *testing.T) {
	t.Parallel()
	for i, profile := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		t.Run(profile.String(), func(t *testing.T) {
			if i > 0 {
				harness.LongT(t)
			}
			streamtest.Run(t, func(t *testing.T, _ streamtest.Options) streamtest.Gateway {
				return &higress{t: t, profile: profile}
			})
		})
	}
}

// A request that is logged after its context was deleted, as over HTTP/3, ends as any other.
func TestHigressLogLast(t *testing.T) {
	streamtest.Run(t, func(t *testing.T, _ streamtest.Options) streamtest.Gateway {
		return &higress{t: t, logLast: true}
	}, "end")
}

const (
	higressRoute   = "chat"
	higressCluster = "outbound|80||llm.static"
)

// higress plays the scenarios on the test host. The gateway starts with the first configuration.
type higress struct {
	t       *testing.T
	profile higresshost.Profile
	logLast bool
	gw      *higresshost.Gateway
	list    []streamtest.Endpoint
	addrs   []string
	made    int // addresses so far: none is used twice
	streams []*higresshost.Stream
	local   map[*higresshost.Stream]int
	redis   *higressRedis // nil: counts in the gateway's memory
	drains  bool          // at the end nothing may be counted in Redis
	pages   map[string]string
	checks  int // pages stored so far
}

func (h *higress) Lacks(a streamtest.Ability) string {
	switch a {
	case streamtest.NewestFrame:
		if h.profile == higresshost.Higress21 {
			return "Higress 2.1 shows a held body without its newest frame"
		}
	case streamtest.HostDraining, streamtest.HostEjection:
		return "Higress shows a plugin only whether an endpoint is healthy"
	case streamtest.HostWeights:
		return "Higress shows a plugin no weights"
	case streamtest.SecondHop:
		return "Higress's retries go to its own balancing"
	case streamtest.RareMetrics:
		if h.redis != nil {
			return "what is in flight is learned from Redis after the page is read, so the request goes by load alone"
		}
	case streamtest.RefillTime, streamtest.RecordTime:
		if h.redis != nil {
			return "the clock of Redis is real"
		}
	case streamtest.SimulatedTime:
		if h.redis != nil {
			return "time passes with every answer of Redis"
		}
	}
	return ""
}

func (h *higress) Workers() int { return 2 }

func (h *higress) Source() string {
	if h.redis != nil {
		return higressRedisSource
	}
	return ""
}

// settle advances the clock by the time that Redis's answers take.
func (h *higress) settle() {
	if h.redis != nil {
		h.gw.Advance(4 * redisLatency)
	}
}

func (h *higress) Names() streamtest.Names {
	return streamtest.Names{Route: higressRoute, Cluster: higressCluster, Service: "llm.static:80"}
}

func (h *higress) Configure(config string) error {
	if h.gw != nil {
		if h.gw.PushConfig(config) != nil {
			return streamtest.ErrRefused
		}
		return nil
	}
	h.gw = higresshost.Start(h.t, higresshost.Options{
		Wasm: harness.ModuleT(h.t, harness.HostHigress), Config: config, Profile: h.profile, Workers: h.Workers(),
		Route: higressRoute, Cluster: higressCluster,
		LogLast: h.logLast,
	})
	if h.drains {
		h.t.Cleanup(h.wantDrained)
	}
	h.local = map[*higresshost.Stream]int{}
	h.gw.OnRoute = func(s *higresshost.Stream) int { return h.local[s] }
	h.redis.attach(h.gw)
	h.gw.Cluster("warmgate-metrics")
	h.gw.OnHTTPCall = h.call
	h.pages = map[string]string{}
	h.gw.After(time.Second, h.check)
	h.SetEndpoints(h.list)
	return nil
}

func (h *higress) SetEndpoints(list []streamtest.Endpoint) {
	h.list = list
	if h.gw == nil {
		return
	}
	cluster := h.gw.Cluster(higressCluster)
	for len(h.addrs) > len(list) {
		last := len(h.addrs) - 1
		cluster.Remove(h.addrs[last])
		h.addrs = h.addrs[:last]
	}
	for i, e := range list {
		if i == len(h.addrs) {
			h.made++
			h.addrs = append(h.addrs, fmt.Sprintf("10.0.0.%d:8000", h.made))
			cluster.Add(h.addrs[i])
		}
		to := cluster.Endpoint(h.addrs[i])
		to.Health = fakehost.Healthy
		if e.State == streamtest.Unhealthy {
			to.Health = fakehost.Unhealthy
		}
		to.Refuses = e.State == streamtest.Refusing
	}
}

func (h *higress) Addr(i int) string { return h.addrs[i] }

// call answers a call of the plugin with the page of the endpoint that it names.
func (h *higress) call(c *higresshost.HTTPCall) {
	h.gw.After(time.Millisecond, func() {
		if page := h.pages[c.Headers.Get("x-envoy-original-dst-host")]; page != "" {
			c.Respond(200, []byte(page))
			return
		}
		c.Respond(404, nil)
	})
}

// SetPage implements [streamtest.Gateway]: the health check finds the page from now on.
func (h *higress) SetPage(i int, page string) {
	h.pages[h.addrs[i]] = page
	h.store(h.addrs[i])
}

// store stores an endpoint's page. No two pages of an engine are the same.
func (h *higress) store(addr string) {
	e, page := h.gw.Cluster(higressCluster).Endpoint(addr), h.pages[addr]
	if e == nil {
		return
	}
	if e.Metrics = page; page != "" {
		h.checks++
		e.Metrics = fmt.Sprintf("process_cpu_seconds_total %d\n%s", h.checks, page)
	}
}

// check is the health check, once a second.
func (h *higress) check() {
	for addr := range h.pages {
		h.store(addr)
	}
	h.gw.After(time.Second, h.check)
}

func (h *higress) Open(r streamtest.Request) streamtest.Stream {
	r = r.Filled()
	s := h.gw.Worker(r.Worker).NewStream()
	h.streams = append(h.streams, s)
	s.Properties["source.address"] = cmp.Or(r.Client, "127.0.0.1") + ":50000"
	if r.Local != 0 {
		h.local[s] = r.Local
	}
	p := &streamtest.Player{
		Stream: s.Stream, Index: func(addr string) int { return slices.Index(h.addrs, addr) }, Settle: h.settle,
		EndsApart:   h.profile == higresshost.Higress21, // it never shows the last frame of a held HTTP/2 body
		ContentType: "application/json",
	}
	p.Start(r)
	return p
}

// Load reads the plugin's table from shared memory, as one more worker would.
func (h *higress) Load(i int) streamtest.Load {
	h.t.Helper()
	loads, err := memstore.New(h.gw.Shared(), 1, time.Minute).Loads(higressCluster,
		[]string{h.addrs[i]}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return streamtest.Load(loads[0])
}

func (h *higress) Counter(name string) uint64       { return h.gw.Metrics().Counter(name) }
func (h *higress) Gauge(name string) uint64         { return uint64(h.gw.Metrics().Gauge(name)) }
func (h *higress) Advance(d time.Duration)          { h.gw.Advance(d) }
func (h *higress) Await(condition func() bool) bool { return condition() }

func (h *higress) AccessLog() []string {
	var log []string
	for _, s := range h.streams {
		if s.Ended {
			log = append(log, s.FilterState["warmgate"])
		}
	}
	return log
}

// Lose traps the worker's VM in its next tick.
func (h *higress) Lose(worker int) {
	h.t.Helper()
	target := h.gw.Worker(worker)
	h.gw.OnHostCall = func(w *higresshost.Worker, _ string) {
		if w == target {
			panic("the VM is lost")
		}
	}
	h.gw.Advance(100 * time.Millisecond)
	h.gw.OnHostCall = nil
	if !target.Failed() {
		h.t.Fatal("the VM lives")
	}
}
