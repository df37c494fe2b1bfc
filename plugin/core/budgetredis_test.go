package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/views"
	"github.com/warmgate/warmgate/redisclient"
)

// budgetInRedis is a process whose clusters are targets with budgets in Redis.
type budgetInRedis struct{ *fakeDriver }

func startBudgetInRedis(t *testing.T, targets string) budgetInRedis {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
	d.useSites()
	d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
	config := `{"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"serviceFQDN":"redis.static",` +
		`"password":"my secret","reserve_timeout":"100ms","health":{"slow_start":0},"output_tokens":100,"targets":{` +
		targets + `}}}`
	if !d.configure(config) {
		t.Fatalf("refused: %s", config)
	}
	d.advance(time.Second)
	return budgetInRedis{d}
}

// states returns the budgets in Redis.
func (d budgetInRedis) states() map[string]budget.State {
	d.t.Helper()
	d.advance(200 * time.Millisecond) // commands that are on their way
	in := wire.NewReader(d.redis.value("GET", redisclient.KeysOf(views.BudgetScope).Budget).Str)
	n, _, refusals := int(in.Uint16()), in.Uint16(), int(in.Byte())
	in.Uint(6)
	all := make([]budget.State, n)
	for i := range all {
		s := &all[i]
		for _, f := range []*float64{
			&s.At, &s.MissingTokens, &s.MissingRequests, &s.Deficit, &s.Closed, &s.TokenRate, &s.RequestRate,
			&s.TakenAt, &s.Interval, &s.Told, &s.Asks,
		} {
			*f = in.Float64()
		}
	}
	in.Take(40 * refusals)
	states := map[string]budget.State{}
	for i, name := range strings.Split(strings.TrimSuffix(string(in.Rest()), "\n"), "\n") {
		states[name] = all[i]
	}
	return states
}

func (d budgetInRedis) open() *fakeStream {
	d.t.Helper()
	c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"x"}`}})
	if c.Upstream() < 0 {
		d.t.Fatalf("reached no server: %+v", c.Result())
	}
	return c
}

// finishWith ends a request with an answer that says what was used.
func (d budgetInRedis) finishWith(c *fakeStream, usage string) {
	c.Head(200, [2]string{"content-type", "application/json"})
	c.Data(`{"object":"text_completion","choices":[{"text":"y"}],"usage":` + usage + `}`)
	c.Finish()
}

const fewTokens = `{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`

// A request that was placed without Redis was not charged there, also once Redis counts it: its answer changes nothing
// there. One that Redis has charged is settled there.
func TestUsageOfRequestsThatRedisHasNotCharged(t *testing.T) {
	d := startBudgetInRedis(t, `"a":{"weight":1,"max_tokens_per_minute":1000,"max_requests_per_minute":6}`)
	charged := d.open()
	d.redis.fate = redisRefuses
	adopted, refused := d.open(), d.open()
	d.redis.fate = redisAnswers
	for range 20 {
		d.advance(time.Second)
	}
	table := d.redis.value("GET", redisclient.KeysOf(views.BudgetScope).Table).Str
	loads := redisclient.ParseLoads(table, map[string]int{"a": 0})
	if loads["a"].Requests != 3 {
		t.Fatalf("%d requests in Redis, want 3 with those that it has adopted", loads["a"].Requests)
	}
	before := d.states()["a"]
	if before.MissingTokens == 0 || before.MissingRequests == 0 {
		t.Fatalf("the first request was not charged: %+v", before)
	}
	d.finishWith(adopted, fewTokens)
	refused.Head(404)
	refused.Finish()
	if after := d.states()["a"]; after != before {
		t.Errorf("of what Redis has not charged it was given back: %+v, before %+v", after, before)
	}
	d.finishWith(charged, fewTokens)
	if after := d.states()["a"]; after.Deficit != 93 || after.MissingRequests == 0 {
		t.Errorf("what Redis has charged was not settled: %+v, before %+v", after, before)
	}
}

// What was charged for a request that no target gets, or another one, is given back in Redis with its place among the
// requests a minute.
func TestUnusedGrantsInRedis(t *testing.T) {
	const limits = `{"weight":1,"max_tokens_per_minute":1000,"max_requests_per_minute":1}`
	for name, c := range map[string]struct {
		run    func(budgetInRedis, *fakeStream)
		taken  string // who is charged for a request in the end
		tokens float64
	}{
		"no server is reached": {func(_ budgetInRedis, c *fakeStream) {
			c.answer(503, "upstream_reset_before_response_started{connection_failure}")
		}, "", 0},
		"the server refuses": {func(_ budgetInRedis, c *fakeStream) {
			c.Head(400)
			c.Finish()
		}, "a", 0},
		"another cluster serves": {func(d budgetInRedis, c *fakeStream) {
			c.strayTo(d.Addr(6))
			c.Finish()
		}, "", 0},
		"another target serves": {func(d budgetInRedis, c *fakeStream) {
			c.served, c.cluster = d.Addr(2), "b"
			c.Finish()
		}, "b", 100},
	} {
		t.Run(name, func(t *testing.T) {
			d := startBudgetInRedis(t, `"a":`+limits+`,"b":`+limits)
			request := d.open()
			if request.target() != "a" {
				t.Fatalf("sent to %s", request.target())
			}
			c.run(d, request)
			for target, s := range d.states() {
				requests, tokens := 0.0, 0.0
				if target == c.taken {
					requests, tokens = 1, c.tokens
				}
				// Since then the buckets may have refilled for five seconds.
				if s.MissingTokens > tokens || s.MissingTokens < tokens-85 ||
					s.MissingRequests > requests || s.MissingRequests < requests-0.1 {
					t.Errorf("%s: %+v, want %v requests of %v tokens missing", target, s, requests, tokens)
				}
			}
		})
	}
}

// A target has gauges also when its only requests came in the second in which the configuration changed, while it was
// the turn of the one before.
func TestBudgetGaugesOfANewConfiguration(t *testing.T) {
	for range 8 { // whose turn it is depends on the order of a map
		d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
		d.SetEndpoints([]streamtest.Endpoint{{}, {}})
		d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
		if !d.configure(requestsConfig) {
			t.Fatal("refused")
		}
		d.advance(200 * time.Millisecond) // with the first heartbeat
		for i := range 2 {
			if !d.configure(`{"lb_policy":"token_budget","lb_config":{"serviceFQDN":"redis.static","password":"my secret",` +
				`"health":{"slow_start":0},"targets":{"` + d.Addr(i) + `":{"weight":1,"max_tokens_per_minute":100000}}}}`) {
				t.Fatal("refused")
			}
			d.client(0, streamtest.Request{Frames: []string{"{}"}}).Finish()
			d.advance(50 * time.Millisecond)
		}
		d.advance(4 * time.Second)
		if n := d.Gauge(stats.BudgetLeft + ";cluster=" + fakeCluster + ";endpoint=" + d.Addr(1)); n < 90_000 {
			t.Fatalf("%d tokens are left by the gauge", n)
		}
		d.drained()
	}
}
