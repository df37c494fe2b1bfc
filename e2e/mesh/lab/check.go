package lab

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Gateway is a gateway in front of three servers, with the plugin's configuration as shipped, policy
// global_least_request, but for Check with unit tokens, or ByRequests. Scraped and Shared need another one.
type Gateway struct {
	*Envoy
	URL     string // without a slash at the end
	Host    string // of the requests, "" for that of URL
	Servers []*Server
	// Hides reports whether the headers by which the plugin steers are removed before model servers see them.
	Hides bool
	// ByRequests is for the unit requests: a long prompt counts no more than a short one.
	ByRequests bool
	// Behind begins the addresses of the servers as the gateway has them, "" for ip:port alone.
	Behind string

	settle func() // nil, or waits until what has ended is no longer counted
}

// A long prompt is above the limits that gateways have unless set: 32 KiB, and 1 MiB.
var (
	shortPrompt = prompt("Hello")
	longPrompt  = prompt(strings.Repeat("Hello ", 300<<10))
)

func prompt(text string) string {
	return `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"` + text + `"}]}`
}

// The headers by which the plugin steers.
const (
	destination = "x-gateway-destination-endpoint"
	session     = "x-warmgate-session"
)

// Check sends traffic to the gateway.
func (g *Gateway) Check(t *testing.T) {
	g.AwaitChosen(t)
	t.Run("balanced", g.balanced)
	first, heavy := g.load(t)
	t.Run("steered", func(t *testing.T) { g.steered(t, first, heavy) })
	t.Run("retried", func(t *testing.T) { g.retried(t, first) })
	t.Run("counted", g.counted)
}

// send sends a request that must be answered 200, and returns the answer.
func (g *Gateway) send(t *testing.T, body string, headers ...string) *harness.Answer {
	t.Helper()
	a := harness.Send(t, nil, http.MethodPost, g.URL+"/v1/chat/completions", body, g.with(headers)...)
	if a.Status != http.StatusOK {
		t.Errorf("answered %d: %s", a.Status, a.Body)
	}
	if a.Header.Get(session) != "" {
		t.Errorf("the client sees %s", session)
	}
	return a
}

// Native checks that a request is answered without the plugin.
func (g *Gateway) Native(t *testing.T) {
	t.Helper()
	a := harness.Send(t, nil, http.MethodGet, g.URL+"/v1/models", "", g.with(nil)...)
	if a.Status != http.StatusOK {
		t.Errorf("answered %d: %s", a.Status, a.Body)
	}
	if n := g.Sum(t, `^wasmcustom\.`); n != 0 {
		t.Error("the plugin runs")
	}
}

// with adds the host to the headers of a request.
func (g *Gateway) with(headers []string) []string {
	if g.Host == "" {
		return headers
	}
	return append([]string{"host: " + g.Host}, headers...)
}

// chosen returns how many requests the plugin has placed.
func (g *Gateway) chosen(t testing.TB) float64 {
	return g.Sum(t, `^wasmcustom\.warmgate_decisions_total.*chosen`)
}

// AwaitChosen sends requests until the plugin places ten in a row, so that both workers do.
func (g *Gateway) AwaitChosen(t *testing.T) {
	t.Helper()
	const requests = 10
	harness.Await(t, func() error {
		before := g.chosen(t)
		for range requests {
			a := harness.Send(t, nil, http.MethodPost, g.URL+"/v1/chat/completions", shortPrompt, g.with(nil)...)
			if a.Status != http.StatusOK {
				time.Sleep(100 * time.Millisecond)
				return fmt.Errorf("answered %d: %s", a.Status, a.Body)
			}
		}
		if n := g.chosen(t) - before; n != requests {
			return fmt.Errorf("%v of %d requests were placed by the plugin:\n%s", n, requests,
				own(g.Page(t, "/stats/prometheus")))
		}
		return nil
	})
}

// Placed sends requests, of which the plugin places each.
func (g *Gateway) Placed(t *testing.T, requests int) {
	t.Helper()
	before := g.chosen(t)
	for range requests {
		g.send(t, shortPrompt)
	}
	if n := int(g.chosen(t) - before); n != requests {
		t.Errorf("%d decisions for %d requests", n, requests)
	}
}

// hold sends a request that is answered when its server is told to, and returns the server that has it.
func (g *Gateway) hold(t *testing.T, body string) *Server {
	t.Helper()
	before := make([]int, len(g.Servers))
	for i, s := range g.Servers {
		before[i] = s.Held()
	}
	r, err := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Close = g.Host, true
	r.Header.Set("x-hold", "yes")
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Errorf("a request that was held: %v", err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a request that was held was answered %d", resp.StatusCode)
		}
	}()
	var at *Server
	harness.Await(t, func() error {
		for i, s := range g.Servers {
			if s.Held() > before[i] {
				at = s
				return nil
			}
		}
		return fmt.Errorf("a request with %d bytes reaches no server", len(body))
	})
	return at
}

// release answers what is held everywhere, and waits until the plugin counts nothing.
func (g *Gateway) release(t *testing.T) {
	t.Helper()
	for _, s := range g.Servers {
		s.Release(-1)
	}
	harness.Await(t, func() error {
		if n := g.Sum(t, `^wasmcustom\.warmgate_inflight_`); n != 0 {
			return fmt.Errorf("%v in flight after the last answer", n)
		}
		return nil
	})
}

// balanced holds requests: they are spread evenly, over all workers, and connections.
func (g *Gateway) balanced(t *testing.T) {
	const each = 3
	for range each * len(g.Servers) {
		g.hold(t, shortPrompt)
	}
	for _, s := range g.Servers {
		if n := s.Held(); n != each {
			t.Errorf("%d requests at a server, want %d", n, each)
		}
	}
	g.release(t)
}

// load holds requests so that the plugin's choice differs from one by the number of requests: at one server is a long
// prompt, at another a short one, and at the third two short ones. It returns the second and the first of these. With
// ByRequests the long one has one beside it.
func (g *Gateway) load(t *testing.T) (light, heavy *Server) {
	t.Helper()
	heavy = g.hold(t, longPrompt)
	more := 3
	if g.ByRequests {
		more = 4
	}
	for range more {
		if at := g.hold(t, shortPrompt); at == heavy && !g.ByRequests {
			t.Fatal("a short prompt goes where the long one is")
		}
	}
	for _, s := range g.Servers {
		switch {
		case s.Held() == 1 && (s != heavy || g.ByRequests):
			light = s
		case s.Held() == 2 && g.ByRequests:
			heavy = s
		}
	}
	if light == nil {
		t.Fatal("short prompts are not spread evenly")
	}
	return light, heavy
}

// steered sends requests to the server with the lowest load, also those of clients that would steer themselves.
func (g *Gateway) steered(t *testing.T, first, other *Server) {
	for _, headers := range [][]string{
		nil,
		{destination + ": " + g.Behind + other.Addr()},
		{session + ": " + base64.StdEncoding.EncodeToString([]byte(g.Behind+other.Addr()))},
		{"x-envoy-original-dst-host: " + other.Addr()},
	} {
		for range 4 {
			if g.settle != nil {
				g.settle()
			}
			if at := g.send(t, shortPrompt, headers...).Header.Get("x-served-by"); at != first.Addr() {
				t.Errorf("%q: served by %s, want %s", headers, at, first.Addr())
			}
		}
	}
	if !g.Hides {
		return
	}
	for _, header := range slices.Concat(first.Seen(), other.Seen()) {
		for _, name := range []string{destination, session} {
			if v := header.Get(name); v != "" {
				t.Errorf("a model server sees %s: %s", name, v)
			}
		}
	}
}

// retried has the chosen server fail: the request is answered by the next one in the plugin's list, and counted there.
// From its first failure on, a worker may take the server for a worse one and choose another.
func (g *Gateway) retried(t *testing.T, first *Server) {
	moves := g.Sum(t, `^wasmcustom\.warmgate_lease_moves_total$`)
	tried := len(first.Seen())
	for range 4 {
		at := g.send(t, shortPrompt, "x-fail: "+first.Addr()).Header.Get("x-served-by")
		seen := first.Seen()[tried:]
		if tried += len(seen); len(seen) == 0 {
			continue
		}
		moves++
		next, _, _ := strings.Cut(seen[len(seen)-1].Get(destination), ",")
		if len(seen) > 1 || at == first.Addr() || at != next && !g.Hides {
			t.Errorf("%d attempts at the server that fails, served by %s, want %s", len(seen), at, next)
		}
	}
	if n := g.Sum(t, `^wasmcustom\.warmgate_lease_moves_total$`); n != moves || n == 0 {
		t.Errorf("%v leases moved, want %v", n, moves)
	}
}

// counted looks where an operator looks: labels are there, each request is counted once, and in the end nothing is in
// flight.
func (g *Gateway) counted(t *testing.T) {
	g.release(t)
	g.Placed(t, 4)
	g.AwaitPrometheus(t, `warmgate_decisions_total\{policy="global_least_request",reason="chosen"\} \d+`)
	for _, s := range g.Servers {
		g.AwaitPrometheus(t, fmt.Sprintf(`warmgate_inflight_requests\{.*endpoint="%s"\} 0`,
			regexp.QuoteMeta(g.Behind+s.Addr())))
	}
	const never = `^wasmcustom\.warmgate_(recovered_panics|store_corrected)_total$|^wasm\..*\.vm_reload_`
	if n := g.Sum(t, never); n != 0 {
		t.Errorf("%v panics, corrections or lost VMs", n)
	}
}

// Scraped has a gateway with the policy endpoint_metrics read the metrics of all servers, and send requests to the only
// one that is idle by them.
func (g *Gateway) Scraped(t *testing.T) {
	t.Helper()
	g.AwaitChosen(t)
	harness.Await(t, func() error {
		g.send(t, shortPrompt)
		if n := g.Sum(t, `^wasmcustom\.warmgate_metrics_fresh_endpoints`); int(n) != len(g.Servers) {
			return fmt.Errorf("the metrics of %v servers are known:\n%s", n, own(g.Page(t, "/stats/prometheus")))
		}
		return nil
	})
	for _, idle := range g.Servers {
		for _, s := range g.Servers {
			s.busy.Store(s != idle)
		}
		const requests = 10
		harness.Await(t, func() error {
			before := g.Sum(t, chosenByMetrics)
			for range requests {
				if at := g.send(t, shortPrompt).Header.Get("x-served-by"); at != idle.Addr() {
					return fmt.Errorf("served by %s, idle is %s", at, idle.Addr())
				}
			}
			if n := g.Sum(t, chosenByMetrics) - before; n != requests {
				return fmt.Errorf("%v of %d requests were placed by metrics", n, requests)
			}
			return nil
		})
	}
}

const chosenByMetrics = `^wasmcustom\.warmgate_decisions_total.*endpoint_metrics.*chosen`
