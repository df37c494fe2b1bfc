package streamtest

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is one situation in which requests are served.
type scenario struct {
	name   string
	needs  []Ability
	policy string // "" for global_least_request
	config string // members of lb_config beside the usual ones
	// endpoints are there from the start: healthy and of weight 1, unless listed.
	endpoints int
	list      []Endpoint
	bare      bool // the scenario gives the configuration itself
	run       func(t *run)
}

// Run runs the scenarios of the given groups, of all when none is given, each on a gateway of its own.
func Run(t *testing.T, open Open, groups ...string) {
	for _, group := range []struct {
		name      string
		scenarios []scenario
	}{
		{"balance", balanceScenarios},
		{"end", endScenarios},
		{"body", bodyScenarios},
		{"protocol", protocolScenarios},
		{"native", nativeScenarios},
		{"config", configScenarios},
		{"health", healthScenarios},
		{"blame", blameScenarios},
		{"answer", answerScenarios},
		{"view", viewScenarios},
		{"prefix", prefixScenarios},
		{"prefix", apiScenarios},
		{"metrics", metricsScenarios},
		{"queue", queueScenarios},
		{"session", sessionScenarios},
		{"admission", admissionScenarios},
		{"budget", budgetScenarios},
		{"calls", callScenarios},
		{"facts", factScenarios},
		{"held", heldScenarios},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		for _, s := range group.scenarios {
			t.Run(group.name+"/"+s.name, func(t *testing.T) { start(t, open, s) })
		}
	}
}

// start opens a gateway and brings it to where the scenario begins.
func start(t *testing.T, open Open, s scenario) {
	g := open(t, Options{Unconfigured: s.bare})
	for _, a := range s.needs {
		if why := g.Lacks(a); why != "" {
			t.Skip(why)
		}
	}
	r := &run{T: t, Gateway: g, policy: cmp.Or(s.policy, "global_least_request"), before: map[string]uint64{}}
	list := s.list
	for range s.endpoints {
		list = append(list, Endpoint{})
	}
	r.SetEndpoints(list)
	r.size = len(list)
	if !s.bare {
		r.configure(s.config)
	}
	if s.policy == prefixCache || s.policy == consistentHash || slices.Contains(s.needs, SecondHop) {
		r.warm()
	}
	s.run(r)
}

// run is one scenario on one gateway.
type run struct {
	*testing.T
	Gateway
	policy  string
	size    int               // endpoints at the start
	before  map[string]uint64 // counters when they were first read
	reports []float64         // requests that wait, as endpoints report in answers to a crowd; nil: they do not
	spent   time.Time         // when the budgets were configured, or last had room for one request more
}

// refillsIn is the least time in which a budget of the scenarios has room for a request again.
const refillsIn = 25 * time.Second

// isReal reports whether time passes by itself: on a busy machine, any time between two steps.
func (t *run) isReal() bool { return t.Lacks(SimulatedTime) != "" }

// config returns a whole configuration with the given members of lb_config.
func (t *run) config(members string) string {
	parts := []string{`"debug_headers":true`}
	for _, m := range []string{t.Source(), members} {
		if m != "" {
			parts = append(parts, m)
		}
	}
	if !strings.Contains(members, `"health"`) {
		parts = append(parts, `"health":{"slow_start":0}`)
	}
	if t.policy == prefixCache || t.policy == tokenBudget {
		// with a guess of its own, no scenario counts what the gateway has learned in those before it
		guess := 4 - float64(crc32.ChecksumIEEE([]byte(t.Name()))%1e4)/1e8
		parts = append(parts, fmt.Sprintf(`"bytes_per_token":%.8f`, guess))
	}
	return `{"lb_type":"endpoint","lb_policy":"` + t.policy + `","lb_config":{` + strings.Join(parts, ",") + `}}`
}

// configure puts a configuration into force.
func (t *run) configure(members string) {
	t.Helper()
	if err := t.Configure(t.config(members)); err != nil {
		t.Fatalf("configuration %s: %v", members, err)
	}
}

// chat is a usual request.
func chat() Request {
	return Request{Frames: []string{`{"model":"m","messages":[{"role":"user","content":"hello"}]}`}}
}

// open sends n usual requests, one after the other over all workers, and returns them with their endpoints.
func (t *run) open(n int) []Stream {
	t.Helper()
	out := make([]Stream, n)
	for i := range out {
		r := chat()
		r.Worker = i % t.Workers()
		out[i] = t.Open(r)
		if out[i].Upstream() < 0 {
			t.Fatalf("request %d reached no endpoint: %+v", i, out[i].Result())
		}
	}
	return out
}

// finish ends streams normally.
func (t *run) finish(streams ...Stream) {
	t.Helper()
	for _, s := range streams {
		s.Finish()
		if r := s.Result(); r.Status != 200 || r.Cut {
			t.Errorf("the client got status %d, cut %v", r.Status, r.Cut)
		}
	}
}

// serve sends n usual requests one after the other, answers each with 200 and returns how many each endpoint had.
func (t *run) serve(n int) []int {
	t.Helper()
	counts := make([]int, t.size)
	for i := range n {
		r := chat()
		r.Worker, r.NoRetry = i%t.Workers(), true
		s := t.Open(r)
		if at := s.Upstream(); at >= 0 {
			counts[at]++
			s.Head(200)
			s.Finish()
		}
		s.Result()
	}
	return counts
}

// wantLoads fails the test unless the requests in flight per endpoint come to be those wanted.
func (t *run) wantLoads(want ...int64) {
	t.Helper()
	t.wantInflight("requests", func(l Load) int64 { return l.Requests }, want)
}

// wantTokens is wantLoads for tokens.
func (t *run) wantTokens(want ...int64) {
	t.Helper()
	t.wantInflight("tokens", func(l Load) int64 { return l.Tokens }, want)
}

func (t *run) wantInflight(unit string, of func(Load) int64, want []int64) {
	t.Helper()
	got := make([]int64, len(want))
	if !t.Await(func() bool {
		for i := range want {
			got[i] = of(t.Load(i))
		}
		return slices.Equal(got, want)
	}) {
		t.Errorf("%s in flight: %v, want %v", unit, got, want)
	}
}

// wantDrained fails the test unless nothing is in flight any more.
func (t *run) wantDrained() {
	t.Helper()
	t.wantLoads(make([]int64, t.size)...)
	t.wantTokens(make([]int64, t.size)...)
}

// mark remembers the value of a counter, for grew.
func (t *run) mark(names ...string) {
	for _, n := range names {
		t.before[n] = t.Counter(n)
	}
}

// wantGrown fails the test unless the counter comes to be n more than when it was marked.
func (t *run) wantGrown(name string, n uint64) {
	t.Helper()
	var got uint64
	if !t.Await(func() bool { got = t.Counter(name) - t.before[name]; return got == n }) {
		t.Errorf("%s grew by %d, want %d", name, got, n)
	}
}

// decisions is the counter of requests with that reason.
func decisions(reason string) string { return decisionsOf("global_least_request", reason) }

func decisionsOf(policy, reason string) string {
	return "warmgate_decisions_total;policy=" + policy + ";reason=" + reason
}

// at returns a list of n loads that is 1 at i and 0 elsewhere.
func (t *run) at(i int) []int64 {
	l := make([]int64, t.size)
	l[i] = 1
	return l
}

// wantReason fails the test unless the client got the reason in the debug headers.
func (t *run) wantReason(s Stream, reason string) {
	t.Helper()
	if got := s.Result().Headers["x-warmgate-reason"]; got != reason {
		t.Errorf("reason %q, want %q", got, reason)
	}
}

// each formats a list of numbers per endpoint.
func each(n []int) string { return strings.Trim(fmt.Sprint(n), "[]") }
