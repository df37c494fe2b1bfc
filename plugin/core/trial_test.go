package core

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/state"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// explain returns what would become of a request.
func (d *fakeDriver) explain(worker int, r streamtest.Request) (e *state.Explanation) {
	d.t.Helper()
	d.explained = func(got *state.Explanation) {
		if e != nil {
			d.t.Error("a trial is answered twice")
		}
		e = got
	}
	c := d.client(worker, r)
	for range 20 {
		if e == nil { // it is held for its body, or for Redis
			d.advance(20 * time.Millisecond)
		}
	}
	d.explained = nil
	if e == nil {
		d.t.Fatalf("%+v is not explained", r)
	}
	if c.Upstream() >= 0 || c.Routed || c.Held() || c.Result().Body != "{}" {
		d.t.Errorf("a trial is forwarded to %d, routed %v, held %v, answered %q", c.Upstream(), c.Routed, c.Held(),
			c.Result().Body)
	}
	return e
}

// explainedConfigs are one of each kind of choice, with how a process begins that has it.
var explainedConfigs = map[string]func(t *testing.T) *fakeDriver{
	"requests": func(t *testing.T) *fakeDriver { return startFake(t, 2, 4, requestsConfig) },
	"tokens":   func(t *testing.T) *fakeDriver { return startFake(t, 2, 4, tokensConfig) },
	"prompts":  func(t *testing.T) *fakeDriver { return startFake(t, 2, 4, renderedConfig) },
	"shadow": func(t *testing.T) *fakeDriver {
		return startFake(t, 2, 4, strings.Replace(renderedConfig, `{"debug`, `{"shadow":true,"debug`, 1))
	},
	"sessions": func(t *testing.T) *fakeDriver {
		return startFake(t, 2, 4, `{"lb_policy":"consistent_hash","lb_config":{"debug_headers":true,`+
			`"session":{"key":["header:x-session","body:user"]}}}`)
	},
	"metrics": func(t *testing.T) *fakeDriver {
		d := startFake(t, 2, 4, metricsConfig)
		d.pages = map[string]string{}
		for i, e := range d.endpoints {
			d.pages[e.Addr] = fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting 0\n"+
				"vllm:kv_cache_usage_perc 0.%d\n", i, i)
		}
		return d
	},
	"a queue": func(t *testing.T) *fakeDriver {
		return startFake(t, 2, 4, queueConfig(twoClasses))
	},
	"clusters": func(t *testing.T) *fakeDriver { return startSites(t, 2, amongConfig("global_least_request", "")) },
	"an endpoint in a cluster": func(t *testing.T) *fakeDriver {
		return startSites(t, 2, nestedConfig("", "prefix_cache", ""))
	},
	"counts in Redis": func(t *testing.T) *fakeDriver {
		return startRedis(t, redisserver.StartT(t, redisserver.Options{}), 2, 4, "")
	},
	"budgets": func(t *testing.T) *fakeDriver {
		return startBudget(t, 2, `"weight":1,"max_concurrent_requests":4,"max_tokens_per_minute":20000`, tenantsConfig)
	},
}

// randomRequest returns one of a few that differ in all that is read of requests.
func randomRequest(random *rand.Rand) streamtest.Request {
	text := strings.Repeat(fmt.Sprint("a system prompt ", random.IntN(3)), 200)
	user := fmt.Sprint("u", random.IntN(9))
	body := fmt.Sprintf(`{"model":"m","user":"%s","messages":[{"role":"system","content":"%s"},`+
		`{"role":"user","content":"%d"}]}`, user, text, random.IntN(5))
	r := streamtest.Request{Headers: [][2]string{
		{"x-request-id", fmt.Sprint("r", random.IntN(50))},
		{"x-session", user},
		{"x-tenant", fmt.Sprint("t", random.IntN(5))},
		{"x-class", []string{"interactive", "batch"}[random.IntN(2)]},
	}}
	switch random.IntN(8) {
	case 0:
		r.Method, r.Path = "GET", "/v1/models"
	case 1:
		r.Frames = []string{`{"model":`}
	case 2:
		r.Frames = []string{body[:len(body)/2], body[len(body)/2:]}
	default:
		r.Frames = []string{body}
	}
	return r.Filled()
}

// What a request is explained with is what comes of the same request right after that, whatever is in flight; and
// nothing is counted, recorded or learned of trials.
func TestExplainedIsDecided(t *testing.T) {
	for name, start := range explainedConfigs {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			random := rand.New(rand.NewPCG(3, 4))
			for i := range 50 { // from then on metrics of engines are read
				d.client(i%2, streamtest.Request{}).conclude()
			}
			d.advance(2 * time.Second)
			var open []*fakeStream
			waited, chosen := 0, 0
			for i := range 300 {
				r, worker := randomRequest(random), random.IntN(2)
				values, cells, at := maps.Clone(d.metrics.values), maps.Clone(d.kv.Cells), d.now
				decisions, learned := d.metrics.decisions(), d.learned()
				d.rand = rand.New(rand.NewPCG(uint64(i), 5))
				e := d.explain(worker, r)
				if counted := d.metrics.decisions(); !maps.Equal(decisions, counted) {
					t.Fatalf("request %d: a trial is counted: %v, %v before", i, counted, decisions)
				}
				if now := d.learned(); now != learned {
					t.Fatalf("request %d: a trial has taught\n%s\nafter\n%s", i, now, learned)
				}
				if at == d.now { // else ticks have changed both
					if !maps.Equal(values, d.metrics.values) || !maps.Equal(cells, d.kv.Cells) {
						t.Fatalf("request %d: a trial has changed shared memory, or statistics: %v, %v before", i,
							d.metrics.values, values)
					}
				}
				d.rand = rand.New(rand.NewPCG(uint64(i), 5))
				c := d.client(worker, r)
				waited += compareExplained(t, e, c)
				if c.core.first.reason == lb.ReasonChosen {
					chosen++
				}
				open = append(open, c)
				for len(open) > random.IntN(16) {
					at := random.IntN(len(open))
					open[at].conclude()
					open = append(open[:at], open[at+1:]...)
				}
				if random.IntN(4) == 0 {
					d.advance(time.Duration(random.IntN(300)) * time.Millisecond)
				}
			}
			if name == "a queue" && waited == 0 || name != "shadow" && chosen < 30 {
				t.Errorf("%d requests have waited, for %d an endpoint was chosen", waited, chosen)
			}
			for _, c := range open {
				c.leave()
			}
			d.advance(time.Second)
			d.drained()
		})
	}
}

// learned shows what VMs have learned of requests.
func (d *fakeDriver) learned() (text string) {
	for _, w := range d.workers {
		for _, name := range order.Keys(w.vm.Clusters) {
			cl := w.vm.Clusters[name]
			text += fmt.Sprintf("%s: %v %v\n", name, cl.Samples, cl.Retries)
		}
		models := 0
		for _, first := range w.vm.Prompts.Firsts {
			models++
			text += fmt.Sprintf("%v\n", *first) // of the only model
		}
		if models > 1 {
			d.t.Error("prompts of several models are known")
		}
	}
	return text
}

// compareExplained fails the test unless an explanation is what has come of the request. It returns 1 for one that
// waits.
func compareExplained(t *testing.T, e *state.Explanation, c *fakeStream) int {
	t.Helper()
	pl := c.core.first
	if pl.reason == lb.ReasonRetryBudgetExceeded {
		return 0 // trials are no retries
	}
	for i := range e.Decisions {
		d := &e.Decisions[i]
		if d.Waits {
			if !pl.Wait.IsQueued() {
				t.Fatalf("explained with a wait, and it does not: %+v", d)
			}
			return 1
		}
		if d.Reason != pl.reason.String() || d.Endpoint != pl.Lease.Chosen || d.Rule == "store" {
			t.Fatalf("explained %+v, came to %q by %s", d, pl.Lease.Chosen, pl.reason)
		}
		for _, k := range d.Candidates {
			if k.Addr == d.Endpoint && (k.Matched != 0) != (pl.Lease.Reservation.Grant.Cached > 0) {
				t.Fatalf("explained with %+v, %d blocks matched", k, pl.Lease.Reservation.Grant.Cached)
			}
		}
		pl = pl.inside
	}
	if pl != nil {
		t.Fatalf("a choice is not explained: %+v", e)
	}
	return 0
}

// A trial is over like any other request, and answered at most once, whatever ends it.
func TestTrialsEnd(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	d := startFake(t, 1, 2, tokensConfig)
	late := d.explain(0, streamtest.Request{Unended: true}.Filled())
	if r := late.Decisions[0].Reason; r != "body_late" {
		t.Errorf("a body that does not come: %s", r)
	}
	d.fault, d.faultLeft = "View", 1
	if r := d.explain(0, streamtest.Request{Frames: []string{body}}.Filled()).Decisions[0].Reason; r != "panic" {
		t.Errorf("after a panic: %s", r)
	}
	d.explained = func(e *state.Explanation) { t.Errorf("a client that has left is answered: %+v", e) }
	d.client(0, streamtest.Request{Frames: []string{body[:20]}, Unended: true}.Filled()).leave()
	d.advance(5 * time.Second)
	d.explained = nil
	d.drained()
}

// It is said why endpoints are no candidates.
func TestExcluded(t *testing.T) {
	d := startFake(t, 1, 5, strings.Replace(listsConfig, `"slow_start":0`, `"slow_start":0,"consecutive_failures":2`, 1))
	d.models = map[int][]string{0: {"a"}, 1: {"b"}, 2: {"b"}, 3: {"b"}, 4: {"b"}}
	d.served(0, "b")
	d.ejects(0, d.Addr(1))
	d.SetEndpoints([]streamtest.Endpoint{{}, {}, {State: streamtest.Draining}, {}, {}})
	got := map[string]string{}
	for _, x := range d.explain(0, bodyOf("b", 100).Filled()).Decisions[0].Excluded {
		got[x.Addr] = x.Why
	}
	want := map[string]string{d.Addr(0): "model", d.Addr(1): "ejected", d.Addr(2): "draining"}
	if !maps.Equal(got, want) {
		t.Errorf("excluded are %v, want %v", got, want)
	}
}

// Nothing of a trial goes on while Redis has not answered, though more of its body comes than is read.
func TestTrialsWaitForRedis(t *testing.T) {
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), 1, 2, "")
	config := redisConfig(`"max_inspect_bytes":65536,"max_scan_bytes":131072`)
	if !d.configure(strings.Replace(config, "global_least_request", "prefix_cache", 1)) {
		t.Fatal("refused")
	}
	d.warm()
	var r streamtest.Request
	for i := range 40 {
		r.Frames = append(r.Frames, seededWords(uint64(i), 1500))
	}
	r.Frames[0] = `{"model":"m","messages":[{"role":"user","content":"` + r.Frames[0]
	if x := d.explain(0, r.Filled()).Decisions[0]; x.Endpoint == "" {
		t.Errorf("explained with %+v", x)
	}
	d.drained()
}

// While Redis does not answer, a trial shows where requests go by this gateway's counts.
func TestTrialsWithoutRedis(t *testing.T) {
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), 1, 2, "")
	d.redis.login = &redisclient.ReplyError{Login: "AUTH", Code: "WRONGPASS"}
	busy := d.client(0, streamtest.Request{})
	e, next := d.explain(0, streamtest.Request{}.Filled()), d.client(0, streamtest.Request{})
	if x := e.Decisions[0]; x.Reason != "chosen" || x.Endpoint != d.Addr(next.Upstream()) || len(x.Candidates) != 2 ||
		next.Upstream() == busy.Upstream() {
		t.Errorf("explained with %+v, sent to %d", x, next.Upstream())
	}
	busy.Finish()
	next.Finish()
	d.drained()
}
