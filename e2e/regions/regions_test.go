package regions

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// place is a region: a gateway of two workers and a server that takes one request at a time.
type place struct {
	gateway *harness.Gateway
	hops    chan string   // what the server got as a hop
	release chan struct{} // requests that are to be held are answered by one value each
}

// path is what all requests ask for: an answer that has to be computed.
const path = "/answers"

func (p *place) server(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if hop := r.Header.Get("x-warmgate-hop"); hop != "" {
			p.hops <- hop
		}
		if r.Header.Get("x-hold") != "" {
			<-p.release
		}
		w.Header().Set("x-server", name)
	})
}

// edits add the routes and the cluster of docs/regions.md, with the address of the other gateway.
func edits(peer, port string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			address := "static_resources.listeners[name=main].address.socket_address.port_value"
			if err := harness.Set(doc, address, port); err != nil {
				return err
			}
			return harness.Insert(doc, harness.RoutesPath, "", 0, `
- match: {prefix: /, headers: [{name: x-higress-target-cluster, present_match: true}]}
  route: {cluster_header: x-higress-target-cluster, timeout: 600s}
`)
		case "clusters.yaml":
			return peerCluster(doc, "to-other", peer)
		}
		return nil
	}
}

// peerCluster adds the cluster of another gateway.
func peerCluster(doc *yaml.Node, name, port string) error {
	return harness.Insert(doc, "resources", "", 0, `
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: `+name+`
  type: STATIC
  connect_timeout: 1s
  load_assignment:
    cluster_name: `+name+`
    endpoints:
    - lb_endpoints:
      - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: `+port+`}}}
`)
}

const secret = "0123456789abcdef" // of both regions

// regionConfig is the plugin's in a region with a peer.
func regionConfig(name, peer, members string) string {
	return fmt.Sprintf(`{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inflight":1,`+
		`"health":{"slow_start":0},"queue":{"max_wait":"20s"},"regions":{"name":%q,"cluster":"llm",`+
		`"peers":[{"name":%q,"cluster":"to-other","rtt":"20ms"}],"queue_buffer":0,"secret":%q},`+
		members+`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}}}`, name, peer, secret)
}

// startWith starts regions with the options, which count in a Redis each, or in their own memory.
func startWith(t *testing.T, o harness.Options, redis bool) (us, eu *place) {
	ports := map[string]string{"us": harness.FreePortT(t), "eu": harness.FreePortT(t)}
	begin := func(name, peer string) *place {
		p := &place{hops: make(chan string, 100), release: make(chan struct{})}
		o, more := o, o.Edit
		o.Endpoints, o.Config = []harness.Endpoint{harness.ServeT(t, p.server(name))}, regionConfig(name, peer, "")
		o.Edit = func(file string, doc *yaml.Node) error {
			err := edits(ports[peer], ports[name])(file, doc)
			if more != nil && err == nil {
				err = more(file, doc)
			}
			return err
		}
		if redis {
			o.Redis = redisserver.StartT(t, redisserver.Options{}).Addr()
			const admin = `"envoy":{`
			o.Config = strings.Replace(o.Config, admin, admin+`"redis_cluster":"warmgate-redis",`, 1)
		}
		p.gateway = harness.StartT(t, o)
		t.Cleanup(func() { close(p.release) })
		return p
	}
	us, eu = begin("us", "eu"), begin("eu", "us")
	for _, p := range []*place{us, eu} {
		harness.AwaitReason(t, p.gateway.URL()+path, "chosen")
	}
	harness.Await(t, func() error { // probes are answered
		if us.gateway.SumT(t, "warmgate_region_available") != 1 {
			return fmt.Errorf("%s", us.gateway.PrometheusT(t))
		}
		return nil
	})
	return us, eu
}

// hold has a request occupy the server of a region, until the test ends it.
func (p *place) hold(t *testing.T) (answered chan *http.Response) {
	answered = make(chan *http.Response, 1)
	go func() {
		r, _ := http.NewRequest(http.MethodGet, p.gateway.URL()+path, nil)
		r.Header.Set("x-hold", "yes")
		r.Close = true
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Error(err)
		} else {
			resp.Body.Close()
		}
		answered <- resp
	}()
	harness.Await(t, func() error {
		if n := p.gateway.SumT(t, "warmgate_inflight_requests"); n != 1 {
			return fmt.Errorf("%v in flight", n)
		}
		return nil
	})
	return answered
}

// What finds the server at home occupied is served by the other region; a hop that a client makes up changes nothing;
// each session has one server of one other region; and once the other gateway is gone, requests wait at home.
func TestTwoRegions(t *testing.T) {
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) { twoRegions(t, version) })
	}
}

func twoRegions(t *testing.T, version string) {
	ap := playedRegion(t, "ap")
	us, eu := startWith(t, harness.Options{Version: version, Edit: func(file string, doc *yaml.Node) error {
		if file != "clusters.yaml" {
			return nil
		}
		return peerCluster(doc, "to-ap", ap)
	}}, false)
	answered := us.hold(t)
	for i, headers := range [][]string{nil, {"x-warmgate-hop: 1hZm9yZ2Vk"}, {"x-higress-target-cluster: llm"}} {
		a := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+path, "", headers...)
		if a.Status != http.StatusOK || a.Header.Get("x-server") != "eu" || len(a.Header["X-Warmgate-Region"]) == 0 {
			t.Fatalf("request %d: %d, %v", i, a.Status, a.Header)
		}
		time.Sleep(500 * time.Millisecond) // until the other region has said again that it has room
	}
	if n := eu.gateway.SumT(t, "warmgate_region_served_total"); n != 3 {
		t.Errorf("the other region has served %v for this one", n)
	}
	if n := us.gateway.SumT(t, "warmgate_region_hops_forged_total"); n != 1 {
		t.Errorf("%v hops were forged", n)
	}
	for _, p := range []*place{us, eu} {
		if len(p.hops) > 0 {
			t.Errorf("a server got the hop %q", <-p.hops)
		}
	}
	probe := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+"/.well-known/warmgate/region", "",
		"x-warmgate-probe: 1pZm9yZ2Vk")
	if probe.Header.Get("x-warmgate-probe-answer") != "" {
		t.Error("a stranger's probe is answered")
	}
	if version == harness.DefaultVersion {
		keepsSessions(t, us, eu)
	}
	if err := eu.gateway.Stop(); err != nil {
		t.Fatal(err)
	}
	const long = 3000 // ms: an answer that was on its way has come
	harness.Await(t, func() error {
		age := us.gateway.SumT(t, "warmgate_region_probe_age_ms")
		if us.gateway.SumT(t, "warmgate_region_available") != 0 || age < long {
			return fmt.Errorf("a gateway that has stopped is available, %v ms after its last answer", age)
		}
		return nil
	})
	go func() {
		time.Sleep(time.Second)
		us.release <- struct{}{}
	}()
	a := harness.Send(t, nil, http.MethodGet, us.gateway.URL()+path, "")
	if a.Header.Get("x-server") != "us" || strings.TrimLeft(a.Header.Get("x-warmgate-wait-ms"), "0") == "" {
		t.Errorf("%d, %v", a.Status, a.Header)
	}
	<-answered
	if _, err := net.Dial("tcp", eu.gateway.Addr()); err == nil {
		t.Error("the other gateway has not stopped")
	}
	us.gateway.DrainedT(t)
}
