package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
)

// kind is the kind of a push.
type kind int

const (
	good      kind = iota // a configuration that is taken
	bad                   // a configuration that must be refused
	endpoints             // a part of the servers, or all again
	native                // another native balancing of the cluster, or the shipped one again
	module                // the plugin's code
	kinds
)

// String names the kind.
func (k kind) String() string {
	return [kinds]string{"good", "bad", "endpoints", "native policy", "module"}[k]
}

// setting is a configuration that is taken and the reason with which the plugin then counts a request.
type setting struct {
	name, text, reason string
	refused            int  // parts of it
	queue              bool // requests may wait
}

// configs are the changes that an operator may make. A body may take long to arrive: in pieces it outlives a push. With
// a queue, an endpoint takes so many requests.
func configs(addrs []string, taken int) []setting {
	const patient, queue = `"body_timeout":"5s"`, `"queue":{"max_wait":"1h","max_length":20000}`
	limit := fmt.Sprintf(`"max_inflight":%d`, taken)
	weights := `"weights":{"` + addrs[0] + `":2,"` + addrs[1] + `":0.5}`
	off := strings.Replace(audit.Config(), "{", `{"enabled":false,`, 1)
	// With a rule that no request matches. Of a part that is refused, the last good form must stay in force.
	ruled := func(global, rule string) string {
		rule = strings.Replace(rule, "{", `{"_match_domain_":["nobody.example"],`, 1)
		return strings.TrimSuffix(global, "}") + `,"_rules_":[` + rule + `]}`
	}
	bad := strings.Replace(audit.Config(), "global_least_request", "cluster_hash", 1)
	return []setting{
		{name: "tokens", text: audit.Config(`"unit":"tokens"`, patient), reason: "chosen"},
		{name: "requests", text: audit.Config(), reason: "chosen"},
		{name: "a rule refused", text: ruled(audit.Config(), bad), reason: "chosen", refused: 1},
		{name: "the global part refused", text: ruled(bad, audit.Config()), reason: "chosen", refused: 1},
		{name: "weights", text: audit.Config(weights), reason: "chosen"},
		{name: "queue", text: audit.Config(limit, queue), reason: "chosen", queue: true},
		{name: "off", text: off, reason: "disabled"},
		{name: "on", text: audit.Config(), reason: "chosen"},
		{name: "tokens and weights", text: audit.Config(`"unit":"tokens"`, weights, patient), reason: "chosen"},
		{name: "shadow", text: audit.Config(`"shadow":true`), reason: "shadow"},
		{name: "cap", text: audit.Config(`"max_inflight":1000`), reason: "chosen"},
		{name: "queue, tokens", text: audit.Config(`"unit":"tokens"`, limit, queue), reason: "chosen", queue: true},
		{name: "tokens, impatient", text: audit.Config(`"unit":"tokens"`, `"body_timeout":"20ms"`), reason: "chosen"},
	}
}

// badConfigs must all be refused.
var badConfigs = []string{
	" ",
	"{",
	"null",
	"\x00\xff",
	`[]`,
	audit.Config() + "x",
	audit.Config(`"unit":"bytes"`),
	audit.Config(`"unti":"tokens"`),
	audit.Config(`"unit":"tokens","unit":"requests"`),
	audit.Config(`"max_inflight":-1`),
	audit.Config(`"max_inflight":1e99`),
	audit.Config(`"bytes_per_token":NaN`),
	audit.Config(`"body_timeout":"soon"`),
	audit.Config(`"weights":{"not an address":1}`),
	strings.Replace(audit.Config(), "global_least_request", "best_policy", 1),
	audit.Config(`"` + strings.Repeat("x", 1<<20) + `":1`),
}

// pusher pushes one change after the other and knows what should be in force.
type pusher struct {
	site   *audit.Site
	rand   *rand.Rand
	good   []setting
	module [2]string // the shipped code and a copy that Envoy takes for other code
	list   []harness.Endpoint

	now     setting
	loaded  int // of module
	next    [kinds]int
	part    bool // only a part of the servers is in the cluster
	other   bool // another native balancing than the shipped one
	refused int
}

// taken returns how many requests an endpoint takes where there is a queue: half of the servers have room for all
// streams and three times what the rate needs, so that only a burst of requests has to wait.
func (s *settings) taken() int {
	need := 3 * s.Rate * 1.2 * audit.Step.Seconds()
	return 1 + int((float64(s.Streams)+need)/float64(s.Servers/2))
}

// newPusher returns one that has pushed nothing. The modules are the shipped code and its copy.
func newPusher(site *audit.Site, s *settings, modules [2]string) *pusher {
	p := &pusher{
		site: site, rand: rand.New(rand.NewPCG(s.Seed, 1)), list: site.Endpoints(), module: modules,
	}
	p.good = configs([]string{p.list[0].Addr, p.list[1].Addr}, s.taken())
	p.now = p.good[1]
	return p
}

// variant writes a copy of a module with an empty custom section at its end: the same plugin, but for Envoy other code,
// which gets VMs of its own.
func variant(module, dir string) (string, error) {
	code, err := os.ReadFile(module)
	if err != nil {
		return "", err
	}
	const name = "variant"
	code = append(code, 0, byte(len(name)+1), byte(len(name)))
	path := filepath.Join(dir, "variant.wasm")
	return path, os.WriteFile(path, append(code, name...), 0o600)
}

// push makes one change and waits until it is in force for new requests.
func (p *pusher) push(ctx context.Context, k kind) (name string) {
	n := p.next[k]
	p.next[k]++
	switch k {
	case good:
		p.now = p.good[n%len(p.good)]
		name = p.now.name
	case bad:
		name = fmt.Sprintf("bad %d", n%len(badConfigs))
	default:
		name = k.String()
	}
	lab.About(fmt.Sprintf("push %q", name), func() {
		lab.Check(p.change(ctx, k, n))
		lab.Check(p.site.AwaitReason(ctx, p.now.reason))
	})
	return name
}

// change makes the change of that number of a kind.
func (p *pusher) change(ctx context.Context, k kind, n int) error {
	switch k {
	case good:
		return p.site.Gateway.PushPlugin(ctx, p.now.text)
	case bad:
		return p.pushBad(ctx, badConfigs[n%len(badConfigs)])
	case endpoints:
		return p.pushEndpoints(ctx)
	case native:
		return p.pushNative(ctx)
	}
	p.loaded = 1 - p.loaded
	return p.site.Gateway.PushModule(ctx, p.module[p.loaded], p.now.text)
}

func (p *pusher) pushBad(ctx context.Context, text string) error {
	var rejected *harness.RejectedError
	err := p.site.Gateway.PushPlugin(ctx, text)
	switch {
	case err == nil:
		return fmt.Errorf("a bad configuration was taken: %.200q", text)
	case errors.As(err, &rejected):
		p.refused++
		return nil
	}
	return err
}

// pushEndpoints leaves out up to half of the servers, or brings all back.
func (p *pusher) pushEndpoints(ctx context.Context) error {
	list := p.list
	if p.part = !p.part; p.part {
		list = lab.Pick(p.rand, list, len(list)-1-p.rand.IntN(len(list)/2))
	}
	return p.site.Gateway.PushEndpoints(ctx, list)
}

// pushNative takes the plugin's choice out of the cluster, or puts it in again.
func (p *pusher) pushNative(ctx context.Context) error {
	policy := harness.Warmgate
	if p.other = !p.other; p.other {
		policy = []harness.Policy{harness.RoundRobin, harness.LeastRequest}[p.rand.IntN(2)]
	}
	return p.site.Gateway.PushCluster(ctx, policy)
}

// plan returns the kinds of n pushes in random order, the same mix among any ten, with few changes of the code, which
// costs Envoy seconds.
func plan(r *rand.Rand, n, modules int) []kind {
	mix := []kind{good, good, good, good, good, bad, bad, bad, endpoints, native}
	var list []kind
	for len(list) < n {
		r.Shuffle(len(mix), func(i, j int) { mix[i], mix[j] = mix[j], mix[i] })
		list = append(list, mix...)
	}
	list = list[:n]
	for i := range modules {
		list[(i+1)*n/(modules+1)] = module
	}
	return list
}
