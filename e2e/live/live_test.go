package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/snapshot"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

const (
	servers = 3
	token   = "a token of the test's own"
)

// stage is a gateway of two workers before simulated servers, and what they know.
type stage struct {
	gateway *harness.Gateway
	args    []string // that name the gateway to warmgate
	redis   []string // that name its Redis to a snapshot
	program string
	hold    chan struct{} // until it is closed, requests with x-hold are held
	release func()        // closes it

	mu             sync.Mutex
	served         map[string]int64 // requests, by server
	held           map[string]int64
	prompt, cached float64 // tokens, by the answers
}

// start starts a gateway, with the plugin's API, Redis and rules for tags or without all of them.
func start(t *testing.T, whole bool) *stage {
	s := &stage{hold: make(chan struct{}), served: map[string]int64{}, held: map[string]int64{}}
	o := harness.Options{}
	for i := range servers {
		var addr string
		endpoint := harness.ServeT(t, s.server(&addr, vllmsimtest.StartT(t, vllmsim.Config{Index: i})))
		addr = endpoint.Addr
		o.Endpoints = append(o.Endpoints, endpoint)
	}
	s.release = sync.OnceFunc(func() { close(s.hold) })
	t.Cleanup(s.release) // before the servers are closed, which waits for it
	more := ""
	if whole {
		redis := redisserver.StartT(t, redisserver.Options{})
		o.Redis = redis.Addr()
		more = `,"redis_cluster":"warmgate-redis"},"inspect":{"path":"/warmgate/inspect","token":"` + token + `"`
		s.redis = []string{"--redis", "redis://" + redis.Addr()}
	} else {
		o.Edit = harness.OfFile("envoy.yaml", func(doc *yaml.Node) error { return harness.Remove(doc, "stats_config") })
	}
	o.Config = `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":4,"queue":{"max_wait":"20s"},` +
		`"reserve_timeout":"10s","health":{"slow_start":0},"metrics":{"interval":"200ms"},"envoy":{` +
		`"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics","poll_interval":"100ms"` + more + `}}}`
	s.gateway = harness.StartT(t, o)
	s.args = append(s.args, filepath.Join(s.gateway.Dir(), "admin.sock"))
	if whole {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = append(s.args, "--inspect", s.gateway.URL(), "--token-file", file)
	}
	s.program = harness.ProgramT(t, t.TempDir())
	return s
}

// server counts what comes to a simulated server, and holds it if that is asked for.
func (s *stage) server(addr *string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.mu.Lock()
			s.served[*addr]++
			if r.Header.Get("x-hold") != "" {
				s.held[*addr]++
			}
			s.mu.Unlock()
		}
		if r.Header.Get("x-hold") != "" {
			<-s.hold
		}
		next.ServeHTTP(w, r)
	})
}

// say sends a conversation's turn.
func (s *stage) say(t *testing.T, number int, headers ...string) {
	body := fmt.Sprintf(`{"model":"m","max_tokens":4,"stream":true,"stream_options":{"include_usage":true},`+
		`"messages":[{"role":"user","content":"%d %s"}]}`, number%4, strings.Repeat("A sentence that all have. ", 60))
	headers = append(headers, "content-type: application/json")
	answer := harness.Send(t, nil, http.MethodPost, s.gateway.URL()+"/v1/chat/completions", body, headers...)
	if answer.Status != http.StatusOK {
		t.Errorf("status %d", answer.Status)
	}
	_, last, _ := strings.Cut(answer.Body, `"usage":{`)
	var usage struct {
		Prompt  float64 `json:"prompt_tokens"`
		Details struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	if err := json.NewDecoder(strings.NewReader("{" + last)).Decode(&usage); err != nil {
		t.Errorf("%v\n%s", err, answer.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompt += usage.Prompt
	s.cached += usage.Details.Cached
}

// ask runs warmgate, and reads what it prints.
func (s *stage) ask(t *testing.T, into any, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.program, append(args, s.args...)...)
	out, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		errors.As(err, &failed)
		t.Fatalf("%v: %v\n%s%s", args, err, out, failed.Stderr)
	}
	if strings.Contains(string(out), token) {
		t.Errorf("%v prints a secret", args)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestWithAPIAndRedis(t *testing.T) { shown(t, start(t, true), true) }

func TestWithStatisticsAlone(t *testing.T) { shown(t, start(t, false), false) }

// shown compares what is shown with what the servers know: first of an idle gateway, then with requests held.
func shown(t *testing.T, s *stage, whole bool) {
	const requests, held = 24, 5
	for i := range requests {
		s.say(t, i)
	}
	s.gateway.DrainedT(t)
	var idle snapshot.Snapshot
	s.ask(t, &idle, append(s.redis, "snapshot")...)
	s.check(t, &idle, requests, map[string]int64{}, whole)

	var all sync.WaitGroup
	for i := range held {
		all.Add(1)
		go func() {
			defer all.Done()
			s.say(t, i, "x-hold: yes")
		}()
	}
	harness.Await(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := sum(s.held); n != held {
			return fmt.Errorf("%d requests are held", n)
		}
		return nil
	})
	var frame live.Frame
	harness.Await(t, func() error { // gauges follow within a second
		s.ask(t, &frame, "top", "--once", "-o", "json")
		if got := inFlight(&frame); !maps.Equal(got, s.held) {
			return fmt.Errorf("shown is %v, held are %v", got, s.held)
		}
		return nil
	})
	c := frame.Gateways[0].Clusters[0]
	if c.Name != "llm" || c.Policy != "prefix_cache" || c.Unit != "tokens" || len(c.Endpoints) != servers {
		t.Errorf("%+v", c)
	}
	if whole != (c.Endpoints[0].Cap == 4) || whole != (c.Endpoints[0].Running != nil) {
		t.Errorf("%+v", c.Endpoints[0])
	}
	var busy snapshot.Snapshot
	s.ask(t, &busy, append(s.redis, "snapshot")...)
	s.check(t, &busy, requests+held, s.held, whole)
	s.release()
	all.Wait()
	if whole {
		s.checkEnded(t, held)
	}
}

// checkEnded waits until the decisions for the latest requests show what became of them.
func (s *stage) checkEnded(t *testing.T, want int) {
	t.Helper()
	harness.Await(t, func() error {
		var frame live.Frame
		s.ask(t, &frame, "top", "--once", "-o", "json")
		ended := map[string]bool{}
		for _, d := range frame.Gateways[0].Decisions {
			if d.Ended && d.Result == "served" && d.TTFTMS > 0 && d.TookMS >= d.TTFTMS && d.Used != nil &&
				d.Used.Prompt > 0 && s.held[d.Endpoint] > 0 {
				ended[d.ID] = true
			}
		}
		if len(ended) != want {
			return fmt.Errorf("%d requests have ended, of %d", len(ended), want)
		}
		return nil
	})
}

// check compares a snapshot with what the servers know.
func (s *stage) check(t *testing.T, got *snapshot.Snapshot, decided float64, held map[string]int64, whole bool) {
	t.Helper()
	g := &got.Gateways[0]
	if g.Server.State != "LIVE" || g.Server.Workers != 2 || len(g.Configs) != 1 {
		t.Errorf("%+v, configurations %s", g.Server, g.Configs)
	}
	for _, c := range g.Clusters {
		for _, h := range c.Hosts {
			if c.Name == "llm" && (h.Total != s.served[h.Addr] || h.Active != held[h.Addr]) {
				t.Errorf("%+v, but the server had %d and holds %d", h, s.served[h.Addr], held[h.Addr])
			}
		}
	}
	isChosen := func(labels map[string]string) bool { return labels["reason"] == "chosen" }
	if chosen := total(g, "warmgate_decisions_total", isChosen); chosen != decided {
		t.Errorf("%g requests are chosen, want %g", chosen, decided)
	}
	for name, want := range map[string]float64{
		"warmgate_prompt_tokens_total": s.prompt, "warmgate_cached_tokens_total": s.cached,
	} {
		counted := total(g, name, func(map[string]string) bool { return true })
		if counted != want || want == 0 {
			t.Errorf("%s is %g, answers have %g", name, counted, want)
		}
	}
	if !whole {
		if g.State != nil || got.Redis != nil {
			t.Error("there is more than was asked for")
		}
		return
	}
	loads := map[string]int64{}
	for _, e := range g.State.Clusters[0].Endpoints {
		if e.Requests > 0 {
			loads[e.Addr] = e.Requests
		}
	}
	if !maps.Equal(loads, held) {
		t.Errorf("the plugin shows %v, held are %v", loads, held)
	}
	if len(got.Redis.Scopes) != 1 || got.Redis.Version == "" || len(got.Redis.Problems) > 0 {
		t.Fatalf("%+v", got.Redis)
	}
	scope := &got.Redis.Scopes[0]
	clear(loads)
	for _, e := range scope.Endpoints {
		if e.Requests > 0 {
			loads[e.Addr] = e.Requests
		}
	}
	if !maps.Equal(loads, held) || scope.Name != "llm" || scope.Owners == 0 || scope.Pages == 0 || scope.Waiting != 0 {
		t.Errorf("in Redis is %+v, held are %v", scope, held)
	}
}

// total returns the sum of a statistic over all series for whose labels is holds.
func total(g *snapshot.Gateway, name string, is func(labels map[string]string) bool) (sum float64) {
	for _, stat := range g.Statistics {
		if stat.Name == name && is(stat.Labels) {
			sum += stat.Value
		}
	}
	return sum
}

// inFlight returns the requests at each endpoint that has some.
func inFlight(f *live.Frame) map[string]int64 {
	out := map[string]int64{}
	for _, g := range f.Gateways {
		for _, c := range g.Clusters {
			for _, e := range c.Endpoints {
				if e.Requests > 0 {
					out[e.Addr] += e.Requests
				}
			}
		}
	}
	return out
}

func sum(of map[string]int64) (n int64) {
	for _, v := range of {
		n += v
	}
	return n
}
