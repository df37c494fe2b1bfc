package regions

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// versions are those that the shipped files are run on.
var versions = []string{harness.DefaultVersion, harness.OldestVersion}

// shippedRegion is a region by the shipped files, and its servers.
type shippedRegion struct {
	*harness.Gateway
	t       *testing.T
	name    string
	port    string
	peer    *shippedRegion
	version string
	servers []harness.Endpoint
	arrived chan http.Header // of the requests that a server has got
	sick    atomic.Bool      // its health checks fail
	inside  atomic.Int64     // requests that its servers have
	engines bool             // these say when a server is full, as in the shipped configuration, and no cap does
	higress bool             // with the patches for Higress, in place of the parts for stock Envoy
	way     string           // address by which the peer is reached, "" for its own
	release chan struct{}    // requests that are to be held here are answered by one value each
	running chan struct{}    // of those that its server runs at once, if it has slots
}

// swapped has the names of the two regions change places: the files are those of us.
var swapped = strings.NewReplacer(`"us"`, `"eu"`, `"eu"`, `"us"`)

// newShipped returns a region with so many servers that takes one request each, not started yet.
func newShipped(t *testing.T, version, name string, servers int) *shippedRegion {
	r := &shippedRegion{
		t: t, name: name, port: harness.FreePortT(t), version: version, arrived: make(chan http.Header, 1000),
		release: make(chan struct{}),
	}
	for range servers {
		r.servers = append(r.servers, harness.ServeT(t, http.HandlerFunc(r.serve)))
	}
	t.Cleanup(func() { close(r.release) }) // before the servers wait for what they hold
	return r
}

// batch is how many requests an engine runs at once, by its metrics.
const batch = 2

func (r *shippedRegion) serve(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path != path { // what the gateways ask it themselves
		switch {
		case r.sick.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case q.URL.Path == "/metrics":
			n := r.inside.Load()
			run := min(n, max(batch, int64(cap(r.running))))
			fmt.Fprintf(w, "vllm:num_requests_running %d\nvllm:num_requests_waiting %d\n", run, n-run)
		}
		return
	}
	_, _ = io.Copy(io.Discard, q.Body)
	r.inside.Add(1)
	defer r.inside.Add(-1)
	w.Header().Set("x-server", r.name)
	if r.running != nil {
		r.serveSlots(w, q)
		return
	}
	r.arrived <- q.Header
	if q.Header.Get("x-hold") == r.name {
		select {
		case <-r.release:
		case <-q.Context().Done():
		}
	}
}

// config is the shipped one. Unless engines say when a server is full, it has a cap in place of that, and times for a
// test.
func (r *shippedRegion) config() string {
	file := harness.Own(string(harness.ReadT(r.t, "envoy-config/warmgate-regions.yaml")))
	_, text, _ := strings.Cut(file, "value: |\n")
	if r.name == "eu" {
		text = swapped.Replace(text)
	}
	changes := map[string]string{
		`"push": "pending"`:                  `"max_inflight": ` + strconv.Itoa(held) + `, "health": {"slow_start": 0}`,
		`"name": "` + r.name + `",`:          `"name": "` + r.name + `", "steady": "2s", "queue_buffer": 0,`,
		`"admin_cluster": "warmgate-admin",`: `"admin_cluster": "warmgate-admin", "poll_interval": "100ms",`,
	}
	if r.engines {
		clear(changes)
	}
	changes[`"debug_headers": false`] = `"debug_headers": true`
	for from, to := range changes {
		if strings.Count(text, from) != 1 {
			r.t.Fatalf("the shipped configuration has no single %s:\n%s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

// edit puts the parts of regions.yaml where it says, with the addresses of this test.
func (r *shippedRegion) edit() func(file string, doc *yaml.Node) error {
	var parts struct {
		Early    yaml.Node `yaml:"early_header_mutation_extensions"`
		Routes   yaml.Node
		Clusters yaml.Node
	}
	if err := yaml.Unmarshal(harness.ReadT(r.t, "envoy-config/regions.yaml"), &parts); err != nil {
		r.t.Fatal(err)
	}
	text := func(n *yaml.Node) string { return yamlText(r.t, n) }
	gateway := endpoints(cmp.Or(r.way, "127.0.0.1:"+r.peer.port))
	var servers []string
	for _, s := range r.peer.servers {
		servers = append(servers, s.Addr)
	}
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return errors.Join(
				harness.Set(doc, "static_resources.listeners[name=main].address.socket_address.port_value", r.port),
				r.routes(doc, &parts.Early, text(&parts.Routes)))
		case "clusters.yaml":
			return errors.Join(
				harness.Insert(doc, "resources", "", 1, text(&parts.Clusters)),
				harness.Set(doc, "resources[name=warmgate-peer-eu].type", "STATIC"),
				harness.Set(doc, "resources[name=warmgate-peer-eu].load_assignment.endpoints[0].lb_endpoints", gateway),
				harness.Set(doc, "resources[name=eu-servers].load_assignment.endpoints[0].lb_endpoints",
					endpoints(servers...)),
				r.aggregate(doc))
		}
		return nil
	}
}

// endpoints returns lb_endpoints with the addresses.
func endpoints(addrs ...string) (list []any) {
	for _, addr := range addrs {
		host, port, _ := strings.Cut(addr, ":")
		number, _ := strconv.Atoi(port)
		list = append(list, map[string]any{"endpoint": map[string]any{"address": map[string]any{
			"socket_address": map[string]any{"address": host, "port_value": number},
		}}})
	}
	return list
}

// run starts the gateway, at the port that the region has.
func (r *shippedRegion) run() {
	r.t.Helper()
	r.Gateway = harness.StartT(r.t, harness.Options{
		Version: r.version, Config: r.config(), Endpoints: r.servers, Edit: r.edit(),
	})
	harness.AwaitReason(r.t, r.URL()+path, "chosen")
}

// awaits waits until a statistic has a value.
func (r *shippedRegion) awaits(stat string, want float64) {
	r.t.Helper()
	harness.Await(r.t, func() error {
		if got := r.SumT(r.t, `^wasmcustom\.`+stat); got != want {
			return fmt.Errorf("%s is %v, want %v", stat, got, want)
		}
		return nil
	})
}

// sees waits until the gateway of a peer has answered a probe and has its servers. They were adopted if it took long to
// start; before its first answer they may still be.
func (r *shippedRegion) sees(peer *shippedRegion) {
	r.t.Helper()
	harness.Await(r.t, func() error {
		if stat := `^cluster\.warmgate-peer-` + peer.name + `\.upstream_rq_2xx$`; r.SumT(r.t, stat) == 0 {
			return fmt.Errorf("%s has answered no probe", peer.name)
		}
		return nil
	})
	// Both statistics are set at one tick, and adopted servers count as available. In the other order the 0 could be
	// from the tick before.
	r.awaits("warmgate_region_available", 1)
	r.awaits("warmgate_region_adopted;", 0)
}

// open sends a request in the background that is held by the servers of a region. It returns when a server has it.
func (r *shippedRegion) open(at *shippedRegion) chan *harness.Answer {
	r.t.Helper()
	for len(at.arrived) > 0 {
		<-at.arrived
	}
	answered := make(chan *harness.Answer, 1)
	go func() {
		q, _ := http.NewRequest(http.MethodGet, r.URL()+path, nil)
		q.Header.Set("x-hold", at.name)
		q.Close = true
		resp, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			answered <- &harness.Answer{Body: err.Error()}
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		answered <- &harness.Answer{Status: resp.StatusCode, Header: resp.Header}
	}()
	select {
	case h := <-at.arrived:
		if h.Get("x-warmgate-hop") != "" {
			r.t.Error("a server has got a hop")
		}
	case <-time.After(harness.Patience):
		r.t.Fatalf("no server of %s has got a request of %s", at.name, r.name)
	}
	return answered
}

// answer waits for the answer to a request.
func (r *shippedRegion) answer(from chan *harness.Answer) *harness.Answer {
	r.t.Helper()
	select {
	case a := <-from:
		return a
	case <-time.After(harness.Patience):
		stats, _ := r.Stats(r.t.Context(), "upstream_rq|upstream_cx|retry")
		for k, v := range stats {
			if v == 0 || !strings.Contains(k, "eu-") && !strings.Contains(k, "llm") && !strings.Contains(k, "peer") {
				delete(stats, k)
			}
		}
		r.t.Fatalf("no answer: %v\n%s\n%s", stats, r.AccessLog(), r.Logs())
		return nil
	}
}

// TestShippedFiles runs two regions by the shipped files. A request is forwarded; when the gateway that it went to dies
// under way, a retry serves it at home; the servers of the dead gateway are adopted, and given back when it is there
// again. Nothing of all that remains.
func TestShippedFiles(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			us, eu := newShipped(t, version, "us", 1), newShipped(t, version, "eu", 1)
			us.peer, eu.peer = eu, us
			us.run()
			eu.run()
			shippedRegions(t, us, eu)
		})
	}
}

// held is how many requests a server takes: more than an aggregate cluster retries at a time by default.
const held = 6

func shippedRegions(t *testing.T, us, eu *shippedRegion) {
	us.sees(eu)
	home, away := us.openAll(us), us.openAll(eu)
	process, err := os.FindProcess(eu.PID())
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range away {
		a := us.answer(c)
		if a.Status != http.StatusOK || a.Header.Get("x-server") != "us" || a.Host() != us.servers[0].Addr ||
			a.Reason() != "forwarded" || a.Header.Get("x-warmgate-region") != "" {
			t.Errorf("a request of the gateway that died: %+v", a)
		}
	}
	us.awaits("warmgate_region_returned_total", held)
	us.awaits("warmgate_region_adopted;", 1)
	us.adopts(eu)

	eu.run() // a new gateway in the place of the dead one
	us.awaits("warmgate_region_adopted;", 0)
	us.awaits("warmgate_region_available", 1)
	again := us.open(eu)
	eu.release <- struct{}{}
	if a := us.answer(again); a.Reason() != "forwarded" || a.Header.Get("x-server") != "eu" {
		t.Errorf("given back: %+v", a)
	}
	for _, c := range home {
		us.release <- struct{}{}
		if a := us.answer(c); a.Status != http.StatusOK {
			t.Errorf("at home: %+v", a)
		}
	}
	us.sick.Store(true)
	harness.Await(t, func() error {
		for range 10 { // by either worker
			a := harness.Send(t, nil, http.MethodPost, us.URL()+path, `{"prompt":"x"}`)
			if a.Reason() != "forwarded" || a.Header.Get("x-server") != "eu" {
				return fmt.Errorf("with no healthy server at home: %+v", a)
			}
		}
		return nil
	})
	us.isHelped(eu)
	us.DrainedT(t)
	eu.DrainedT(t)
}

// isHelped sends more requests at once than a peer takes at a time, while nothing at home is healthy: all are answered,
// most of them there. A worker that does not know yet that home is sick still sends there.
func (r *shippedRegion) isHelped(peer *shippedRegion) {
	r.t.Helper()
	away := 0
	answers := make(chan *harness.Answer, 16)
	for range cap(answers) {
		go func() { answers <- harness.Send(r.t, nil, http.MethodPost, r.URL()+path, `{"prompt":"x"}`) }()
	}
	for range cap(answers) {
		a := r.answer(answers)
		if a.Status != http.StatusOK {
			r.t.Errorf("with no healthy server at home: %+v", a)
		}
		if a.Header.Get("x-server") == peer.name {
			away++
		}
	}
	if away <= held {
		r.t.Errorf("%d of %d were served by the other region, which takes %d at a time", away, cap(answers), held)
	}
}

// openAll sends as many requests as the servers of a region take.
func (r *shippedRegion) openAll(at *shippedRegion) (all []chan *harness.Answer) {
	r.t.Helper()
	for range held {
		all = append(all, r.open(at))
	}
	return all
}

// adopts has requests served by the adopted servers of the peer, one of them after a wait.
func (r *shippedRegion) adopts(peer *shippedRegion) {
	r.t.Helper()
	adopted, waits := r.openAll(peer), make(chan *harness.Answer, 1)
	go func() { waits <- harness.Send(r.t, nil, http.MethodPost, r.URL()+path, `{"prompt":"x"}`) }()
	harness.Await(r.t, func() error {
		if n := r.SumT(r.t, `^wasmcustom\.warmgate_queue_length`); n != 1 {
			return fmt.Errorf("%v wait", n)
		}
		return nil
	})
	for range held {
		peer.release <- struct{}{}
	}
	for i, c := range append(adopted, waits) {
		a := r.answer(c)
		if a.Status != http.StatusOK || a.Reason() != "adopted" || a.Host() != peer.servers[0].Addr ||
			a.Header.Get("x-server") != peer.name || a.Header.Get("x-warmgate-region") != peer.name {
			r.t.Errorf("request %d at adopted servers: %+v", i, a)
		}
	}
}
