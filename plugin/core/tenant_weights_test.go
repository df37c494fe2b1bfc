package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/redisclient"
)

// withTenants returns a configuration with one target and budgets of tenants, whose tokens are weighed.
func withTenants(limit int, weights, others string) string {
	return fmt.Sprintf(`{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{%s`+
		`"health":{"slow_start":0,"consecutive_failures":0},`+
		`"output_tokens":10,"targets":{"a":{"weight":1}},"tenants":{"tenant_header":"x-tenant",`+
		`"max_tokens_per_minute":%d,%s}}}`, others, limit, weights)
}

// ofTenant sends a request of a tenant for a stream.
func (d *fakeDriver) ofTenant(tenant, model string) *fakeStream {
	return d.client(0, streamtest.Request{
		Headers: [][2]string{{"x-tenant", tenant}},
		Frames:  []string{`{"model":"` + model + `","stream":true,"prompt":"` + strings.Repeat("word ", 8) + `"}`},
	})
}

// usageOf is the last event but one of a stream.
func usageOf(prompt, cached, output int) string {
	return fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,"+
		"\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n", prompt, output, cached)
}

// streams answers with a stream.
func (s *fakeStream) streams(words int, more string) {
	s.Head(200, [2]string{"content-type", "text/event-stream"})
	for range words {
		s.Data(wordEvent)
	}
	if more != "" {
		s.Data(more)
	}
}

// usedBy returns how many tokens the tenant lacks in its budget.
func (d *fakeDriver) usedBy(tenant string) (tokens float64) {
	d.t.Helper()
	plan := (&lb.TenantBudget{}).Plan(lb.TenantsScope+views.BudgetScope, xxhash.Sum64String("tenant "+tenant), 0)
	addr := plan.Candidates[0].Addr
	table := plan.Scope + "/" + strconv.Itoa(int(lb.EndpointHash(addr)%8)) // as the embedded store spreads them
	d.workers[0].vm.Stores.Local.Levels(d.now, table, []string{addr},
		func(levels []lb.BudgetLevel, err error) {
			if err != nil {
				d.t.Error(err)
				return
			}
			tokens = levels[0].Budget.MissingTokens
		})
	return tokens
}

// startTenants returns processes with budgets of tenants, one for each store.
func startTenants(t *testing.T, limit int, weights string) map[string]*fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
	d.useSites()
	d.attachRedis(t, redisserver.StartT(t, redisserver.Options{}))
	if !d.configure(withTenants(limit, weights, `"serviceFQDN":"redis.static","reserve_timeout":"100ms",`)) {
		t.Fatal("refused")
	}
	d.advance(time.Second)
	return map[string]*fakeDriver{"embedded": startSites(t, 1, withTenants(limit, weights, "")), "Redis": d}
}

// A tenant whose prompts are found in caches gets more requests through within the same budget, in both stores.
func TestCachedTokensWeighLess(t *testing.T) {
	for store, d := range startTenants(t, 1000, `"weights":{"cached":0.1}`) {
		through := func(tenant string, cached int) (n int) {
			for range 20 {
				c := d.ofTenant(tenant, "m")
				if c.Upstream() < 0 {
					if !strings.Contains(c.Result().Body, `"tenant_over_budget"`) {
						t.Fatalf("%s: %+v", store, c.Result())
					}
					return n
				}
				n++
				c.streams(1, usageOf(390, cached, 10))
				c.Finish()
			}
			return n
		}
		// of 400 each: the bucket is not empty before the third; of 48 + 10 each it lasts for all 17
		if n := through("computed", 0); n != 3 {
			t.Errorf("%s: %d requests got through that were computed, want 3", store, n)
		}
		if n := through("cached", 380); n < 16 || n > 18 {
			t.Errorf("%s: %d requests got through that were cached, want 17", store, n)
		}
	}
}

// usedInRedis is usedBy for a budget in Redis.
func (d *fakeDriver) usedInRedis(tenant string) float64 {
	d.t.Helper()
	d.advance(10 * time.Millisecond) // commands that are on their way
	plan := (&lb.TenantBudget{}).Plan(lb.TenantsScope+views.BudgetScope, xxhash.Sum64String("tenant "+tenant), 0)
	in := wire.NewReader(d.redis.value("HGET", redisclient.KeysOf(plan.Scope).Tenants, plan.Candidates[0].Addr).Str)
	in.Float64() // its time
	return in.Float64()
}

// Both stores charge the same, while a request runs and when it is over, however it ends. Each tenant sends one, since
// its budget refills as time passes: a token a minute.
func TestBothStoresChargeTheSame(t *testing.T) {
	stores := startTenants(t, 1, `"weights":{"cached":0.1,"output":3}`)
	ends := []func(s *fakeStream, i int){
		func(s *fakeStream, i int) { s.streams(1, usageOf(100+i, 10*i, 7*i)); s.Finish() },
		func(s *fakeStream, i int) { s.streams(i, ""); s.leave() },
		func(s *fakeStream, _ int) { s.leave() },
		func(s *fakeStream, _ int) { s.Head(404); s.Finish() },
		func(s *fakeStream, i int) { s.streams(2, usageOf(100, 90, i)); s.ResetByUpstream() },
	}
	for i := range 3 * len(ends) {
		var reserved, charged [2]float64
		for k, used := range []func(string) float64{stores["embedded"].usedBy, stores["Redis"].usedInRedis} {
			d, tenant := stores[[]string{"embedded", "Redis"}[k]], fmt.Sprint(i)
			s := d.ofTenant(tenant, "m")
			if reserved[k] = used(tenant); s.Upstream() < 0 || reserved[k] < 1 {
				t.Fatalf("request %d: %+v, reserved %v", i, s.Result(), reserved)
			}
			ends[i%len(ends)](s, i)
			charged[k] = used(tenant)
		}
		if math.Abs(reserved[0]-reserved[1]) > 0.9 || math.Abs(charged[0]-charged[1]) > 0.9 || charged[1] < 0 {
			t.Errorf("request %d: %v are reserved, %v are charged in the end", i, reserved, charged)
		}
	}
}

// What tokens weigh may follow from prices: of the model, relative to its own input.
func TestTokensWeighWhatTheyCost(t *testing.T) {
	const prices = `"prices":{"currency":"USD","models":{"small-*":{"input":0.15,"cached":0.075,"output":0.6},` +
		`"big":{"input":10,"output":20}}},`
	d := startSites(t, 1, withTenants(100_000, `"weigh_by":"prices"`, prices))
	for _, c := range []struct {
		model string
		want  float64
	}{{"small-1", 100 + 100 + 40}, {"big", 300 + 20}, {"other", 300 + 10}} {
		s := d.ofTenant(c.model, c.model)
		s.streams(1, usageOf(300, 200, 10))
		s.Finish()
		if got := d.usedBy(c.model); got != c.want {
			t.Errorf("%s: %v tokens, want %v", c.model, got, c.want)
		}
	}
}

// A request is charged what is expected while it runs: as much of its prompt is found in caches as of those before it.
func TestReservesWhatIsExpected(t *testing.T) {
	d := startSites(t, 1, withTenants(100_000, `"weights":{"cached":0.1,"output":2}`, ""))
	for range 40 {
		s := d.ofTenant("before", "m")
		s.streams(1, usageOf(10, 8, 50))
		s.Finish()
	}
	s := d.ofTenant("a", "m")
	if got := d.usedBy("a"); got != 2+1+100 { // 8 of 10 tokens count a tenth
		t.Errorf("%v tokens are reserved, want 103", got)
	}
	s.leave()
	if other := d.ofTenant("b", "unknown"); d.usedBy("b") == 0 {
		t.Error("nothing is reserved for a model that is not known")
	} else {
		other.leave()
	}
}

// However much tokens weigh, what a request was charged can be given back whole, in both stores.
func TestLargestChargeIsGivenBack(t *testing.T) {
	const heavy = 100
	for store, d := range startTenants(t, 1, fmt.Sprintf(`"weights":{"input":%d}`, heavy)) {
		used := d.usedBy
		if store == "Redis" {
			used = d.usedInRedis
		}
		for _, c := range []struct { // in this order: an answer shows how many tokens a prompt has
			tenant string
			end    func(*fakeStream)
		}{
			{"refused", func(s *fakeStream) { s.Head(404); s.Finish() }},
			{"answered", func(s *fakeStream) { s.streams(1, usageOf(1, 0, 1)); s.Finish() }},
		} {
			tenant := c.tenant
			s := d.client(0, streamtest.Request{Headers: [][2]string{{"x-tenant", tenant}}, Frames: []string{
				`{"model":"m","stream":true,"prompt":"` + strings.Repeat("word ", 30_000) + `"}`,
			}})
			if got := used(tenant); got != budget.MaxDelta {
				t.Errorf("%s, %s: %v are reserved", store, tenant, got)
			}
			c.end(s)
			if got := used(tenant); got > heavy+1 {
				t.Errorf("%s, %s: %v are not given back", store, tenant, got)
			}
		}
		s := d.ofTenant("much", "m")
		s.streams(1, usageOf(100_000, 0, 1))
		s.Finish()
		if got := used("much"); got < budget.MaxDelta-1 || got > budget.MaxDelta {
			t.Errorf("%s: %v are charged", store, got)
		}
	}
}

// leftOutput is how many tokens an answer is expected to have.
const leftOutput = 500

// thatLeave are ways in which requests of tenants end, and what they are then charged, by the tokens of the prompt.
var thatLeave = map[string]struct {
	end  func(*fakeStream)
	want func(prompt float64) float64
}{
	"before an answer": {func(s *fakeStream) { s.leave() }, func(p float64) float64 { return p + 2*leftOutput }},
	"after three tokens": {
		func(s *fakeStream) { s.streams(3, ""); s.leave() },
		func(p float64) float64 { return p + 2*3 },
	},
	"a stream that broke": {
		func(s *fakeStream) { s.streams(7, ""); s.ResetByUpstream() },
		func(p float64) float64 { return p + 2*7 },
	},
	"with usage so far": {
		func(s *fakeStream) { s.streams(3, usageOf(12, 0, 9)); s.leave() },
		func(float64) float64 { return 12 + 2*9 },
	},
	"at the end": {
		func(s *fakeStream) { s.streams(3, usageOf(12, 0, 9)); s.Finish() },
		func(float64) float64 { return 12 + 2*9 },
	},
	"in one piece": {
		func(s *fakeStream) {
			s.Head(200, [2]string{"content-type", "application/json"})
			s.Data(`{"choices":[{"text":"a`)
			s.leave()
		},
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"an error": {
		func(s *fakeStream) { s.Head(500); s.Finish() },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"an error as a stream": {
		func(s *fakeStream) {
			s.Head(500, [2]string{"content-type", "text/event-stream"})
			s.Data(wordEvent)
			s.Finish()
		},
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"a bad gateway": {
		func(s *fakeStream) { s.Head(502); s.Finish() },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"a slow client": {
		func(s *fakeStream) { s.Head(408); s.Finish() },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"a time that is over": {
		func(s *fakeStream) { s.Head(504); s.Finish() },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"left behind a proxy": {
		func(s *fakeStream) { s.Head(499); s.Finish() },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"reset before an answer": {
		func(s *fakeStream) { s.answer(503, "upstream_reset_before_response_started{connection_termination}") },
		func(p float64) float64 { return p + 2*leftOutput },
	},
	"refused": {func(s *fakeStream) { s.Head(400); s.Finish() }, func(float64) float64 { return 0 }},
	"not reached": {
		func(s *fakeStream) { s.answer(503, "no_healthy_upstream") },
		func(float64) float64 { return 0 },
	},
}

// A client that leaves a stream has its tenant charged for what has gone by, and one whose server was never reached
// for nothing. Of an answer in one piece nobody has seen what was done.
func TestTenantsOfClientsThatLeave(t *testing.T) {
	config := strings.Replace(withTenants(100_000, `"weights":{"output":2}`, ""), `"output_tokens":10`,
		fmt.Sprintf(`"output_tokens":%d`, leftOutput), 1)
	for name, c := range thatLeave {
		t.Run(name, func(t *testing.T) {
			d := startSites(t, 1, config)
			s := d.ofTenant("a", "m")
			prompt := d.usedBy("a") - 2*leftOutput
			if prompt < 5 || prompt > 40 {
				t.Fatalf("%v tokens of a prompt", prompt)
			}
			c.end(s)
			if got, want := d.usedBy("a"), c.want(prompt); got != want {
				t.Errorf("%v tokens, want %v", got, want)
			}
		})
	}
}

// Whatever becomes of requests, a tenant lacks exactly what those were charged that are over, and what is reserved for
// the others: nothing is given back twice, and nothing more than was charged.
func TestTenantsAreChargedExactly(t *testing.T) {
	for _, weight := range []struct{ cached, output float64 }{{0, 1}, {0.1, 4}, {0.25, 0}, {1, 1}} {
		weights := fmt.Sprintf(`"weights":{"cached":%v,"output":%v}`, weight.cached, weight.output)
		d, n := startSites(t, 1, withTenants(1_000_000_000, weights, "")), 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			tenant, total := fmt.Sprint("tenant", n), 0.0
			for range rapid.IntRange(1, 5).Draw(rt, "requests") {
				s := d.ofTenant(tenant, "m")
				reserved := d.usedBy(tenant) - total
				if reserved < 1 {
					rt.Fatalf("%v tokens are reserved", reserved)
				}
				in := rapid.IntRange(1, 400).Draw(rt, "prompt")
				hit := rapid.IntRange(0, in).Draw(rt, "hit")
				out := rapid.IntRange(1, 300).Draw(rt, "output")
				switch rapid.IntRange(0, 3).Draw(rt, "end") {
				case 0:
					s.streams(1, usageOf(in, hit, out))
					s.Finish()
					sum := float64(in-hit) + weight.cached*float64(hit) + weight.output*float64(out)
					total += math.Floor(sum + 0.5 + 1e-9)
				case 1: // nobody has seen what was done
					s.leave()
					total += reserved
				case 2:
					s.Head(404)
					s.Finish()
				default:
					s.answer(503, "no_healthy_upstream")
				}
				if got := d.usedBy(tenant); got != total {
					rt.Fatalf("%v tokens, want %v", got, total)
				}
			}
		})
	}
}
