package shipped

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	overloadFile = "warmgate-overload.yaml"
	higressQueue = "higress-wasmplugin-overload.yaml"

	// firstLimit is how many requests a server gets of which nothing is known yet, with push: pending.
	firstLimit = 16
)

// TestOverloadConfiguration compares warmgate-overload.yaml with warmgate.yaml, and with what both layouts have for it.
func TestOverloadConfiguration(t *testing.T) {
	c := samePlugin(t, overloadFile)
	if !c.Queue.Enabled() || c.Push != push.Pending || !c.Scrapes(config.Envoy) {
		t.Errorf("no request waits, or no metrics are read: %+v", c)
	}
	for _, file := range []string{"envoy.yaml", "envoy-hardened.yaml"} {
		doc := parse(t, "envoy-config/"+file)
		idle := find[string](t, doc, harness.ManagerPath+".stream_idle_timeout")
		if want := "600s"; idle != want || c.Queue.MaxWait.Seconds() > 300 {
			t.Errorf("%s: stream_idle_timeout %s, want %s, far above max_wait %v", file, idle, want, c.Queue.MaxWait)
		}
		if file == "envoy.yaml" {
			continue
		}
		removed := find[[]map[string]string](t, doc, harness.ManagerPath+
			".early_header_mutation_extensions[0].typed_config.mutations")
		for _, name := range []string{c.Queue.ClassHeader, c.Queue.TenantHeader} {
			if !strings.Contains(strings.Join(values(removed), " "), name) {
				t.Errorf("%s does not remove %s from what clients send", file, name)
			}
		}
	}
}

func values(maps []map[string]string) (all []string) {
	for _, m := range maps {
		for _, v := range m {
			all = append(all, v)
		}
	}
	return all
}

// TestOverloadRules checks that the second rule of the resource for Higress differs from the first as its comment says.
func TestOverloadRules(t *testing.T) {
	_, set := wasmPlugin(t, higressQueue)
	first, batch := chat(t, set), set.Match("batch", "", "")
	if batch == nil || first.Queue.Class("").Name != "interactive" || batch.Queue.Class("").Name != "batch" {
		t.Fatalf("%+v\n%+v", first, batch)
	}
	a, b := first.Queue, batch.Queue
	a.DefaultClass, a.MaxWait = b.DefaultClass, b.MaxWait
	if !reflect.DeepEqual(a, b) || first.Push != batch.Push || first.MaxInflight != batch.MaxInflight {
		t.Errorf("the rest of the rule differs:\n%+v\n%+v", a, b)
	}
}

// slowServer is a model server without metrics that answers a request for /held when it is told to, others at once.
type slowServer struct {
	harness.Endpoint
	release chan struct{} // one value for each answer
	arrived atomic.Int64  // requests for /held
}

func startSlow(t *testing.T) *slowServer {
	t.Helper()
	s := &slowServer{release: make(chan struct{})}
	over := make(chan struct{})
	s.Endpoint = harness.ServeT(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			s.arrived.Add(1)
			select {
			case <-s.release:
			case <-over:
			}
		}
	}))
	t.Cleanup(func() { close(over) })
	return s
}

// post sends a request that the server holds, and returns a channel with what is wrong with its answer.
func post(t *testing.T, g *harness.Gateway, headers http.Header) <-chan error {
	t.Helper()
	body := strings.NewReader(`{"prompt":"x"}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/held", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = headers
	done := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		if resp != nil {
			resp.Body.Close()
		}
		done <- err
	}()
	return done
}

// withTrustedFilter puts the filter of docs/overload.md that sets the class of a request in front of all others.
func withTrustedFilter(t *testing.T) func(file string, doc *yaml.Node) error {
	t.Helper()
	text := harness.ReadT(t, "docs/overload.md")
	block := regexp.MustCompile("(?s)```yaml\n(- name: class\n.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/overload.md has no filter that sets the class")
	}
	return harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
		return harness.Insert(doc, harness.ManagerPath+".http_filters", "", 0, string(block[1]))
	})
}

// withKeysOfRedis adds what counting in Redis needs to a configuration that scrapes engines. Requests wait long for
// Redis: on a busy machine some would be counted by the gateway, which does not know of those that Redis is about to
// count.
func withKeysOfRedis(text string) string {
	const cluster = `"metrics_cluster": "warmgate-metrics"`
	return strings.Replace(text, cluster+"},", cluster+`, "redis_cluster": "warmgate-redis"},
		"username": "warmgate", "password": "`+harness.OwnSecret+`", "reserve_timeout": "10s",`, 1)
}

// TestOverloadAsShipped starts both layouts with the shipped plugin configuration for overload. A request for which the
// server has no room waits until another one has ended, also where requests wait in Redis. A client chooses its class
// in the plain layout, and not in the hardened one, nor where the filter of docs/overload.md sets it.
func TestOverloadAsShipped(t *testing.T) {
	text := find[string](t, parse(t, "envoy-config/"+overloadFile), pluginPath+".configuration.value")
	redis := withUsers(t, redisserver.Versions()[0])
	for name, c := range map[string]struct {
		o        harness.Options
		first    string // the class of requests that claim to be interactive
		withAKey string // and of those that do with the key of a service
	}{
		"plain":          {harness.Options{}, "interactive", "interactive"},
		"hardened":       {harness.Options{Hardened: true}, "batch", "batch"},
		"trusted filter": {harness.Options{Edit: withTrustedFilter(t)}, "batch", "interactive"},
		"the same, oldest": {
			harness.Options{Edit: withTrustedFilter(t), Version: harness.OldestVersion}, "batch", "interactive",
		},
		"with Redis": {
			harness.Options{Redis: redis.Addr(), Config: withKeysOfRedis(text)}, "interactive", "interactive",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "the same, oldest" {
				harness.LongT(t)
			}
			s := startSlow(t)
			c.o.Config, c.o.Endpoints = cmp.Or(c.o.Config, text), []harness.Endpoint{s.Endpoint}
			g := harness.StartT(t, c.o)
			page := func() string { return g.PrometheusT(t) }
			await(t, "the access log", regexp.MustCompile(`reason=chosen load=1 class=batch wait=0ms policy=`),
				func() string { send(t, g); return g.AccessLog() })
			claim := http.Header{"X-Warmgate-Class": {"interactive"}}
			var done []<-chan error
			for range firstLimit {
				done = append(done, post(t, g, claim))
			}
			arrive(t, s, firstLimit)
			claim = claim.Clone()
			claim.Set("x-api-key", "key-of-the-chat")
			done = append(done, post(t, g, claim))
			await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_queue_length\{cluster="llm",class="`+
				c.withAKey+`"\} 1$`), page)
			arrive(t, s, firstLimit)
			s.release <- struct{}{}
			arrive(t, s, firstLimit+1)
			close(s.release)
			if c.o.Redis != "" {
				await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_redis_up\{\} 1$`), page)
				if denied := regexp.MustCompile(`cause="(denied|auth|error)"`).FindString(page()); denied != "" {
					t.Errorf("the shipped user is not enough: %s", denied)
				}
			}
			for i := range done {
				if err := <-done[i]; err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			for _, end := range []string{c.first + ` wait=0ms policy=`, c.withAKey + ` wait=[1-9]\d*ms policy=`} {
				await(t, "the access log", regexp.MustCompile(` /held 200 .* class=`+end), g.AccessLog)
			}
		})
	}
}

// TestTimeoutsOfWaitingRequests checks which time limits of the gateway run while a request waits, as docs/overload.md
// has them: the route's timeout does not, the idle timeout does.
func TestTimeoutsOfWaitingRequests(t *testing.T) {
	harness.LongT(t)
	const routes = `[
		{match: {path: /quick}, name: quick, route: {cluster: llm, timeout: 0.5s}},
		{match: {path: /idle}, name: idle, route: {cluster: llm, timeout: 600s, idle_timeout: 0.5s}}]`
	s := startSlow(t)
	g := harness.StartT(t, harness.Options{
		Endpoints: []harness.Endpoint{s.Endpoint},
		Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
			return harness.Insert(doc, harness.RoutesPath, "llm", 0, routes)
		}),
		Config: `{"lb_policy":"global_least_request","lb_config":{"push":"outstanding","max_inflight":1,` +
			`"queue":{"max_wait":"60s"},"debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"}}}`,
	})
	harness.AwaitReason(t, g.URL(), "chosen")
	first := post(t, g, http.Header{})
	arrive(t, s, 1)
	if a := harness.Send(t, nil, http.MethodPost, g.URL()+"/idle", "{}"); a.Status != http.StatusGatewayTimeout ||
		a.Reason() != "left_queue" {
		t.Errorf("idle: answered %d, reason %s", a.Status, a.Reason())
	}
	awaitWaiting := func(n string) {
		await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_queue_length\{.*\} `+n+`$`),
			func() string { return g.PrometheusT(t) })
	}
	awaitWaiting("0")
	answers := make(chan *harness.Answer, 1)
	go func() {
		defer close(answers)
		answers <- harness.Send(t, nil, http.MethodPost, g.URL()+"/quick", "{}")
	}()
	awaitWaiting("1")
	time.Sleep(time.Second) // twice its route's timeout
	s.release <- struct{}{}
	a := <-answers
	if a == nil {
		t.FailNow()
	}
	waited, err := strconv.Atoi(a.Header.Get("x-warmgate-wait-ms"))
	if a.Status != http.StatusOK || err != nil || waited < 900 {
		t.Errorf("the route's timeout: answered %d after a wait of %d ms: %v", a.Status, waited, err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestRetriesAreRecognized sends one request again and again to a cluster whose queue is full. The plugin knows it by
// its id, if the gateway is told to leave that alone, as docs/overload.md describes.
func TestRetriesAreRecognized(t *testing.T) {
	harness.LongT(t)
	for preserve, want := range map[bool]string{true: "retry_budget_exceeded", false: "max_queue_size_exceeded"} {
		t.Run(want, func(t *testing.T) {
			s := startSlow(t)
			g := harness.StartT(t, harness.Options{
				Workers: 1, Endpoints: []harness.Endpoint{s.Endpoint},
				Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
					return harness.Set(doc, harness.ManagerPath+".preserve_external_request_id", preserve)
				}),
				Config: `{"lb_policy":"global_least_request","lb_config":{"push":"outstanding","max_inflight":1,` +
					`"queue":{"max_wait":"60s","max_length":1},"debug_headers":true,` +
					`"envoy":{"admin_cluster":"warmgate-admin"}}}`,
			})
			harness.AwaitReason(t, g.URL(), "chosen")
			waiting := []<-chan error{post(t, g, http.Header{})}
			arrive(t, s, 1)
			waiting = append(waiting, post(t, g, http.Header{}))
			harness.Await(t, func() error {
				if n := g.SumT(t, `^wasmcustom\.warmgate_queue_length;`); n != 1 {
					return fmt.Errorf("%v requests wait, want 1", n)
				}
				return nil
			})
			reason := ""
			for range 6 {
				reason = harness.Send(t, nil, http.MethodPost, g.URL()+"/held", "{}",
					"x-request-id: 11111111-1111-4111-8111-111111111111").Reason()
			}
			if reason != want {
				t.Errorf("refused as %s, want %s", reason, want)
			}
			close(s.release)
			for _, done := range waiting {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// arrive waits until so many requests have come to the server.
func arrive(t *testing.T, s *slowServer, n int64) {
	t.Helper()
	harness.Await(t, func() error {
		if got := s.arrived.Load(); got != n {
			return fmt.Errorf("%d requests have come to the server, want %d", got, n)
		}
		return nil
	})
}

// TestOverloadInHigress runs the shipped WasmPlugin in the test host of Higress: a request for which the server has no
// room waits until another one has ended, and is refused when it has waited for max_wait.
func TestOverloadInHigress(t *testing.T) {
	resource, _ := wasmPlugin(t, higressQueue)
	text, err := resource.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	const cluster = "outbound|8000||vllm.default.svc.cluster.local"
	gw := higresshost.Start(t, higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostHigress), Config: string(text), Route: chatRoute, Cluster: cluster,
	})
	server := gw.Cluster(cluster).Add("10.0.0.1:8000")
	send := func(worker int) *higresshost.Stream {
		return gw.Worker(worker).Request(http.MethodPost, "/v1/completions", `{"prompt":"x"}`)
	}
	var busy []*higresshost.Stream
	for range firstLimit {
		busy = append(busy, send(0))
	}
	first := send(0)
	gw.Advance(10 * time.Millisecond)
	second := send(0)
	gw.Advance(time.Second)
	if first.OnUpstream || second.OnUpstream {
		t.Fatal("a request does not wait")
	}
	busy[0].Respond(http.StatusOK, "{}")
	if first.Upstream() != server.Addr || second.OnUpstream {
		t.Errorf("what was freed went to %q and %q", first.Upstream(), second.Upstream())
	}
	gw.Advance(20 * time.Second)
	if got := second.Received; second.Code != http.StatusTooManyRequests ||
		!strings.Contains(string(got.Body), "queue_timeout") {
		t.Errorf("after max_wait: %d %s", second.Code, got.Body)
	}
}
