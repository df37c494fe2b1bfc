package streamtest_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

func TestEnvoy(t *testing.T) {
	if testing.Short() {
		runEnvoy(t, 2, harness.Options{}, shortEnvoy...)
		return
	}
	runEnvoy(t, 3, harness.Options{})
}

func TestEnvoyOldest(t *testing.T) {
	harness.LongT(t)
	runEnvoy(t, 2, harness.Options{Version: harness.OldestVersion}, "config", "end", "metrics", "protocol")
}

// Scenarios mostly wait, for health checks, polls and gauges, so as many run at a time as there are gateways for them.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// runEnvoy runs scenarios on n real Envoys. Each scenario has one of them for itself while it runs.
func runEnvoy(t *testing.T, n int, o harness.Options, groups ...string) {
	t.Parallel()
	o.Edit, o.Config, o.Module = forScenarios, envoyBase, artifactCopy(t)
	idle := make(chan *harness.Gateway, n)
	for range n {
		idle <- harness.StartT(t, o)
	}
	runOnIdle(t, idle, envoySource, func(*envoy) {}, groups...)
}

// runOnIdle runs scenarios on the gateways given, with the source among the members of lb_config. prepare is called
// with each scenario's gateway.
func runOnIdle(t *testing.T, idle chan *harness.Gateway, source string, prepare func(*envoy), groups ...string) {
	streamtest.Run(t, func(t *testing.T, _ streamtest.Options) streamtest.Gateway {
		t.Parallel()
		gw := <-idle
		t.Cleanup(func() { idle <- gw })
		d := newEnvoy(t, gw)
		d.source = source
		prepare(d)
		if err := d.Configure(baseOf(source)); err != nil {
			t.Fatal(err)
		}
		d.SetEndpoints(nil)
		return d
	}, groups...)
}

// artifactCopy returns a copy of the artifact. Envoy reads the file with every push, and another test may rebuild it.
func artifactCopy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warmgate.wasm")
	if err := os.WriteFile(path, harness.ModuleT(t, harness.HostEnvoy), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	envoySource = `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms","metrics_cluster":"warmgate-metrics"}`
	envoyBase   = envoyHead + envoySource + `}}`
	envoyHead   = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"debug_headers":true,"health":{"slow_start":0},`
)

func baseOf(source string) string { return envoyHead + source + `}}` }

// forScenarios adds to the shipped files what scenarios need: trailers, a route without retries, a filter behind the
// plugin that answers on demand, and no ejection but the plugin's own.
func forScenarios(file string, doc *yaml.Node) error {
	const (
		manager = harness.ManagerPath
		llm     = "resources[name=llm]"
	)
	switch file {
	case "clusters.yaml":
		return errors.Join(
			harness.Set(doc, llm+".outlier_detection.enforcing_failure_percentage", 0),
			harness.Set(doc, llm+".typed_extension_protocol_options", map[string]any{
				"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
					"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
					"explicit_http_config": map[string]any{
						"http_protocol_options": map[string]any{"enable_trailers": true},
					},
				},
			}))
	case "envoy.yaml":
		return errors.Join(
			harness.Set(doc, manager+".http_protocol_options", map[string]any{"enable_trailers": true}),
			addNoRetryRoute(doc, harness.RoutesPath),
			harness.Insert(doc, manager+".http_filters", "envoy.filters.http.router", 0, `
- name: envoy.filters.http.fault
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
    abort: {header_abort: {}, percentage: {numerator: 100}}
`))
	}
	return nil
}

// addNoRetryRoute puts a copy of the route before it, for requests with noRetryHeader.
func addNoRetryRoute(doc *yaml.Node, path string) error {
	routes, err := harness.Find(doc, path)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(routes.Content[0])
	if err != nil {
		return err
	}
	var list yaml.Node
	if err := yaml.Unmarshal(text, &list); err != nil {
		return err
	}
	route := list.Content[0]
	routes.Content = slices.Insert(routes.Content, 0, route)
	return errors.Join(
		harness.Remove(route, "route.retry_policy"),
		harness.Set(route, "match.headers", []any{map[string]any{"name": noRetryHeader, "present_match": true}}),
	)
}

// envoy plays the scenarios on a real Envoy.
type envoy struct {
	t       *testing.T
	gw      *harness.Gateway
	source  string
	settle  func() // waits until what has ended is no longer counted, nil where that is so at once
	streams []*envoyStream
	hub     *hub
	servers []*modelServer  // of the current list
	known   map[string]bool // addresses that the plugin has been seen to choose
	sent    int
	logged  int // length of the access log at the start
}

func newEnvoy(t *testing.T, gw *harness.Gateway) *envoy {
	return &envoy{
		t: t, gw: gw, source: envoySource, hub: &hub{exchanges: map[string]*exchange{}}, known: map[string]bool{},
		logged: len(gw.AccessLog()),
	}
}

func (d *envoy) Lacks(a streamtest.Ability) string {
	switch a {
	case streamtest.SimulatedTime, streamtest.RefillTime:
		return "time is real, and this would take too long"
	case streamtest.PickWorker:
		return "the kernel picks the worker of a connection"
	case streamtest.LostVM:
		return "the artifact as shipped has no way to crash a VM; e2e/chaos has"
	case streamtest.FirstConfig:
		return "the gateway is shared, and has had a configuration; TestEnvoyFirstConfigurationIsBad has none"
	case streamtest.HostEjection:
		return "an endpoint cannot be ejected by a word; e2e/chaos has some that earn it"
	}
	return ""
}

func (d *envoy) Workers() int { return 2 }

func (d *envoy) Names() streamtest.Names {
	return streamtest.Names{Route: "llm", Cluster: "llm", Service: "llm"}
}

func (d *envoy) Source() string { return d.source }

func (d *envoy) Configure(config string) error {
	var refused *harness.RejectedError
	err := d.gw.PushPlugin(context.Background(), config)
	if errors.As(err, &refused) {
		return streamtest.ErrRefused
	}
	return err
}

func (d *envoy) SetEndpoints(list []streamtest.Endpoint) {
	d.t.Helper()
	states := map[streamtest.State]string{streamtest.Unhealthy: "UNHEALTHY", streamtest.Draining: "DRAINING"}
	d.servers = d.servers[:min(len(d.servers), len(list))]
	var push []harness.Endpoint
	for i, e := range list {
		if i == len(d.servers) {
			d.servers = append(d.servers, startModelServer(d.t, d.hub, i))
		}
		push = append(push, harness.Endpoint{Addr: d.servers[i].addr, Weight: e.Weight, Health: states[e.State]})
	}
	if err := d.gw.PushEndpoints(context.Background(), push); err != nil {
		d.t.Fatal(err)
	}
	d.awaitEnvoy(list)
	d.awaitPlugin(list)
	for i, e := range list {
		if e.State == streamtest.Refusing {
			d.servers[i].stop()
		}
	}
}

// awaitEnvoy waits until Envoy has the list and has checked the endpoints' health.
func (d *envoy) awaitEnvoy(list []streamtest.Endpoint) {
	d.t.Helper()
	want := map[string]bool{} // by address: healthy
	for i, e := range list {
		want[d.servers[i].addr] = e.State == streamtest.Healthy || e.State == streamtest.Refusing
	}
	line := regexp.MustCompile(`(?m)^llm::([0-9.]+:[0-9]+)::health_flags::(.*)$`)
	var text string
	if !d.Await(func() bool {
		var err error
		if text, err = d.gw.Clusters(context.Background()); err != nil {
			return false
		}
		found := line.FindAllStringSubmatch(text, -1)
		for _, f := range found {
			healthy, listed := want[f[1]]
			if !listed || healthy != (f[2] == "healthy") || strings.Contains(f[2], "active_hc") {
				return false
			}
		}
		return len(found) == len(want)
	}) {
		d.t.Fatalf("Envoy does not take the endpoints %v:\n%s", want, text)
	}
}

// awaitPlugin sends probes until the plugin chooses among the healthy endpoints only, the new ones included. There are
// many probes because each reaches one worker, and each worker learns the list separately.
func (d *envoy) awaitPlugin(list []streamtest.Endpoint) {
	d.t.Helper()
	const inARow = 12
	usable, fresh := map[string]bool{}, map[string]bool{}
	most := 0
	for _, e := range list {
		most = max(most, e.Weight)
	}
	for i, e := range list {
		addr := d.servers[i].addr
		if e.State != streamtest.Healthy && e.State != streamtest.Refusing {
			continue
		}
		usable[addr] = true
		if !d.known[addr] && e.Weight == most { // one of less weight is not chosen while the others are idle
			fresh[addr] = true
		}
	}
	want := reasonFor(len(usable), len(list))
	if want == "panic_threshold" {
		fresh = nil
	}
	good := 0
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	var last, reason string
	if !d.Await(func() bool {
		for good < inARow || len(fresh) > 0 {
			resp, err := client.Get(d.gw.URL() + "/probe")
			if err != nil {
				d.t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			last = resp.Header.Get("x-warmgate-host")
			if reason = resp.Header.Get("x-warmgate-reason"); reason != want || last != "" && !usable[last] {
				good = 0
				return false
			}
			good++
			delete(fresh, last)
			if good > 500 {
				return false
			}
		}
		return true
	}) {
		d.t.Fatalf("the plugin does not know its endpoints: chose %q for %q, may choose %v for %q, never chose %v",
			last, reason, usable, want, fresh)
	}
	before := len(d.known)
	for addr := range usable {
		d.known[addr] = true
	}
	if len(d.known) > before && len(d.streams) > 0 { // a worker that still has the old list answers probes as well
		d.Advance(500 * time.Millisecond)
	}
}

// reasonFor returns why requests go where they go if so many of the endpoints are healthy.
func reasonFor(healthy, endpoints int) string {
	switch {
	case endpoints == 0:
		return "no_endpoints"
	case healthy == 0:
		return "no_healthy_endpoint"
	case 2*healthy < endpoints:
		return "panic_threshold"
	}
	return "chosen"
}

func (d *envoy) Addr(i int) string { return d.servers[i].addr }

func (d *envoy) SetPage(i int, page string) { d.servers[i].page.Store(&page) }

func (d *envoy) Load(i int) streamtest.Load {
	labels := ";cluster=llm;endpoint=" + d.servers[i].addr
	return streamtest.Load{
		Requests: int64(d.stat("warmgate_inflight_requests" + labels)),
		Tokens:   int64(d.stat("warmgate_inflight_tokens" + labels)),
	}
}

func (d *envoy) Counter(name string) uint64 { return d.stat(name) }
func (d *envoy) Gauge(name string) uint64   { return d.stat(name) }

func (d *envoy) stat(name string) uint64 {
	d.t.Helper()
	v, err := d.gw.Sum(context.Background(), `^wasmcustom\.`+regexp.QuoteMeta(name)+`$`)
	if err != nil {
		d.t.Fatal(err)
	}
	return uint64(v)
}

func (d *envoy) Advance(by time.Duration) { time.Sleep(by) }

func (d *envoy) Await(condition func() bool) bool {
	for end := time.Now().Add(patience); ; {
		if condition() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *envoy) AccessLog() []string {
	var log []string
	for _, m := range regexp.MustCompile(`warmgate="([^"]*)"`).FindAllStringSubmatch(d.gw.AccessLog()[d.logged:], -1) {
		log = append(log, m[1])
	}
	return log
}

func (d *envoy) Lose(int) { d.t.Fatal(d.Lacks(streamtest.LostVM)) }
