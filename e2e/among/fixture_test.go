package among

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// versions are those that each case runs on.
var versions = []string{harness.DefaultVersion, harness.OldestVersion}

// server is a model server of a site.
type server struct {
	*httptest.Server
	site    *site
	held    atomic.Int64
	sent    sync.Map // values of the header that routes go by, as they arrived
	sick    atomic.Bool
	fails   atomic.Bool
	quota   atomic.Pointer[quota] // nil for none
	pause   atomic.Int64          // nanoseconds that each answer takes
	release chan struct{}         // closed: requests are not held any more
}

// site is the servers of one cluster.
type site struct {
	name    string
	servers []*server
	served  atomic.Int64
	busy    atomic.Int64 // requests that are being answered
	most    atomic.Int64 // of these at the same time
}

func newSite(t *testing.T, name string, n int) *site {
	t.Helper()
	st := &site{name: name}
	for range n {
		s := &server{site: st, release: make(chan struct{})}
		s.Server = httptest.NewServer(s)
		t.Cleanup(s.Close)
		st.servers = append(st.servers, s)
	}
	return st
}

// ServeHTTP implements http.Handler. A request for /held is answered once the test says so.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		if s.sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.sent.Store(r.Header.Get(targetHeader), true)
	w.Header().Set("x-site", s.site.name)
	w.Header().Set("x-server", s.Listener.Addr().String())
	if s.fails.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if q := s.quota.Load(); q != nil && !q.serve(w) {
		return
	}
	defer s.site.busy.Add(-1)
	for now, most := s.site.busy.Add(1), s.site.most.Load(); now > most; most = s.site.most.Load() {
		s.site.most.CompareAndSwap(most, now)
	}
	time.Sleep(time.Duration(s.pause.Load()))
	if r.URL.Path == "/held" {
		s.held.Add(1)
		select {
		case <-s.release:
		case <-r.Context().Done():
		}
		s.held.Add(-1)
	}
	s.site.served.Add(1)
}

func (st *site) held() (n int64) {
	for _, s := range st.servers {
		n += s.held.Load()
	}
	return n
}

func (st *site) set(f func(s *server)) {
	for _, s := range st.servers {
		f(s)
	}
}

func (st *site) endpoints() []any {
	var list []any
	for _, s := range st.servers {
		host, port, _ := strings.Cut(s.Listener.Addr().String(), ":")
		var number int
		_, _ = fmt.Sscan(port, &number)
		list = append(list, map[string]any{"endpoint": map[string]any{"address": map[string]any{
			"socket_address": map[string]any{"address": host, "port_value": number},
		}}})
	}
	return list
}

const (
	targetHeader = "x-higress-target-cluster"
	routesPath   = harness.ManagerPath + ".route_config.virtual_hosts[name=llm].routes"
)

// fromGuide returns a block of docs/clusters.md: what retries in another cluster need.
func fromGuide(t *testing.T, name string) string {
	t.Helper()
	_, text, ok := strings.Cut(string(harness.ReadT(t, "docs/clusters.md")), "<!-- "+name+" -->\n\n```yaml\n")
	block, _, closed := strings.Cut(text, "```")
	if !ok || !closed {
		t.Fatal("docs/clusters.md has no " + name)
	}
	return block
}

// lab is a gateway before two sites, and the cluster of the route.
type lab struct {
	*harness.Gateway
	t    *testing.T
	a, b *site
	own  *site

	retries bool // retries go to another site
	higress bool // with the route and the filter of Higress, in place of those of stock Envoy

	more func(file string, doc *yaml.Node) error // further changes of the files, nil for none
}

// edits puts the parts of envoy-config/sites.yaml where it says, with the servers' addresses.
func (l *lab) edits(t *testing.T) func(file string, doc *yaml.Node) error {
	var sites struct {
		Early    yaml.Node `yaml:"early_header_mutation_extensions"`
		Routes   yaml.Node
		Clusters yaml.Node
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/sites.yaml"), &sites); err != nil {
		t.Fatal(err)
	}
	text := func(n *yaml.Node) string {
		out, err := yaml.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	more := fromGuide(t, "aggregate clusters")
	var retry struct {
		Priority yaml.Node `yaml:"retry_priority"`
	}
	if err := yaml.Unmarshal([]byte(fromGuide(t, "retry")), &retry); err != nil {
		t.Fatal(err)
	}
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			if l.higress {
				return asInHigress(t, doc)
			}
			early := harness.ManagerPath + ".early_header_mutation_extensions"
			if err := harness.Set(doc, early, &sites.Early); err != nil {
				return err
			}
			if err := harness.Insert(doc, routesPath, "", 0, text(&sites.Routes)); err != nil || !l.retries {
				return err
			}
			return harness.Set(doc, routesPath+"[0].route.retry_policy.retry_priority", &retry.Priority)
		case "clusters.yaml":
			if err := harness.Insert(doc, "resources", "", 1, text(&sites.Clusters)+more); err != nil {
				return err
			}
			for _, st := range []*site{l.a, l.b} {
				where := "resources[name=" + st.name + "].load_assignment.endpoints[0].lb_endpoints"
				if err := harness.Set(doc, where, st.endpoints()); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// asInHigress makes the changes of the EnvoyFilter that is shipped for Higress.
func asInHigress(t *testing.T, doc *yaml.Node) error {
	var filter struct {
		Spec struct {
			Patches []struct {
				Patch struct{ Value yaml.Node }
			} `yaml:"configPatches"`
		}
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/higress-envoyfilter-clusters.yaml"), &filter); err != nil {
		return err
	}
	for i, path := range []string{routesPath, harness.ManagerPath + ".http_filters"} {
		text, err := yaml.Marshal([]*yaml.Node{&filter.Spec.Patches[i].Patch.Value})
		if err != nil {
			return err
		}
		if err := harness.Insert(doc, path, "", 0, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// newLab runs a gateway of the version with a configuration of the plugin, for the sites of another one or new ones.
func newLab(t *testing.T, o harness.Options, like *lab) *lab {
	t.Helper()
	l := &lab{t: t, retries: strings.Contains(o.Config, "first_clusters")}
	if like != nil {
		l.a, l.b, l.own = like.a, like.b, like.own
	}
	return l.start(o)
}

// start runs the gateway.
func (l *lab) start(o harness.Options) *lab {
	l.t.Helper()
	if l.a == nil {
		l.a, l.b, l.own = newSite(l.t, "llm-a", 2), newSite(l.t, "llm-b", 2), newSite(l.t, "llm", 1)
	}
	o.Endpoints = []harness.Endpoint{{Addr: l.own.servers[0].Listener.Addr().String()}}
	edits := l.edits(l.t)
	o.Edit = func(file string, doc *yaml.Node) error {
		if err := edits(file, doc); err != nil || l.more == nil {
			return err
		}
		return l.more(file, doc)
	}
	l.Gateway = harness.StartT(l.t, o)
	return l
}

// send sends a request on a connection of its own, so that any worker may get it.
func (l *lab) send(headers ...string) *harness.Answer {
	l.t.Helper()
	return harness.Send(l.t, nil, http.MethodPost, l.URL()+"/v1/completions", `{"prompt":"x"}`, headers...)
}

// hold sends requests that are held, one after the other.
func (l *lab) hold(n int, headers ...string) {
	l.t.Helper()
	for range n {
		before := l.a.held() + l.b.held() + l.own.held()
		r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.URL()+"/held", strings.NewReader(`{}`))
		if err != nil {
			l.t.Fatal(err)
		}
		for i := 0; i < len(headers); i++ {
			name, value, _ := strings.Cut(headers[i], ": ")
			r.Header.Set(name, value)
		}
		go func() {
			if resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		harness.Await(l.t, func() error {
			if now := l.a.held() + l.b.held() + l.own.held(); now <= before {
				return fmt.Errorf("%d held", now)
			}
			return nil
		})
	}
}

// let has all held requests answered.
func (l *lab) let() {
	for _, st := range []*site{l.a, l.b, l.own} {
		st.set(func(s *server) { close(s.release) })
	}
}

// knows waits until the plugin chooses, a cluster and an endpoint in it, on every worker.
func (l *lab) knows(want func(a *harness.Answer) bool) {
	l.t.Helper()
	good := 0
	harness.Await(l.t, func() error {
		a := l.send()
		if good++; !want(a) {
			good = 0
		}
		if good < 10 {
			return fmt.Errorf("%d, %v", a.Status, a.Header)
		}
		return nil
	})
}

// shares returns where n requests went, by site.
func (l *lab) shares(n int, pause time.Duration) map[string]int {
	l.t.Helper()
	to := map[string]int{}
	for range n {
		to[l.send().Header.Get("x-site")]++
		time.Sleep(pause)
	}
	return to
}
