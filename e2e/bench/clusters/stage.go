package clusters

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// site is a cluster with one server: so many requests at once, each for so long; others wait there.
type site struct {
	name    string
	slots   int
	service time.Duration

	*httptest.Server
	free  chan struct{}
	slow  atomic.Int64 // times as long
	fails atomic.Bool
}

// The clusters: the second slows down, the third fails.
func newSites() []*site {
	return []*site{
		{name: "fast", slots: 16, service: 100 * time.Millisecond},
		{name: "medium", slots: 8, service: 100 * time.Millisecond},
		{name: "little", slots: 8, service: 200 * time.Millisecond},
	}
}

const (
	slowing = 1
	failing = 2
	target  = "x-higress-target-cluster"
)

// perSecond is how many requests a site serves.
func (s *site) perSecond() float64 { return float64(s.slots) / s.service.Seconds() }

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-site", s.name)
	if s.fails.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-r.Context().Done():
		return
	}
	select {
	case <-time.After(s.service * time.Duration(s.slow.Load())):
	case <-r.Context().Done():
	}
}

// stage is the gateway and the sites.
type stage struct {
	gateway *harness.Gateway
	sites   []*site
	client  *http.Client
}

func newStage(ctx context.Context) (*stage, error) {
	st := &stage{sites: newSites()}
	clusters, weights := "", ""
	for _, s := range st.sites {
		s.free = make(chan struct{}, s.slots)
		s.slow.Store(1)
		s.Server = httptest.NewServer(s)
		host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		clusters += fmt.Sprintf(`
- name: %s
  type: STATIC
  connect_timeout: 1s
  circuit_breakers: {thresholds: [{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}]}
  load_assignment:
    cluster_name: %s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]
`, s.name, s.name, host, port)
		weights += fmt.Sprintf("      - {name: %s, weight: %d}\n", s.name, int(s.perSecond()))
	}
	const routes = harness.ManagerPath + ".route_config.virtual_hosts[name=llm].routes"
	var err error
	st.gateway, err = harness.Start(ctx, harness.Options{
		Config: off, Endpoints: []harness.Endpoint{{Addr: st.sites[0].Listener.Addr().String()}},
		Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
			return errors.Join(harness.Insert(doc, routes, "", 0, `
- match: {prefix: /, headers: [{name: `+target+`, present_match: true}]}
  name: llm
  route: {cluster_header: `+target+`, timeout: 60s}
- match: {prefix: /weighted}
  name: weighted
  route:
    timeout: 60s
    weighted_clusters:
      clusters:
`+weights), harness.Insert(doc, "static_resources.clusters", "", 0, clusters))
		}),
	})
	st.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}, Timeout: time.Minute}
	return st, err
}

func (st *stage) close() {
	_ = st.gateway.Stop()
	for _, s := range st.sites {
		s.Close()
	}
}

// capacity is how many requests all sites serve in a second.
func (st *stage) capacity() (sum float64) {
	for _, s := range st.sites {
		sum += s.perSecond()
	}
	return sum
}
