package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
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

// addBeside returns an edit that adds a cluster of one server, and a route to it in front of the shipped one.
func addBeside(addr string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
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
}

// gate is a server that takes requests for /held and answers one each time it is told to. Others it answers at once.
type gate struct {
	http.Server
	addr    string
	open    chan struct{}  // one value for each answer
	arrived chan time.Time // one for each request
}

// newGate returns a gate for so many requests.
func newGate(most int) (*gate, error) {
	g := &gate{open: make(chan struct{}), arrived: make(chan time.Time, most)}
	g.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/held" {
			return
		}
		g.arrived <- time.Now()
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.addr = l.Addr().String()
	go func() { _ = g.Serve(l) }()
	return g, nil
}

// pass lets one request pass, and returns how long it took until the next one was there.
func (g *gate) pass(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case g.open <- struct{}{}:
	case <-ctx.Done():
		return 0, errors.New("no request is at the gate")
	}
	at := time.Now()
	select {
	case next := <-g.arrived:
		return next.Sub(at), nil
	case <-ctx.Done():
		return 0, errors.New("no request arrives although there is room")
	}
}

// crowd is clients at a gate, and requests to another cluster beside them.
type crowd struct {
	*act
	gate *gate
	done sync.WaitGroup
	sent int

	mu   sync.Mutex
	lost []error
}

// arrive has n more clients send a request of 1 KiB, each on a connection of its own.
func (c *crowd) arrive(n int) {
	body := `{"model":"sim","prompt":"` + strings.Repeat("x", 1000) + `"}`
	c.sent += n
	for range n {
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			if err := c.post(body); err != nil {
				c.mu.Lock()
				c.lost = append(c.lost, err)
				c.mu.Unlock()
			}
		}()
	}
}

func (c *crowd) post(body string) error {
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.site.Gateway.URL()+"/held", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s, reason %s: %s", resp.Status, resp.Header.Get("x-warmgate-reason"), text)
	}
	return err
}

// figures measures, with the requests that wait: one arrives and one leaves the gate 200 times a second at most.
func (c *crowd) figures(name string) (p99 float64, err error) {
	const passes, pause = 500, 5 * time.Millisecond
	p := startPulses(c.ctx, []string{c.site.Gateway.URL() + strings.TrimSuffix(besidePath, "/")})
	start := time.Now()
	var took []time.Duration
	for range passes {
		c.arrive(1)
		d, passed := c.gate.pass(c.ctx)
		if err = passed; err != nil {
			break
		}
		took = append(took, d)
		c.sleep(pause)
	}
	end := time.Now()
	n, failed := p.stop()
	c.result.Requests += n
	c.result.Failed += len(failed)
	q := loadgen.QuantilesOf(took)
	c.result.Figures["wake_p50_ms_"+name], c.result.Figures["wake_p99_ms_"+name] = millis(q.P50), millis(q.P99)
	p99 = p.p99(start, end)
	c.result.Figures["beside_p99_ms_"+name] = p99
	return p99, errors.Join(append(failed, err)...)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// besideMostMS is by how much the 99th percentile of requests to another cluster may rise while many wait. All clients
// and servers share the CPU with the gateway: where nothing else runs, it does not rise at all.
const besideMostMS = 1000

// manyWait has many requests wait in one gateway. It measures what each takes of memory, how long after the end of one
// request the next one is at its server, and how long requests to another cluster take meanwhile.
func manyWait(a *act) error {
	g, err := newGate(2 * a.waiting)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := a.site.Gateway.PushEndpoints(a.ctx, []harness.Endpoint{{Addr: g.addr}}); err != nil {
		return err
	}
	// One request at a time. The other cluster has no queue.
	rule := `{"_match_service_":["` + scope + `"],` + withQueue(audit.Config(), 1)[1:]
	config := strings.TrimSuffix(audit.Config(), "}") + `,"_rules_":[` + rule + `]}`
	if err := a.site.Gateway.PushPlugin(a.ctx, config); err != nil {
		return err
	}
	if err := a.until(patience, func() error { return a.chosenIs(true, g.addr) }); err != nil {
		return err
	}
	c := &crowd{act: a, gate: g}
	err = c.few()
	if err == nil {
		err = c.many()
	}
	if err == nil {
		err = c.drain()
	}
	a.result.Requests += c.sent
	a.result.Failed += len(c.lost)
	return errors.Join(err, a.site.Gateway.PushEndpoints(a.ctx, a.site.Endpoints()),
		a.until(patience, func() error { return a.chosenIs(false, g.addr) }))
}

// chosenIs returns an error unless every worker chooses the endpoint, or none does.
func (a *act) chosenIs(want bool, addr string) error {
	for range 8 * a.workers {
		r, err := http.NewRequestWithContext(a.ctx, http.MethodGet, a.site.Gateway.URL(), nil)
		if err != nil {
			return err
		}
		r.Close = true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if got := resp.Header.Get("x-warmgate-host"); got == "" || (got == addr) != want {
			return fmt.Errorf("%s from %q, is it to be %s: %t", resp.Status, got, addr, want)
		}
	}
	return nil
}

// few measures with a handful of requests that wait.
func (c *crowd) few() error {
	const handful = 10
	c.arrive(1 + handful)
	select {
	case <-c.gate.arrived:
	case <-time.After(time.Minute):
		return errors.New("no request has come to its server")
	}
	if err := c.awaitQueue(handful, c.site.Gateway); err != nil {
		return err
	}
	_, err := c.figures("few")
	return err
}

// many measures with all of them, and what they take of memory.
func (c *crowd) many() error {
	before, resident, err := c.site.Gateway.Used(c.ctx)
	if err != nil {
		return err
	}
	c.arrive(c.waiting)
	if err := c.awaitQueue(c.waiting, c.site.Gateway); err != nil {
		return err
	}
	used, residentNow, err := c.site.Gateway.Used(c.ctx)
	if err != nil {
		return err
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(c.waiting) / 1024 }
	f := c.result.Figures
	f["used_kib_each"], f["resident_kib_each"] = each(used-before), each(residentNow-resident)
	most, err := c.figures("many")
	if rise := most - f["beside_p99_ms_few"]; err == nil && rise > besideMostMS {
		err = fmt.Errorf("requests beside those that wait take %.1f ms longer at p99, at most %d may be",
			rise, besideMostMS)
	}
	return err
}

// drain lets all pass, as fast as they come.
func (c *crowd) drain() error {
	cpu, err := c.site.Gateway.CPU()
	if err != nil {
		return err
	}
	start := time.Now()
	close(c.gate.open)
	c.done.Wait()
	took := time.Since(start)
	cpuNow, err := c.site.Gateway.CPU()
	f, n := c.result.Figures, float64(c.waiting)
	f["drained_per_s"], f["cpu_ms_each"] = n/took.Seconds(), millis(cpuNow-cpu)/n
	if len(c.lost) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d requests failed, first: %w", len(c.lost), c.sent, c.lost[0]))
	}
	return errors.Join(err, c.emptied())
}
