// Package explain compares what warmgate explain says of requests with what a real Envoy does with them.
package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/snapshot"
	"github.com/warmgate/warmgate/internal/state"
)

const (
	servers = 3
	token   = "a token of the test's own"
)

// stage is a gateway of one worker before servers that hold requests with x-hold.
type stage struct {
	t       *testing.T
	gateway *harness.Gateway
	program string
	dir     string // of the program's files
}

func start(t *testing.T, config string) *stage {
	s := &stage{t: t, dir: t.TempDir()}
	o := harness.Options{Workers: 1, Config: config}
	hold := make(chan struct{})
	for range servers {
		server := func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("x-hold") != "" {
				<-hold
			}
			fmt.Fprint(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`)
		}
		o.Endpoints = append(o.Endpoints, harness.ServeT(t, http.HandlerFunc(server)))
	}
	t.Cleanup(sync.OnceFunc(func() { close(hold) }))
	s.gateway = harness.StartT(t, o)
	s.program = harness.ProgramT(t, s.dir)
	s.write("token", token)
	harness.Await(t, func() error {
		if r := harness.Send(t, nil, http.MethodGet, s.gateway.URL()+"/v1/models", "").Reason(); r != "chosen" {
			return fmt.Errorf("the reason is %s", r)
		}
		return nil
	})
	return s
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// explain runs warmgate explain, and returns the only decision.
func (s *stage) explain(body string, args ...string) state.Decision {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), s.program, append([]string{"explain", "-o", "json"}, args...)...)
	command.Dir, command.Stdin = s.dir, strings.NewReader(body)
	out, err := command.Output()
	var e state.Explanation
	if err != nil || json.Unmarshal(out, &e) != nil || len(e.Decisions) != 1 {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return e.Decisions[0]
}

// snapshot writes what the gateway knows.
func (s *stage) snapshot() {
	s.t.Helper()
	known := new(state.State)
	a := harness.Send(s.t, nil, http.MethodGet, s.gateway.URL()+"/warmgate/inspect/state", "",
		"authorization: Bearer "+token)
	if err := json.Unmarshal([]byte(a.Body), known); err != nil {
		s.t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	text, err := json.Marshal(snapshot.Snapshot{
		Format: snapshot.Format, Gateways: []snapshot.Gateway{{Name: "one", State: known}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("gateway.json", string(text))
}

// hold has so many requests held at servers.
func (s *stage) hold(n int) {
	for i := range n {
		go func() {
			body := fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("held ", 100*(i+1)))
			r, err := http.NewRequest(http.MethodPost, s.gateway.URL()+"/v1/completions", strings.NewReader(body))
			if err != nil {
				return
			}
			r.Header.Set("x-hold", "1")
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
	}
	harness.Await(s.t, func() error {
		if got := s.gateway.SumT(s.t, `^cluster\.llm\.upstream_rq_active$`); got != float64(n) {
			return fmt.Errorf("%v requests are held", got)
		}
		return nil
	})
}

// compare fails the test unless two decisions are the same. What endpoints have of prompts is in no snapshot.
func (s *stage) compare(what string, live, known state.Decision) {
	s.t.Helper()
	costs := func(d *state.Decision) map[string][3]float64 {
		by := map[string][3]float64{}
		for _, c := range d.Candidates {
			by[c.Addr] = [3]float64{c.Base, c.Load, c.Over}
		}
		return by
	}
	if !maps.Equal(costs(&live), costs(&known)) || len(live.Candidates) != servers {
		s.t.Errorf("%s: the gateway knows\n%+v\nthe program\n%+v", what, live, known)
	}
	matched := slices.ContainsFunc(live.Candidates, func(c state.Candidate) bool { return c.Matched > 0 })
	if !matched && live.Rule != "tie" && live.Endpoint != known.Endpoint {
		s.t.Errorf("%s: the gateway chooses %s, the program %s", what, live.Endpoint, known.Endpoint)
	}
}

// configs are policies and their keys. The first one comes while nothing is learned.
var configs = [][2]string{
	{"prefix_cache", ""}, {"global_least_request", ""}, {"consistent_hash", `"session":{"key":["body:user"]},`},
}

// TestExplained asks of each request before where it would go: the running gateway, and the program itself by a
// snapshot. It goes there, and both know the same costs unless the gateway has learned what a request costs.
func TestExplained(t *testing.T) {
	s := start(t, config(configs[0]))
	s.hold(5)
	for _, c := range configs {
		if err := s.gateway.PushPlugin(t.Context(), config(c)); err != nil {
			t.Fatal(err)
		}
		s.write("warmgate.json", config(c))
		certain, compared := 0, 0
		for i := range 12 {
			body := fmt.Sprintf(`{"model":"m","user":"u%d","messages":[{"role":"user","content":%q}]}`, i%4,
				strings.Repeat(fmt.Sprintf("prompt %d ", i%5), 200+100*i))
			what := fmt.Sprintf("%s, request %d", c[0], i)
			live := s.explain(body, "--live", s.gateway.URL(), "--token-file", "token")
			s.snapshot()
			known := s.explain(body, "-c", "warmgate.json", "--state", "gateway.json")
			if live.Plan.PerRequest == known.Plan.PerRequest {
				compared++
				s.compare(what, live, known)
			}
			a := harness.Send(t, nil, http.MethodPost, s.gateway.URL()+"/v1/chat/completions", body)
			if live.Rule != "tie" && a.Host() != live.Endpoint || a.Reason() != live.Reason || live.Policy != c[0] {
				t.Errorf("%s: went to %s by %s, explained with %+v", what, a.Host(), a.Reason(), live)
			}
			if live.Rule != "tie" {
				certain++
			}
		}
		if certain == 0 || compared == 0 {
			t.Errorf("%s: %d requests were not drawn, of %d the costs were compared", c[0], certain, compared)
		}
	}
}

// config returns the plugin's configuration with a policy and its keys.
func config(policy [2]string) string {
	return fmt.Sprintf(`{"lb_policy":%q,"lb_config":{%s"debug_headers":true,"health":{"slow_start":0},`+
		`"inspect":{"path":"/warmgate/inspect","token":%q},`+
		`"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}}}`, policy[0], policy[1], token)
}
