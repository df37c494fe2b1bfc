package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/state"
)

const (
	token  = "0123456789abcdef"
	plugin = `{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,
		"envoy":{"admin_cluster":"warmgate-admin","poll_interval":200},
		"inspect":{"path":"/warmgate/inspect","token":"` + token + `"}}}`
	question = `{"model":"m","messages":[{"role":"user","content":"To be, or not to be."}]}`
)

// gateway has three servers that answer when they are told to.
type gateway struct {
	*testing.T
	*harness.Gateway
	addrs  []string
	answer chan struct{}
	let    sync.Once // has servers answer
	open   sync.WaitGroup
}

func start(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{T: t, answer: make(chan struct{})}
	var list []harness.Endpoint
	for range 3 {
		e := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.Header.Get("x-hold") != "" {
				<-g.answer
			}
			w.Header().Set("content-type", "application/json")
			io.WriteString(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":7,"completion_tokens":1}}`)
		}))
		list, g.addrs = append(list, e), append(g.addrs, e.Addr)
	}
	g.Gateway = harness.StartT(t, harness.Options{Config: plugin, Endpoints: list})
	t.Cleanup(g.release)            // a server that holds a request does not end
	harness.Await(t, func() error { // all workers know the servers
		if a := harness.Send(t, nil, "POST", g.URL()+"/v1/chat/completions", question); a.Host() == "" {
			return fmt.Errorf("answered %d for reason %s", a.Status, a.Reason())
		}
		return nil
	})
	return g
}

// call sends a call to what the gateway shows, on a connection of its own.
func (g *gateway) call(method, path, body, token string) *harness.Answer {
	g.Helper()
	return harness.Send(g, nil, method, g.URL()+"/warmgate/inspect"+path, body, "authorization: Bearer "+token)
}

// state asks for what the gateway knows.
func (g *gateway) state() (s state.State) {
	g.Helper()
	read(g.T, g.call("GET", "/state", "", token), &s)
	return s
}

func read(t *testing.T, a *harness.Answer, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || a.Status != 200 || a.Header.Get("x-warmgate-host") != "" {
		t.Fatalf("answered %d %s, headers %v: %v", a.Status, a.Body, a.Header, err)
	}
}

// hold has n requests wait at their servers.
func (g *gateway) hold(n int) (done func()) {
	g.Helper()
	for range n {
		g.open.Add(1)
		go func() {
			defer g.open.Done()
			harness.Send(g, nil, "POST", g.URL()+"/v1/chat/completions", question, "x-hold: yes")
		}()
	}
	return func() {
		g.release()
		g.open.Wait()
	}
}

// release has servers answer what they hold.
func (g *gateway) release() { g.let.Do(func() { close(g.answer) }) }

// watched returns when decisions of both workers are shown: on a busy machine one may accept connections long before
// the other.
func (g *gateway) watched() {
	g.Helper()
	sent := 0
	harness.Await(g, func() error {
		decisions, workers := g.state().Decisions, map[string]bool{}
		for _, d := range decisions {
			worker, _, _ := strings.Cut(d.ID, "-")
			workers[worker] = true
		}
		if len(workers) >= 2 {
			return nil
		}
		if len(decisions) >= min(sent, 64) { // a worker keeps 64, and of one tick 8
			harness.Send(g, nil, "POST", g.URL()+"/v1/chat/completions", question)
			sent++
		}
		return fmt.Errorf("decisions of %d workers are shown", len(workers))
	})
}

// active returns how many requests Envoy's admin page has open at each server.
func (g *gateway) active() map[string]int64 {
	g.Helper()
	text, err := g.Clusters(context.Background())
	if err != nil {
		g.Fatal(err)
	}
	counts := map[string]int64{}
	for _, addr := range g.addrs {
		_, rest, _ := strings.Cut(text, "llm::"+addr+"::rq_active::")
		value, _, _ := strings.Cut(rest, "\n")
		if counts[addr], err = strconv.ParseInt(value, 10, 64); err != nil {
			g.Fatalf("%q: %v", value, err)
		}
	}
	return counts
}

// shown asks once for what is known, and compares it with what the admin page shows: so many requests at each server.
func (g *gateway) shown(each int64) error {
	g.Helper()
	s, active := g.state(), g.active()
	if len(s.Clusters) != 1 || s.Clusters[0].Name != "llm" || s.VMs < 2 {
		return fmt.Errorf("%+v", s)
	}
	list := s.Clusters[0].Endpoints
	if len(list) != len(g.addrs) {
		return fmt.Errorf("%+v are shown", list)
	}
	for _, e := range list {
		if want := active[e.Addr]; e.Requests != want || want != each || e.Health != "healthy" {
			return fmt.Errorf("%+v is shown, the admin page has %d", e, want)
		}
	}
	return nil
}

// Whichever worker answers shows what the admin page shows of all of them, and the decisions of all.
func TestStateOverWorkers(t *testing.T) {
	g := start(t)
	var last state.State
	g.watched()
	var done func()
	for want := 4; want <= 12; want += 4 { // more at once may be more than a worker keeps of a tick
		done = g.hold(4)
		harness.Await(t, func() error {
			last = g.state()
			inFlight := int64(0)
			for _, c := range last.Clusters {
				for _, e := range c.Endpoints {
					inFlight += e.Requests
				}
			}
			last.Decisions = slices.DeleteFunc(last.Decisions, func(d state.Decision) bool { return d.Ended })
			if n := len(last.Decisions); n != want || inFlight != int64(want) {
				return fmt.Errorf("%d open decisions and %d requests are shown, want %d", n, inFlight, want)
			}
			return nil
		})
	}
	right := func() error {
		for range 16 { // connections of their own: of both workers
			if err := g.shown(4); err != nil {
				return err
			}
		}
		return nil
	}
	harness.Await(t, right) // a worker may not have had its tick yet
	for _, d := range last.Decisions {
		if d.Reason != "chosen" || d.Endpoint == "" || len(d.Candidates) != 3 || d.Rule == "" || d.Model != "" {
			t.Errorf("%+v is shown", d)
		}
	}
	done()
	harness.Await(t, func() error {
		shown := map[string]bool{}
		for _, d := range g.state().Decisions {
			if !d.Ended || d.Result != "served" {
				return fmt.Errorf("%+v is shown", d)
			}
			shown[d.ID] = true
		}
		for _, d := range last.Decisions {
			if !shown[d.ID] {
				return fmt.Errorf("the end of %s is not shown", d.ID)
			}
		}
		return nil
	})
	g.DrainedT(t)
}

// Who has not the token learns nothing, however often it is asked; who has it may ask as often.
func TestFloods(t *testing.T) {
	g := start(t)
	before := g.SumT(t, `warmgate_decisions_total`)
	for _, c := range []struct {
		token  string
		status int
	}{{"fedcba9876543210", 401}, {token, 200}} {
		var callers sync.WaitGroup
		for range 16 {
			callers.Add(1)
			go func() {
				defer callers.Done()
				for range 50 {
					if a := g.call("GET", "/state", "", c.token); a.Status != c.status {
						t.Errorf("answered %d %s", a.Status, a.Body)
						return
					}
				}
			}()
		}
		callers.Wait()
	}
	if n := g.SumT(t, `warmgate_decisions_total`) - before; n != 0 {
		t.Errorf("%v calls were taken for requests", n)
	}
	if strings.Contains(g.AccessLog()+g.Logs(), token) {
		t.Error("the token is in a log")
	}
	if a := harness.Send(t, nil, "POST", g.URL()+"/v1/chat/completions", question); a.Host() == "" {
		t.Errorf("a request afterwards: %d, %s", a.Status, a.Reason())
	}
	g.DrainedT(t)
}

// What would become of a request is what becomes of it.
func TestExplained(t *testing.T) {
	g := start(t)
	done := g.hold(2) // of three servers one is free
	harness.Await(t, func() error {
		n := int64(0)
		for _, active := range g.active() {
			n += active
		}
		if n != 2 {
			return fmt.Errorf("%d requests are at their servers", n)
		}
		return nil
	})
	var e state.Explanation
	read(t, g.call("POST", "/explain/v1/chat/completions", question, token), &e)
	a := harness.Send(t, nil, "POST", g.URL()+"/v1/chat/completions", question)
	if len(e.Decisions) != 1 || e.Decisions[0].Endpoint != a.Host() || e.Decisions[0].Reason != a.Reason() {
		t.Errorf("explained as %+v, decided %s for %s", e, a.Reason(), a.Host())
	}
	done()
	g.DrainedT(t)
}
