package security

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// caching is a configuration of prefix_cache that separates tenants.
const caching = `{"lb_type":"endpoint","lb_policy":"prefix_cache","lb_config":{%s"prefix":{"tenant_header":"x-tenant","secret":"s"},
	"debug_headers":true,"health":{"slow_start":0},"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"%s}}}`

// probeSeed makes the prompts and the order of the probes the same in each run. The gateway's own dice differ.
const probeSeed = 20

// A probe is a request for a prompt that another client has sent.
type probe struct {
	name, tenant, path, model string
}

// owner sends the prompts first.
var owner = probe{"the same tenant", "a", "/v1/chat/completions", "m"}

// strangers send the prompts of the owner and must not find out that these were sent before.
var strangers = []probe{
	{"another tenant", "b", owner.path, owner.model},
	{"no tenant", "", owner.path, owner.model},
	{"another route", owner.tenant, "/other/v1/chat/completions", owner.model},
	{"another model", owner.tenant, owner.path, "m2"},
}

// TestTenantsCannotProbe sends many new prompts, and then the same ones as another tenant, on another route and for
// another model: they go where the first ones went as often as chance has it. The owner's own go there nearly always,
// so that the test would notice.
//
// Chance is one in so many endpoints. The test fails at more than six standard deviations of the binomial distribution,
// which is χ² above 36: chance does that less than once in ten million runs. p is in the log.
func TestTenantsCannotProbe(t *testing.T) {
	for _, c := range []struct {
		store string
		pairs int
		redis bool
	}{{"embedded", 2000, false}, {"redis", 300, true}} {
		t.Run(c.store, func(t *testing.T) {
			const endpoints, batch = 4, 100
			f := newFleet(t, endpoints)
			o := harness.Options{Endpoints: f.endpoints, Config: fmt.Sprintf(caching, "", ""), Edit: otherRoute}
			if c.redis {
				o.Redis = redisserver.StartT(t, redisserver.Options{}).Addr()
				o.Config = fmt.Sprintf(caching, `"reserve_timeout":"5s",`, `,"redis_cluster":"warmgate-redis"`)
			}
			g := harness.StartT(t, o)
			awaitChosen(t, g)
			dice := rand.New(rand.NewPCG(probeSeed, 0))
			same := map[string]int{}
			for range c.pairs / batch {
				prompts, went := make([]string, batch), make([]string, batch)
				for i := range prompts {
					prompts[i] = freshPrompt(dice)
					went[i], _ = query(t, g, owner, prompts[i])
				}
				for _, p := range append(strangers, owner) {
					for _, i := range dice.Perm(batch) { // no order of the endpoints can look like an answer
						host, match := query(t, g, p, prompts[i])
						if host == went[i] {
							same[p.name]++
						}
						if p != owner && match != "0.00" {
							t.Fatalf("%s: %s of a prompt of another is assumed to be cached", p.name, match)
						}
					}
				}
			}
			for _, p := range strangers {
				judge(t, p.name, same[p.name], c.pairs, 1.0/endpoints)
			}
			if n := same[owner.name]; n < c.pairs*95/100 {
				t.Errorf("the same tenant finds its own prompt %d times of %d, so nothing was tested", n, c.pairs)
			}
		})
	}
}

// judge compares a number of hits with chance.
func judge(t *testing.T, name string, hits, pairs int, chance float64) {
	t.Helper()
	const limit = 36
	mean := chance * float64(pairs)
	off := float64(hits) - mean
	chi2 := off * off / (mean * (1 - chance)) // of hits and misses: one degree of freedom
	t.Logf("%s: %d of %d at the same endpoint, chance is %.0f; χ² = %.2f, p = %.3f", name, hits, pairs, mean, chi2,
		math.Erfc(math.Sqrt(chi2/2)))
	if chi2 > limit {
		t.Errorf("%s: %d of %d prompts go where they went before, by chance %.0f would", name, hits, pairs, mean)
	}
}

// freshPrompt is a new prompt: long enough for a block, and different from its first word on.
func freshPrompt(dice *rand.Rand) string {
	var b strings.Builder
	for b.Len() < 700 {
		fmt.Fprintf(&b, "%x ", dice.Uint64())
	}
	return b.String()
}

// query sends a prompt and returns where it went, and what share of it was assumed to be cached there.
func query(t *testing.T, g *harness.Gateway, p probe, prompt string) (host, match string) {
	t.Helper()
	body := `{"model":"` + p.model + `","max_tokens":1,"messages":[{"role":"user","content":"` + prompt + `"}]}`
	var headers []string
	if p.tenant != "" {
		headers = append(headers, "x-tenant: "+p.tenant)
	}
	a := harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+p.path, body, headers...)
	if a.Status != http.StatusOK || a.Reason() != "chosen" {
		t.Fatalf("%s: answered %d, decided %q", p.name, a.Status, a.Reason())
	}
	return a.Host(), a.Header.Get("x-warmgate-match")
}

// otherRoute adds a second route to the same model servers.
var otherRoute = harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
	return harness.Insert(doc, harness.RoutesPath, "", 0,
		"[{name: other, match: {prefix: /other/}, route: {cluster: llm, prefix_rewrite: /}}]")
})
