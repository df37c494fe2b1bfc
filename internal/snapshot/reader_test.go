package snapshot

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/golden"
)

// canary is in everything that is secret.
const canary = "Canary"

// pages are what a gateway answers, with secrets wherever there may be some.
var pages = map[string]string{
	"/server_info": `{"version": "abc/1.40.0/Clean", "state": "LIVE", "uptime_current_epoch": "125s",
		"command_line_options": {"concurrency": 2, "config_yaml": "token: Canary"}}`,
	"/clusters": `{"cluster_statuses": [{"name": "llm", "host_statuses": [
		{"address": {"socket_address": {"address": "10.0.0.2", "port_value": 8000}}, "weight": 3,
			"stats": [{"name": "rq_active", "type": "GAUGE", "value": "4"}, {"name": "rq_total", "value": "70"}],
			"health_status": {"eds_health_status": "HEALTHY"}, "locality": {"zone": "a"}},
		{"address": {"socket_address": {"address": "fd00::1", "port_value": 80}}, "weight": 1,
			"health_status": {"failed_outlier_check": true, "eds_health_status": "HEALTHY"}},
		{"address": {"pipe": {"path": "/run/a.sock"}}, "health_status": {"eds_health_status": "DRAINING",
			"failed_active_degraded_check": true}},
		{"address": {"envoy_internal_address": {"server_listener_name": "in", "endpoint_id": "b"}},
			"health_status": {"failed_active_degraded_check": true}}]}]}`,
	"/stats": `{"stats": [{"name": "wasmcustom.policy=.=p;.;reason=.=chosen;.;warmgate_decisions_total", "value": 7},
		{"name": "wasmcustom.warmgate_owners", "value": 2}, {"name": "cluster.x.warmgate_token.Canary", "value": 1},
		{"name": "odd", "value": "Canary"},
		{"histograms": [{"name": "wasmcustom.class=.=a;.;warmgate_queue_wait_ms", "buckets": [
			{"upper_bound": 0.5, "interval": 1, "cumulative": 2}, {"upper_bound": 3e+05, "cumulative": 5}]}]}]}`,
	"/config_dump": `{"configs": [{"bootstrap": {"admin": {"password": "Canary"}}, "static": [
		{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "llm", "lb_policy": "LEAST_REQUEST"},
		{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "b", "load_balancing_policy": {
			"policies": [{"typed_extension_config": {"name": "envoy.load_balancing_policies.ring_hash"}}]}}]},
		{"filters": [{"config": {"vm_config": {"code": "other.wasm"}, "configuration": {"a": "Canary"}}}, ` +
		filterOf(planted) + "," + filterOf(planted) + `]}]}`,
	"/inspect/state": `{"format": 1, "version": "v1", "at_ms": 5, "vms": 2, "token": "Canary", "clusters": [
		{"name": "llm", "policy": "prefix_cache", "endpoints": [{"addr": "10.0.0.2:8000", "requests": 4}]}]}`,
}

// planted is a configuration with secrets where the plugin has them, and where nobody expects one.
const planted = `{"lb_policy": "prefix_cache", "lb_config": {"api": {"path": "/x", "token": "Canary"}, "username": "u",
	"password": "Canary", "prefix": {"secret": "Canary"}, "regions": {"secret": "Canary", "name": "eu"},
	"inspect": {"token": "Canary", "key": "Canary"}, "max_inflight": 9, "session": {"key": "x-user"}, "bytes_per_token": 3,
	"headers": {"Authorization": "Canary", "x-a": "Bearer Canary", "x-b": ["Basic Canary=="]},
	"unknown": {"clientSecret": {"value": "Canary"}, "apikey": 17, "a": "sk-Canary0123456789", "b": "x?token=Canary",
		"c": "https://me:Canary@host/path?key=Canary#Canary", "d": "postgres://u:Canary@[bad",
		"k": "see /a or postgres://u:Canary@h/b", "n": 1e400,
		"sk-Canary0123456789": 1, "e": "Canary0123456789abcdefgh", "f": "-----BEGIN RSA PRIVATE KEY----- Canary"},
	"loose": {"pwd": "Canary", "pass": "Canary", "passphrase": "Canary", "tokens": ["Canary"], "g": "//u:Canary@host/",
		"h": "u:Canary@host:1", "i": "10.0.0.1:8000", "j": "oci://registry:5000/x@sha256:12"}},
	"_rules_": [{"lb_config": {"password": "Canary", "session": {"key": "y-user"}}, "token": ["Canary"]}]}`

// filterOf returns a configuration as gateways show it.
func filterOf(configuration string) string {
	text, _ := json.Marshal(configuration)
	return fmt.Sprintf(`{"config": {"vm_config": {"code": "warmgate.wasm", "environment": "Canary"}, "configuration":
		{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": %s}}}`, text)
}

// serve answers pages, with those of other in place of theirs.
func serve(t *testing.T, other map[string]http.HandlerFunc) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	for path, text := range pages {
		handler := other[path]
		if handler == nil {
			handler = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
		}
		mux.HandleFunc(path, handler)
	}
	return mux
}

// take takes a snapshot of a gateway at a fixed time.
func take(t *testing.T, sources ...Source) (*Snapshot, string) {
	t.Helper()
	r := NewReader("v9", sources, nil)
	r.now = func() time.Time { return time.Unix(1, 0).UTC() }
	s := r.Take(t.Context())
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return s, string(text)
}

// TestTake reads a gateway over TCP and over a Unix socket, and shows none of its secrets.
func TestTake(t *testing.T) {
	token := ""
	server := httptest.NewServer(serve(t, map[string]http.HandlerFunc{
		"/inspect/state": func(w http.ResponseWriter, r *http.Request) {
			token = r.Header.Get("Authorization")
			fmt.Fprint(w, pages["/inspect/state"])
		},
	}))
	defer server.Close()
	socket := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(listener, serve(t, nil))
	defer listener.Close()

	_, text := take(t, Source{
		Name: "eu", Region: "europe", Admin: strings.Replace(server.URL, "//", "//me:Canary@", 1),
		Inspect: server.URL + "/inspect/", Token: canary,
	}, Source{Name: "other", Admin: "unix:" + socket, Inspect: server.URL + "/inspect", Token: canary})
	if token != "Bearer "+canary {
		t.Errorf("the API is asked with %q", token)
	}
	if strings.Contains(text, canary) {
		t.Error("a secret is shown")
	}
	golden.Compare(t, "testdata/snapshot.json", text+"\n")

	s, _ := take(t, Source{Name: "a", Admin: "unix:" + socket})
	again, _ := take(t, Source{Name: "a", Admin: "unix:" + socket})
	if !reflect.DeepEqual(s, again) || len(s.Gateways[0].Problems) > 0 {
		t.Errorf("not the same again: %+v", s.Gateways[0].Problems)
	}
}

// faults are what may be wrong with an answer to one page.
var faults = map[string]struct {
	page    string
	handler http.HandlerFunc
	problem string
}{
	"status": {"/clusters", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, canary, http.StatusForbidden)
	}, "clusters: status 403: the gateway does not show this page; admin.allow_paths says which it does"},
	"elsewhere": {"/stats", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/server_info", http.StatusFound)
	}, "statistics: status 302"},
	"no JSON": {"/stats", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>"+canary)
	}, "statistics: the answer is not the JSON that was expected"},
	"another type": {"/clusters", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"cluster_statuses": {"Canary": 1}}`)
	}, "clusters: the answer is not the JSON that was expected"},
	"deep": {"/config_dump", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Repeat("[", 20000))
	}, "configurations: the answer is not the JSON that was expected"},
	"no object": {"/config_dump", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "["+filterOf("Canary")+"]")
	}, "configurations: one of the plugin is not a JSON object"},
	"huge": {"/server_info", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			fmt.Fprint(w, strings.Repeat(" ", 1<<20))
		}
	}, "server: the answer has more than 1 MiB"},
	"slow": {"/inspect/state", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, "state: no answer within 2s"},
	"slow within": {"/clusters", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "{")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, "clusters: no answer within 2s"},
	"token": {"/inspect/state", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, canary, http.StatusUnauthorized)
	}, "state: status 401: it wants the token of lb_config.inspect.token (--token-file)"},
	"cut": {"/clusters", func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, "clusters: EOF"},
}

// TestProblems reads gateways of which some part cannot be read: the others are there all the same.
func TestProblems(t *testing.T) {
	for name, c := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(serve(t, map[string]http.HandlerFunc{c.page: c.handler}))
			defer server.Close()
			s, text := take(t, Source{Name: "a", Admin: server.URL, Inspect: server.URL + "/inspect"})
			g := &s.Gateways[0]
			if len(g.Problems) != 1 || g.Problems[0] != c.problem || strings.Contains(text, canary) {
				t.Errorf("%q in %s", g.Problems, text)
			}
			read := 0
			for _, there := range []bool{g.Server != nil, g.Clusters != nil, g.Statistics != nil, g.State != nil} {
				if there {
					read++
				}
			}
			if want := 3; read != want && c.page != "/config_dump" {
				t.Errorf("%d other parts are there", read)
			}
		})
	}
	s, _ := take(t, Source{Name: "a", Admin: "http://127.0.0.1:1"}, Source{Name: "b", Admin: "http://a b/Canary"})
	for _, g := range s.Gateways {
		if len(g.Problems) != 4 || strings.Contains(fmt.Sprint(g.Problems), canary) {
			t.Errorf("%s: %q", g.Name, g.Problems)
		}
	}
}

// TestFilter asks for the clusters that the plugin counts, once they are known.
func TestFilter(t *testing.T) {
	var asked []string
	server := httptest.NewServer(serve(t, map[string]http.HandlerFunc{
		"/stats": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"stats": [{"name": "cluster=.=b|1;.;warmgate_queue_length", "value": 0},
				{"name": "cluster=.=a;.;warmgate_queue_length", "value": 0}]}`)
		},
		"/clusters": func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Query().Get("filter"))
			fmt.Fprint(w, pages["/clusters"])
		},
	}))
	defer server.Close()
	r := NewReader("", []Source{{Name: "a", Admin: server.URL}}, nil)
	r.Watch(t.Context())
	r.Watch(t.Context())
	r.Take(t.Context())
	if want := []string{"", `^(a|b\|1)$`, ""}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %q", asked)
	}
}

// TestWatch asks for decisions since the state before, and for configurations once in a while, where the gateway has no
// statistics of the plugin.
func TestWatch(t *testing.T) {
	dumps, asked, stats := 0, []string{}, `{"stats": []}`
	server := httptest.NewServer(serve(t, map[string]http.HandlerFunc{
		"/config_dump": func(w http.ResponseWriter, _ *http.Request) {
			dumps++
			fmt.Fprint(w, pages["/config_dump"])
		},
		"/stats": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, stats) },
		"/inspect/state": func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.RawQuery)
			fmt.Fprint(w, pages["/inspect/state"])
		},
	}))
	defer server.Close()
	r := NewReader("", []Source{{Name: "a", Admin: server.URL, Inspect: server.URL + "/inspect"}}, nil)
	now := time.Unix(1, 0)
	r.now = func() time.Time { return now }
	for i := range 62 {
		s := r.Watch(t.Context())
		if g := &s.Gateways[0]; g.Configs != nil || i > 0 && g.Clusters[0].Policy != "least_request" {
			t.Fatalf("%+v", g)
		}
		now = now.Add(time.Second)
	}
	if dumps != 3 || asked[0] != "" || asked[1] != "since=5" {
		t.Errorf("%d dumps, %q", dumps, asked)
	}
	stats = pages["/stats"]
	r.Watch(t.Context())
	now = now.Add(time.Hour)
	if r.Watch(t.Context()); dumps != 3 {
		t.Errorf("%d dumps of a gateway with the plugin", dumps)
	}
	s := r.Take(t.Context())
	if len(s.Gateways[0].Configs) != 1 || dumps != 4 || asked[len(asked)-1] != "" {
		t.Errorf("%d dumps, %q", dumps, asked)
	}
}

// A gateway whose plugin does not answer would send each call, with its token, to a model server: so it gets few.
func TestWatchWithoutTheAPI(t *testing.T) {
	status, calls := http.StatusNotFound, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(status)
		fmt.Fprint(w, pages["/inspect/state"])
	}))
	defer server.Close()
	r := NewReader("", []Source{{Name: "a", Inspect: server.URL + "/inspect", Token: "t"}}, nil)
	now := time.Unix(1, 0)
	r.now = func() time.Time { return now }
	watch := func() *Gateway {
		now = now.Add(time.Second)
		return &r.Watch(t.Context()).Gateways[0]
	}
	for range 62 {
		if g := watch(); len(g.Problems) != 1 || !strings.Contains(g.Problems[0], "lb_config.inspect") {
			t.Fatalf("problems are %q", g.Problems)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls in a minute", calls)
	}
	if r.Take(t.Context()); calls != 4 {
		t.Error("a snapshot is taken without a call")
	}
	status, now = http.StatusOK, now.Add(refusedPeriod)
	for range 2 {
		if watch().State == nil {
			t.Error("the state is not shown once the plugin answers")
		}
	}
	status = http.StatusServiceUnavailable
	if watch(); watch().Problems == nil || calls != 8 {
		t.Errorf("%d calls: a gateway that is not ready is not asked again", calls)
	}
}
