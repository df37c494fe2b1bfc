package security

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Headers by which the routes of these tests let a client name a cluster: to go to, and to mirror the request to.
const (
	anyCluster = "x-any"
	anyMirror  = "x-mirror"
)

// tripwire is a server that must receive nothing. It counts connections and bytes.
type tripwire struct {
	net.Listener
	connections, received atomic.Int64
}

// Write counts what a connection has received.
func (w *tripwire) Write(p []byte) (int, error) {
	w.received.Add(int64(len(p)))
	return len(p), nil
}

func newTripwire(t *testing.T) *tripwire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &tripwire{Listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.connections.Add(1)
			go func() {
				defer conn.Close()
				_, _ = io.Copy(struct{ io.Writer }{w}, conn)
			}()
		}
	}()
	return w
}

// openRoutes adds routes that go to, or mirror to, the cluster that a client names. It collects the clusters' names.
func openRoutes(clusters *[]string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		if file != "envoy.yaml" && file != "redis-tunnel.yaml" {
			return nil
		}
		list, err := harness.Find(doc, "static_resources.clusters")
		if err != nil {
			return err
		}
		var named []struct{ Name string }
		if err := list.Decode(&named); err != nil {
			return err
		}
		for _, c := range named {
			*clusters = append(*clusters, c.Name)
		}
		if file != "envoy.yaml" {
			return nil
		}
		return harness.Insert(doc, harness.RoutesPath, "", 0, `
- match: {prefix: /, headers: [{name: `+anyCluster+`, present_match: true}]}
  route: {cluster_header: `+anyCluster+`}
- match: {prefix: /, headers: [{name: `+anyMirror+`, present_match: true}]}
  route: {cluster: llm, request_mirror_policies: [{cluster_header: `+anyMirror+`}]}
`)
	}
}

// attacks are requests that do harm, or show something, where they reach the admin interface, Redis or the address that
// they name. Those that end Envoy come last.
func attacks(target string) []*http.Request {
	var list []*http.Request
	for _, line := range []string{
		"GET /clusters", "GET /clusters?format=json", "GET /config_dump", "GET /stats",
		"GET /stats?usedonly&filter=lb_subsets_", "GET /metrics",
		"POST /", "POST /healthcheck/fail", "POST /quitquitquit",
	} {
		method, path, _ := strings.Cut(line, " ")
		for _, disguise := range []http.Header{
			{},
			{"X-Forwarded-Proto": {""}},
			{"X-Forwarded-Proto": {"http"}},
			{"X-Forwarded-Proto": {"http", "http"}},
			{"Connection": {"x-forwarded-proto"}},
			{"X-Forwarded-For": {"10.0.0.1"}, "X-Envoy-Internal": {"true"}},
		} {
			body := ""
			if method == http.MethodPost {
				body = "*3\r\n$3\r\nSET\r\n$6\r\nforged\r\n$1\r\n1\r\n"
			}
			r, err := http.NewRequest(method, "http://redis"+path, strings.NewReader(body))
			if err != nil {
				panic(err)
			}
			r.Header = disguise
			for _, name := range []string{"x-envoy-original-dst-host", "x-warmgate-redis-node"} {
				r.Header.Set(name, target)
			}
			list = append(list, r)
		}
	}
	return list
}

// TestClientsDoNotReachThePluginsClusters sends requests to a gateway whose routes let clients name any cluster,
// mirrors included. None may reach the admin interface, an address that it names, or Redis, whichever state the plugin
// is in.
func TestClientsDoNotReachThePluginsClusters(t *testing.T) {
	for name, o := range layouts {
		for _, o.Version = range []string{harness.DefaultVersion, harness.OldestVersion} {
			t.Run(name+" "+o.Version, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
				defer cancel()
				f, named, redis := newFleet(t, 2), newTripwire(t), newTripwire(t)
				var clusters []string
				o.Endpoints, o.Config, o.Redis, o.Edit = f.endpoints, steering, redis.Addr().String(),
					openRoutes(&clusters)
				g := harness.StartT(t, o)
				s := &siege{t: t, gateway: g, clusters: clusters, named: named, redis: redis}
				for _, state := range pluginStates() {
					if err := state.enter(ctx, g); err != nil {
						t.Fatalf("plugin %s: %v", state.name, err)
					}
					s.state = state.name
					s.open()
					if state.name == "on" {
						s.discovers(ctx)
					}
					s.byRoute(ctx)
					s.byMirror(ctx)
				}
			})
		}
	}
}

// siege is one gateway under attack.
type siege struct {
	t            *testing.T
	gateway      *harness.Gateway
	clusters     []string
	named, redis *tripwire
	state        string
}

// open proves that the routes do let clients name a cluster.
func (s *siege) open() {
	s.t.Helper()
	for _, header := range []string{anyCluster, anyMirror} {
		r, err := http.NewRequest(http.MethodGet, "http://x/v1/models", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if status, _ := s.send(0, r, header, "llm"); status != http.StatusOK {
			s.t.Fatalf("%s: llm named in %s: answered %d", s.state, header, status)
		}
	}
}

// discovers waits until the plugin, which reaches the admin interface by one of these clusters, has chosen an endpoint.
func (s *siege) discovers(ctx context.Context) {
	s.t.Helper()
	for {
		s.open()
		chosen, err := s.gateway.Sum(ctx, `^wasmcustom\.warmgate_decisions_total;.*reason=chosen$`)
		if err != nil {
			s.t.Fatalf("the plugin finds no endpoints: %v", err)
		}
		if chosen > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// send sends a request that names a cluster in a header, by the i-th client.
func (s *siege) send(i int, r *http.Request, header, cluster string) (status int, body string) {
	s.t.Helper()
	r.URL.Host = s.gateway.Addr()
	r.Header.Set(header, cluster)
	if i >= len(clients)/2 {
		r.Header.Del("Connection") // HTTP/2 has none
	}
	resp, err := clients[i].Transport.RoundTrip(r)
	if err != nil {
		s.t.Fatalf("%s: %s %s at %s: %v", s.state, r.Method, r.URL.Path, cluster, err)
	}
	return resp.StatusCode, drain(s.t, resp)
}

// refusals are the answers to a request that reaches nothing. Envoy gives the first and the third also to malformed
// headers.
var refusals = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable}

// byRoute goes to the clusters, over HTTP/1 and HTTP/2.
func (s *siege) byRoute(ctx context.Context) {
	s.t.Helper()
	for _, cluster := range s.clusters {
		for _, client := range []int{0, len(clients) - 1} {
			for _, r := range attacks(s.named.Addr().String()) {
				if status, body := s.send(client, r, anyCluster, cluster); !slices.Contains(refusals, status) {
					s.t.Errorf("%s: %s %s %v at %s: answered %d %.40q", s.state, r.Method, r.URL, r.Header, cluster,
						status, body)
				}
			}
		}
		s.unharmed(ctx, "routed to "+cluster)
	}
}

// byMirror has requests that a model server answers mirrored to the clusters.
func (s *siege) byMirror(ctx context.Context) {
	s.t.Helper()
	for _, cluster := range s.clusters {
		for _, r := range attacks(s.named.Addr().String()) {
			s.send(0, r, anyMirror, cluster)
		}
		s.unharmed(ctx, "mirrored to "+cluster)
	}
}

// unharmed checks for effects of the attacks so far, once none is under way any more.
func (s *siege) unharmed(ctx context.Context, way string) {
	s.t.Helper()
	for {
		active, err := s.gateway.Sum(ctx, `^cluster\..*\.upstream_rq_(active|pending_active)$`)
		if err != nil {
			s.t.Fatalf("%s, %s: Envoy does not answer: %v", s.state, way, errors.Join(err, ctx.Err()))
		}
		if active == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if state, err := s.gateway.Sum(ctx, `^server\.state$`); err != nil || state != 0 {
		s.t.Errorf("%s, %s: Envoy is in state %v (%v), want 0, live", s.state, way, state, err)
	}
	if n := s.named.connections.Swap(0); n > 0 {
		s.t.Errorf("%s, %s: %d connections to an address that clients have named", s.state, way, n)
	}
	if n := s.redis.received.Swap(0); n > 0 {
		s.t.Errorf("%s, %s: %d bytes to Redis", s.state, way, n)
	}
}

// TestPluginRefusesItsOwnClusters takes the filter away that guards the admin cluster, as in a configuration that was
// written without it: the plugin still refuses clients.
func TestPluginRefusesItsOwnClusters(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*harness.Patience)
	defer cancel()
	var clusters []string
	open := openRoutes(&clusters)
	const guard = "static_resources.clusters[name=warmgate-admin].typed_extension_protocol_options"
	g := harness.StartT(t,
		harness.Options{Config: steering, Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
			return errors.Join(open("envoy.yaml", doc), harness.Remove(doc, guard))
		})})
	s := &siege{t: t, gateway: g, state: "on"}
	for _, r := range attacks("127.0.0.1:1") {
		if status, body := s.send(0, r, anyCluster, "warmgate-admin"); !slices.Contains(refusals, status) {
			t.Fatalf("%s %s: answered %d %.40q", r.Method, r.URL, status, body)
		}
	}
	refused, err := g.Sum(ctx, `^wasmcustom\.warmgate_decisions_total;.*reason=own_cluster$`)
	if err != nil || refused < 32 { // all but the malformed ones
		t.Errorf("counted %v refusals: %v", refused, err)
	}
}
