package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
)

const opsToken = "ops-token-0123456789"

// limitsConfig has a caller that may set limits, and one that may not.
func limitsConfig(members string) string {
	return strings.Replace(apiConfig(members), `"token":`,
		`"callers":{"ops":{"token":"`+opsToken+`","sets_limits":true},"etl":{"token":"`+etlToken+`"}},"token":`, 1)
}

// setLimits sends a call about limits of a target to a worker; without a body it is a DELETE.
func (d *fakeDriver) setLimits(worker int, token, target, body string) *fakeStream {
	r := streamtest.Request{
		Worker: worker, Method: "PUT", Path: apiPath + "/targets" + target, Frames: []string{body},
		Headers: authorization("Bearer " + token),
	}
	if body == "" {
		r.Method, r.Frames = "DELETE", nil
	}
	c := d.client(worker, r)
	d.advance(50 * time.Millisecond)
	return c
}

// wantLimits fails the test unless a worker shows these limits of target c, and admits so many tasks of 1,000 tokens.
func (d *fakeDriver) wantLimits(what string, worker, most int, limits string) {
	d.t.Helper()
	later := func(name string, body ...string) string {
		c := d.call(worker, name, body...)
		d.advance(50 * time.Millisecond)
		return c.Result().Body
	}
	if models := later("/models"); !strings.Contains(models, `"weight":0.5,`+limits) {
		d.t.Errorf("%s: worker %d shows %s, want of c %s", what, worker, models, limits)
	}
	var ids []string
	for range most + 1 {
		_, id, ok := strings.Cut(later("/schedule", `{"estimated_tokens":1000,"models":["c"]}`), `"task_id":"`)
		if ok {
			ids = append(ids, id[:len(fakeTaskText)])
		}
	}
	if len(ids) != most {
		d.t.Errorf("%s: worker %d admits %d tasks, want %d", what, worker, len(ids), most)
	}
	for _, id := range ids {
		later("/complete", `{"task_id":"`+id+`","actual_tokens":0}`)
	}
}

const (
	configuredLimits = `"max_concurrent_requests":2,"max_tokens_per_minute":0,"max_requests_per_minute":0,` +
		`"limits_set":[]`
	tokensSet = `"max_concurrent_requests":5,"max_tokens_per_minute":4000,"max_requests_per_minute":0,` +
		`"limits_set":["max_concurrent_requests","max_tokens_per_minute"]`
)

// Limits that a caller sets are in force with the answer, in other workers within a second. They stay through a push,
// but for those whose configured value it changes, until they are deleted.
func TestLimitsAtRunTime(t *testing.T) {
	for _, store := range []string{"embedded", "redis"} {
		t.Run(store, func(t *testing.T) {
			d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
			d.useSites()
			config := limitsConfig("")
			if store == "redis" {
				d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
				config = limitsConfig(`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms",`)
			}
			push := func(text string) {
				t.Helper()
				if !d.configure(text) {
					t.Fatalf("refused: %s", text)
				}
				d.advance(1100 * time.Millisecond)
			}
			push(config)
			d.wantLimits("configured", 0, 2, configuredLimits)
			set := func(body string) {
				t.Helper()
				d.wantAnswer(body, d.setLimits(0, opsToken, "/%63?x=1", body), 200, `{"ok":true}`)
			}
			set(`{"max_concurrent_requests":5,"max_tokens_per_minute":4000}`)
			d.wantLimits("set", 0, 4, tokensSet)
			d.advance(1100 * time.Millisecond)
			d.wantLimits("at another worker", 1, 4, tokensSet)
			push(config + " ")
			d.wantLimits("after a push", 1, 4, tokensSet)
			push(strings.Replace(config, `"max_concurrent_requests":2}`, `"max_concurrent_requests":3}`, 1))
			d.wantLimits("after a push of another limit", 1, 3,
				`"max_concurrent_requests":3,"max_tokens_per_minute":4000,"max_requests_per_minute":0,`+
					`"limits_set":["max_tokens_per_minute"]`)
			push(config)
			set(`{"max_concurrent_requests":1}`)
			d.wantLimits("others", 0, 1, `"max_concurrent_requests":1,"max_tokens_per_minute":0,`+
				`"max_requests_per_minute":0,"limits_set":["max_concurrent_requests"]`)
			set("")
			d.wantLimits("deleted", 0, 2, configuredLimits)
			d.advance(1100 * time.Millisecond)
			d.wantLimits("deleted, at another worker", 1, 2, configuredLimits)
			d.noToken()
		})
	}
}

// Limits that nobody may set any more are not in force.
func TestLimitsWithoutTheRight(t *testing.T) {
	d := startSites(t, 1, limitsConfig(""))
	d.wantAnswer("set", d.setLimits(0, opsToken, "/c", `{"max_concurrent_requests":5}`), 200, `{"ok":true}`)
	push := func(what, config string, most int, limits string) {
		t.Helper()
		if !d.configure(config) {
			t.Fatal("refused")
		}
		d.advance(1100 * time.Millisecond)
		d.wantLimits(what, 0, most, limits)
	}
	push("without the right", apiConfig(""), 2, configuredLimits)
	push("with it again", limitsConfig(""), 5, `"max_concurrent_requests":5,`)
}

func TestLimitsAreRefused(t *testing.T) {
	d := startSites(t, 1, limitsConfig(""))
	const may = `{"error":"this token may not set limits, want that of a caller with sets_limits"}`
	const nobody = `{"error":"no such target, want /targets/ and one of a, b, c"}`
	for _, c := range []struct {
		token, target, body string
		status              int
		want                string
	}{
		{apiToken, "/a", `{}`, 403, may},
		{etlToken, "/a", ``, 403, may},
		{opsToken, "/x", `{"max_concurrent_requests":1}`, 404, nobody},
		{opsToken, "/x", ``, 404, nobody},
		{opsToken, "", ``, 404, nobody},
		{opsToken, "/a/b", `{}`, 404, nobody},
		{
			opsToken, "/a", `{"max_requests_per_minute":-1}`, 400,
			`{"error":"max_requests_per_minute: got -1, want a number from 1 to 1000000000000, or 0"}`,
		},
	} {
		d.wantAnswer(c.target+" "+c.body, d.setLimits(0, c.token, c.target, c.body), c.status, c.want)
	}
	get := d.callerCall(opsToken, "/targets/a", "")
	d.wantAnswer("GET", get, 405, `{"error":"wrong method, want PUT, DELETE"}`)
	if allow := get.Result().Headers["allow"]; allow != "PUT, DELETE" {
		t.Errorf("allow is %q", allow)
	}
	tasks := d.fakeTasks()
	tasks.err = lb.ErrContended
	d.wantAnswer("no store", d.setLimits(0, opsToken, "/a", ""), 503, `{"error":"the store does not answer, try again"}`)
	for result, want := range map[string]uint64{"forbidden": 2, "not_found": 4, "bad_request": 1, "unavailable": 1} {
		if n := d.apiCalls("targets", result); n != want {
			t.Errorf("%s: counted %d times, want %d", result, n, want)
		}
	}
}

// A worker that starts while Redis does not answer has the limits that any worker of the gateway has last read, and so
// has one that has missed the latest.
func TestLimitsWhileRedisIsLost(t *testing.T) {
	const one, two, configured = `{"max_concurrent_requests":1}`, `{"max_concurrent_requests":2}`, 20 + 10 + 2
	for _, c := range []struct {
		what   string
		act    func(d *fakeDriver, set func(body string))
		served int
		old    bool // the worker knows what there was before
	}{
		{"as configured", func(*fakeDriver, func(string)) {}, configured, false},
		{"set", func(_ *fakeDriver, set func(string)) { set(one) }, 3, false},
		{"set since the worker asked", func(_ *fakeDriver, set func(string)) { set(one) }, 3, true},
		{"set to others", func(_ *fakeDriver, set func(string)) { set(one); set(two) }, 6, false},
		{"deleted", func(_ *fakeDriver, set func(string)) { set(one); set("") }, configured, false},
		{"read, and all workers are new", func(d *fakeDriver, set func(string)) {
			set(one)
			d.advance(1100 * time.Millisecond)
			d.workers[0].lose()
		}, 3, false},
		{"set while an answer to another worker was on its way", func(d *fakeDriver, set func(string)) {
			set(one)
			d.redis.latency = 90 * time.Millisecond
			d.in(d.workers[1].vm, func() { d.workers[1].vm.API.RefreshLimits(d.now) })
			d.redis.latency = time.Millisecond
			d.advance(time.Millisecond)
			d.setLimits(0, opsToken, "/c", two)
			d.advance(100 * time.Millisecond)
		}, 4, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := startRedisTasks(t, redisserver.StartT(t, redisserver.Options{}))
			d.anyCluster = true
			if !d.configure(limitsConfig(`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms",`)) {
				t.Fatal("refused")
			}
			d.advance(1100 * time.Millisecond)
			c.act(d, func(body string) {
				for _, target := range []string{"/a", "/b", "/c"} {
					d.wantAnswer(target, d.setLimits(0, opsToken, target, body), 200, `{"ok":true}`)
				}
			})
			d.redis.fate = redisRefuses
			if !c.old {
				d.workers[1].lose()
			}
			d.advance(1100 * time.Millisecond)
			for _, worker := range []int{1, 0} { // both count what both have
				for range 40 {
					if s := d.client(worker, streamtest.Request{}); s.Routed {
						c.served--
					}
				}
				if c.served != 0 {
					t.Errorf("worker %d: still %d requests are to be served", worker, c.served)
				}
			}
		})
	}
}

// An answer of Redis that comes after what another worker was told later changes nothing.
func TestLateAnswerAboutLimits(t *testing.T) {
	d := startRedisTasks(t, redisserver.StartT(t, redisserver.Options{}))
	d.anyCluster = true
	if !d.configure(limitsConfig(`"serviceFQDN":"redis.static","password":"my secret","reserve_timeout":"100ms",`)) {
		t.Fatal("refused")
	}
	d.advance(1100 * time.Millisecond)
	set := func(target, most string) {
		t.Helper()
		body := `{"max_concurrent_requests":` + most + `}`
		d.wantAnswer(target, d.setLimits(0, opsToken, target, body), 200, `{"ok":true}`)
	}
	for _, target := range []string{"/a", "/b", "/c"} {
		set(target, "1")
	}
	refresh := func() { d.in(d.workers[1].vm, func() { d.workers[1].vm.API.RefreshLimits(d.now) }) }
	d.redis.latency = 90 * time.Millisecond
	refresh()
	d.redis.latency = time.Millisecond
	d.advance(time.Millisecond)
	set("/c", "2")
	d.redis.fate = redisRefuses
	d.advance(time.Millisecond)
	refresh()
	d.advance(100 * time.Millisecond)
	served := 0
	for range 20 {
		if d.client(1, streamtest.Request{}).Routed {
			served++
		}
	}
	if served != 4 {
		t.Errorf("%d requests are served, want 1 + 1 + 2", served)
	}
}
