package streamtest

import (
	"errors"
	"strings"
)

var configScenarios = []scenario{
	{name: "a refused one changes nothing", endpoints: 2, config: `"max_inflight":1`, run: func(t *run) {
		streams := t.chats(2)
		t.mark("warmgate_config_rejected_total", decisions("chosen"))
		for _, bad := range []string{`{`, `{"lb_policy":"nonsense"}`, strings.Replace(t.config(""), "lb_config", "lb_konfig", 1)} {
			if err := t.Configure(bad); !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		t.wantGrown("warmgate_config_rejected_total", 3)
		if got := t.Gauge("warmgate_config_valid"); got != 1 {
			t.Errorf("warmgate_config_valid is %d", got)
		}
		t.wantShed(429, "1")
		t.finish(streams...)
		t.finish(t.chats(2)...)
		t.wantGrown(decisions("chosen"), 2)
		t.wantDrained()
	}},
	{name: "the first one is bad", endpoints: 2, bare: true, needs: []Ability{FirstConfig}, run: func(t *run) {
		t.push(`{"lb_policy":"nonsense"}`)
		name := decisionsOf("none", "config_invalid")
		t.mark(name, decisions("chosen"))
		t.finish(t.chats(2)...)
		t.wantGrown(name, 2)
		if got := t.Gauge("warmgate_config_valid"); got != 0 {
			t.Errorf("warmgate_config_valid is %d", got)
		}
		t.apply("")
		t.finish(t.chats(2)...)
		t.wantGrown(decisions("chosen"), 2)
		if got := t.Gauge("warmgate_config_valid"); got != 1 {
			t.Errorf("after a good one warmgate_config_valid is %d", got)
		}
		// The gateway has already tried the first configuration and accepted it: it does not try it again.
		if err := t.Configure(`{"lb_policy":"nonsense"}`); err != nil && !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
		t.finish(t.chats(2)...)
		t.wantGrown(decisions("chosen"), 4)
	}},
	{name: "counts outlive a change", endpoints: 3, run: func(t *run) {
		old := t.chats(3)
		t.apply(`"max_inflight":100`)
		t.wantLoads(1, 1, 1)
		streams := t.chats(3)
		t.wantLoads(2, 2, 2)
		t.finish(old...)
		t.wantLoads(1, 1, 1)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "a held request outlives a change", endpoints: 2, config: guessed + `,"body_timeout":"60s"`, run: func(t *run) {
		body := completion(400, 50)
		s := t.Open(Request{Frames: []string{body[:100]}, Unended: true})
		t.apply("")
		s.Send(body[100:], true)
		s.wantReceived(body)
		s.wantTokens(150)
		t.finish(s)
		t.wantDrained()
	}},
	{name: "off and on with requests open", endpoints: 3, run: func(t *run) {
		old := t.chats(3)
		t.push(`{"enabled":false}`)
		unseen := t.chats(3)
		t.wantLoads(1, 1, 1)
		t.apply("")
		streams := t.chats(3)
		t.wantLoads(2, 2, 2)
		t.finish(unseen...)
		t.wantLoads(2, 2, 2)
		t.finish(old...)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "the unit changes with requests open", endpoints: 2, config: guessed, run: func(t *run) {
		old := t.chats(2)
		t.apply("")
		streams := t.chats(2)
		t.wantLoads(2, 2)
		t.finish(old...)
		t.finish(streams...)
		t.wantDrained()
	}},
	{name: "rules", endpoints: 1, run: rulesHold},
	{name: "a refused rule takes no other with it", endpoints: 2, run: refusedRule},
	{name: "a refused rule keeps its last good form", endpoints: 1, run: keptRule},
	{name: "a new VM finds the last good form", endpoints: 1, needs: []Ability{LostVM}, run: func(t *run) {
		breakRule(t)
		for i := range t.Workers() {
			t.Lose(i)
		}
		wantShedUnder(t, 503)
	}},
	{name: "one rule counts requests, another tokens", endpoints: 4, needs: []Ability{PickWorker}, run: unitsTogether},
}

// unitsTogether loads all endpoints but one under a rule that counts requests. The rule that counts tokens takes that
// one.
func unitsTogether(t *run) {
	err := t.Configure(t.rules(
		rule{`"_match_domain_":["` + counting + `"]`, ""},
		rule{`"_match_domain_":["` + weighing + `"]`, `"unit":"tokens"`},
	))
	if err != nil {
		t.Fatal(err)
	}
	for i := range t.Workers() {
		t.finish(openFor(t, weighing, i))
	}
	for i := range 6 {
		wantIdleOne(t, i)
	}
	t.wantDrained()
}

// The domains of a rule that counts requests, and of one that counts tokens.
const counting, weighing = "counts.example", "weighs.example"

// openFor sends a usual request for a domain to a worker.
func openFor(t *run, domain string, worker int) *stream {
	r := t.chatIn(worker)
	r.Authority = domain
	return t.Open(r)
}

// wantIdleOne sends counted requests to three of four endpoints, and expects one in tokens to go to the fourth.
func wantIdleOne(t *run, worker int) {
	idle := map[int]bool{0: true, 1: true, 2: true, 3: true}
	var streams []*stream
	for range 3 {
		s := openFor(t, counting, worker)
		delete(idle, s.Upstream())
		streams = append(streams, s)
	}
	s := openFor(t, weighing, worker)
	if !idle[s.Upstream()] || len(idle) != 1 {
		t.Errorf("a request weighed in tokens goes to endpoint %d, idle are %v", s.Upstream(), idle)
	}
	t.finish(append(streams, s)...)
}

// rulesHold identifies each rule by the status with which it sheds.
func rulesHold(t *run) {
	holds := t.chats(1) // so that everything is at its cap
	for _, c := range matches(t.Names()) {
		config := t.rules(rule{c.match, shedsWith503}, rule{`"_match_domain_":["*"]`, shedsWith529})
		if err := t.Configure(config); err != nil {
			t.Fatalf("%s: %v", c.match, err)
		}
		r := chat()
		r.Authority = c.authority
		if got := t.Open(r).Result().Status; got != c.status {
			t.Errorf("%s for %q: the answer is %d, want %d", c.match, c.authority, got, c.status)
		}
	}
	t.finish(holds...)
	t.wantDrained()
}

// match is what a rule is for, the authority of a request, and the status with which it is shed: 503 by the rule.
type match struct {
	match, authority string
	status           int
}

func matches(names Names) []match {
	return []match{
		{`"_match_route_":["` + names.Route + `"]`, "", 503},
		{`"_match_route_":["another","` + names.Route + `"]`, "", 503},
		{`"_match_route_":["another"]`, "", 529},
		{`"_match_route_prefix_":["` + names.Route[:2] + `"]`, "", 503},
		{`"_match_route_prefix_":["x"]`, "", 529},
		{`"_match_domain_":["llm.example"]`, "", 503},
		{`"_match_domain_":["llm.example"]`, "llm.example:8080", 503},
		{`"_match_domain_":["*.example"]`, "", 503},
		{`"_match_domain_":["other.example"]`, "", 529},
		{`"_match_domain_":["llm.*"]`, "llm.org", 503},
		{`"_match_service_":["` + names.Service + `"]`, "", 503},
		{`"_match_service_":["other.static:80"]`, "", 529},
		{`"_match_route_":["` + names.Route + `"],"_match_service_":["` + names.Service + `"]`, "", 503},
		{`"_match_route_":["` + names.Route + `"],"_match_service_":["other"]`, "", 529},
	}
}

// refused turns the lb_policy of a configuration's first rule into one that this plugin does not have.
func refused(config string) string {
	return strings.Replace(config, `"endpoint","lb_policy":"global_least_request"`, `"cluster","lb_policy":"cluster_hash"`, 1)
}

// wantRefused fails the test unless so many parts of the configuration in force are refused, and so many of them kept.
func wantRefused(t *run, all, kept uint64) {
	t.Helper()
	if a, k := t.Gauge("warmgate_config_refused_rules"), t.Gauge("warmgate_config_kept_rules"); a != all || k != kept {
		t.Errorf("%d rules are refused, %d of them kept; want %d and %d", a, k, all, kept)
	}
}

// refusedRule refuses the rule of the requests, and then another one.
func refusedRule(t *run) {
	mine := `"_match_route_":["` + t.Names().Route + `"]`
	native := decisionsOf("none", "config_invalid")
	t.mark(native, decisions("chosen"), "warmgate_config_rejected_total")
	t.push(refused(t.rules(rule{match: another}, rule{match: mine})))
	t.finish(t.chats(2)...)
	t.wantGrown(decisions("chosen"), 2)
	wantRefused(t, 1, 0)
	held := t.chats(1)
	t.push(refused(t.rules(rule{match: mine + `,"_match_service_":["` + t.Names().Service + `"]`}, rule{match: mine})))
	held[0].wantCounted()
	t.finish(t.chats(2)...) // the rule behind it does not get them
	t.wantGrown(native, 2)
	wantRefused(t, 1, 0)
	if got := t.Gauge("warmgate_config_valid"); got != 1 {
		t.Errorf("warmgate_config_valid is %d", got)
	}
	if t.grown("warmgate_config_rejected_total") == 0 {
		t.Error("no refusal is counted")
	}
	t.finish(held...)
	t.push(t.rules(rule{match: mine}))
	t.finish(t.chats(2)...)
	t.wantGrown(decisions("chosen"), 5)
	wantRefused(t, 0, 0)
	t.wantDrained()
}

const (
	shedsWith503 = `"max_inflight":1,"overload":{"status":503}`
	shedsWith529 = `"max_inflight":1,"overload":{"status":529}`
)

// breakRule pushes a rule for the requests that sheds with 503, and then an invalid version of it. The global part goes
// from 529 to 599.
func breakRule(t *run) {
	t.Helper()
	mine := rule{`"_match_route_":["` + t.Names().Route + `"]`, shedsWith503}
	for i, status := range []string{"529", "599"} {
		config := t.rules(mine, rule{match: another})
		if i == 1 {
			config = refused(config)
		}
		global := t.config(`"max_inflight":1,"overload":{"status":` + status + `}`)
		t.push(strings.TrimSuffix(global, "}") + "," + config[1:])
	}
}

// wantShedUnder fails the test unless a request beyond the cap is answered with the status.
func wantShedUnder(t *run, status int) {
	t.Helper()
	held := t.chats(1)
	for worker := range t.Workers() {
		if got := t.Open(t.chatIn(worker)).Result().Status; got != status {
			t.Errorf("the answer of worker %d is %d, want %d", worker, got, status)
		}
	}
	t.finish(held...)
	t.wantDrained()
}

// keptRule breaks a rule under traffic; then other rules change, and then the rule is valid again.
func keptRule(t *run) {
	mine := `"_match_route_":["` + t.Names().Route + `"]`
	t.push(t.rules(rule{mine, shedsWith503}))
	held := t.chats(1)
	breakRule(t)
	wantRefused(t, 1, 1)
	t.wantLoads(1)
	t.wantShed(503, "1")
	t.finish(held...)
	t.push(t.rules(rule{match: another}, rule{mine, `"max_inflight":1,"overload":{"status":529}`}))
	wantRefused(t, 0, 0)
	wantShedUnder(t, 529)
}
