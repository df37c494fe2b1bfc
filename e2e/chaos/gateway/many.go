package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/chaos/waiting"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// besidePath is where requests begin that are for a cluster beside that of the model servers.
const besidePath = "/beside/"

// The parts of the shipped files that besidePath needs.
const (
	besideRoute   = `- {name: beside, match: {prefix: ` + besidePath + `}, route: {cluster: beside, prefix_rewrite: /}}`
	besideCluster = `
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: beside
  type: STATIC
  load_assignment:
    cluster_name: beside
    endpoints:
    - lb_endpoints:
      - endpoint: {address: {socket_address: {address: %s, port_value: %s}}}`
)

// addBeside edits the shipped files: it adds a cluster of one server, and a route to it in front of the shipped one.
func addBeside(addr, file string, doc *yaml.Node) error {
	switch file {
	case "envoy.yaml":
		return harness.Insert(doc, harness.RoutesPath, "", 0, besideRoute)
	case "clusters.yaml":
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		return harness.Insert(doc, "resources", "", 1, fmt.Sprintf(besideCluster, host, port))
	}
	return nil
}

// gate is a server that takes requests for /held and answers one each time it is told to. Others it answers at once.
type gate struct {
	*httptest.Server
	open    chan struct{}  // one value for each answer
	arrived chan time.Time // one for each request
}

// newGate returns a gate for so many requests.
func newGate(most int) *gate {
	g := &gate{open: make(chan struct{}), arrived: make(chan time.Time, most)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/held" {
			return
		}
		g.arrived <- time.Now()
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`{"choices":[{}]}`)) // who has left misses nothing
	}))
	return g
}

func (g *gate) addr() string { return g.Listener.Addr().String() }

// pass lets one request pass, and returns how long it took until the next one was there.
func (g *gate) pass(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case g.open <- struct{}{}:
	case <-ctx.Done():
		lab.Check(errors.New("no request is at the gate"))
	}
	at := time.Now()
	select {
	case next := <-g.arrived:
		return next.Sub(at)
	case <-ctx.Done():
		lab.Check(errors.New("no request arrives although there is room"))
		return 0
	}
}

// crowd is clients at a gate, each with a connection of its own, and requests to another cluster beside them.
type crowd struct {
	*lab.Act
	ctx     context.Context // of the requests
	gate    *gate
	traffic *audit.Traffic
}

// held is a request of 1 KiB.
func held(_ *rand.Rand, id int) loadgen.Request {
	return loadgen.Request{ID: id, Body: []byte(`{"model":"sim","prompt":"` + strings.Repeat("x", 1000) + `"}`)}
}

// figures measures, with the requests that wait: one arrives and one leaves the gate 200 times a second at most.
func (c *crowd) figures(name string) (p99 float64) {
	const passes, pause = 500, 5 * time.Millisecond
	p := lab.StartPulses(c.Ctx, c.Site.Gateway.URL()+strings.TrimSuffix(besidePath, "/")+audit.EchoPath)
	start := time.Now()
	var took []time.Duration
	err := lab.Try(func() {
		for range passes {
			c.traffic.Burst(c.ctx, 1)
			took = append(took, c.gate.pass(c.Ctx))
			c.Sleep(pause)
		}
	})
	end := time.Now()
	failed := p.Stop(c.Act)
	q := loadgen.QuantilesOf(took)
	c.Note("wake_p50_ms_"+name, bench.MS(q.P50))
	c.Note("wake_p99_ms_"+name, bench.MS(q.P99))
	p99 = p.P99(start, end)
	c.Note("beside_p99_ms_"+name, p99)
	lab.Check(failed, err)
	return p99
}

// besideMostMS is by how much the 99th percentile of requests to another cluster may rise while many wait. All clients
// and servers share the CPU with the gateway: where nothing else runs, it does not rise at all.
const besideMostMS = 1000

// manyWait has many requests wait in one gateway. It measures what each takes of memory, how long after the end of one
// request the next one is at its server, and how long requests to another cluster take meanwhile.
func manyWait(a *lab.Act) {
	g := newGate(2 * a.Waiting)
	defer g.Config.Close()
	lab.Check(a.Site.Gateway.PushEndpoints(a.Ctx, []harness.Endpoint{{Addr: g.addr()}}))
	// One request at a time. The other cluster has no queue.
	rule := `{"_match_service_":["llm"],` + waiting.WithQueue(audit.Config(), 1)[1:]
	config := strings.TrimSuffix(audit.Config(), "}") + `,"_rules_":[` + rule + `]}`
	lab.Check(a.Site.Gateway.PushPlugin(a.Ctx, config))
	a.Until(func() { chosenIs(a, true, g.addr()) })
	client := loadgen.NewClient(loadgen.Options{
		URL: a.Site.Gateway.URL() + "/held", Fresh: true, Timeout: lab.Patience,
	})
	ctx, cancel := context.WithCancel(a.Ctx)
	c := &crowd{Act: a, ctx: ctx, gate: g, traffic: audit.NewTraffic(client, 0, a.Seed, held)}
	lab.Each(func() {
		c.many(c.few())
		c.drain()
	}, func() {
		cancel()
		c.traffic.Pause()
		a.Count(c.traffic.Tally(), nil)
	}, func() {
		lab.Check(a.Site.Gateway.PushEndpoints(a.Ctx, a.Site.Endpoints()))
		a.Until(func() { chosenIs(a, false, g.addr()) })
	})
}

// chosenIs checks that every worker chooses the endpoint, or none does.
func chosenIs(a *lab.Act, want bool, addr string) {
	for range 8 * a.Workers {
		r := lab.Must(audit.Ask(a.Ctx, a.Site.Gateway.URL(), false, nil))
		got := r.Header.Get("x-warmgate-host")
		lab.FailIf(got == "" || (got == addr) != want, "%d from %q, is it to be %s: %t", r.Status, got, addr, want)
	}
}

// few measures with a handful of requests that wait.
func (c *crowd) few() (p99 float64) {
	const handful = 10
	c.traffic.Burst(c.ctx, 1+handful)
	select {
	case <-c.gate.arrived:
	case <-time.After(time.Minute):
		lab.Check(errors.New("no request has come to its server"))
	}
	waiting.Await(c.Act, handful, c.Site.Gateway)
	return c.figures("few")
}

// many measures with all of them, and what they take of memory.
func (c *crowd) many(few float64) {
	before, resident, err := c.Site.Gateway.Used(c.Ctx)
	lab.Check(err)
	c.traffic.Burst(c.ctx, c.Waiting)
	waiting.Await(c.Act, c.Waiting, c.Site.Gateway)
	used, residentNow, err := c.Site.Gateway.Used(c.Ctx)
	lab.Check(err)
	each := func(bytes int64) float64 { return float64(bytes) / float64(c.Waiting) / 1024 }
	c.Note("used_kib_each", each(used-before))
	c.Note("resident_kib_each", each(residentNow-resident))
	rise := c.figures("many") - few
	lab.FailIf(rise > besideMostMS, "requests beside those that wait take %.1f ms longer at p99, at most %d may be",
		rise, besideMostMS)
}

// drain lets all pass, as fast as they come.
func (c *crowd) drain() {
	cpu := lab.Must(c.Site.Gateway.CPU())
	start := time.Now()
	close(c.gate.open)
	c.traffic.Pause()
	n := float64(c.Waiting)
	c.Note("drained_per_s", n/time.Since(start).Seconds())
	c.Note("cpu_ms_each", bench.MS(lab.Must(c.Site.Gateway.CPU())-cpu)/n)
	waiting.Emptied(c.Act)
}
