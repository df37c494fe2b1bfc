package core

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// startRedis returns a process that counts in Redis, whose answers take a millisecond.
func startRedis(t *testing.T, s *redisserver.Server, workers, endpoints int, members string) *fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, workers)}
	d.attachRedis(t, s).latency = time.Millisecond
	d.SetEndpoints(make([]streamtest.Endpoint, endpoints))
	if !d.configure(redisConfig(members)) {
		t.Fatal("refused")
	}
	return d
}

func redisConfig(members string) string {
	if members != "" {
		members += ","
	}
	return `{"lb_policy":"global_least_request","lb_config":{` + members +
		`"serviceFQDN":"redis.static","password":"my secret","debug_headers":true,"health":{"slow_start":0}}}`
}

// warm makes Redis know the scripts and the candidates of every worker.
func (d *fakeDriver) warm() {
	d.t.Helper()
	for i := range d.workers {
		c := d.client(i, streamtest.Request{})
		c.Finish()
		if c.Result().Status != 200 {
			d.t.Fatalf("worker %d: %+v", i, c.Result())
		}
	}
}

// waits are the situations in which a request waits for Redis.
var waits = map[string]struct {
	config  string
	request streamtest.Request
}{
	"without a body":     {"", streamtest.Request{}},
	"in front of a body": {"", streamtest.Request{Frames: []string{"a", "b"}, Trailers: [][2]string{{"t", "1"}}}},
	"behind a body":      {`"unit":"tokens"`, streamtest.Request{Frames: []string{`{"prompt":`, `"a"}`}}},
	"behind trailers": {`"unit":"tokens"`, streamtest.Request{
		Frames:   []string{`{"prompt":"a"}`},
		Trailers: [][2]string{{"t", "1"}},
	}},
	"within a body": {
		`"unit":"tokens","max_inspect_bytes":1024`,
		streamtest.Request{Frames: []string{`{"prompt":"` + strings.Repeat("a", 1500), strings.Repeat("b", 500), `"}`}},
	},
}

// eachWait runs a test in each of these situations; the test itself waits for the answers.
func eachWait(t *testing.T, f func(t *testing.T, d *fakeDriver, r streamtest.Request)) {
	server := redisserver.StartT(t, redisserver.Options{})
	for name, w := range waits {
		t.Run(name, func(t *testing.T) {
			d := startRedis(t, server, 1, 2, w.config)
			d.warm()
			d.redis.manual = true
			f(t, d, w.request)
			d.redis.manual = false
			d.advance(2 * time.Second)
			d.drained()
		})
	}
}

func TestWaitsForTheAnswer(t *testing.T) {
	eachWait(t, func(t *testing.T, d *fakeDriver, r streamtest.Request) {
		c := d.client(0, r)
		d.advance(900 * time.Microsecond)
		if !c.Held() || c.Upstream() >= 0 || c.Received().Body != "" {
			t.Fatalf("held %v, at endpoint %d with %q before the answer", c.Held(), c.Upstream(), c.Received().Body)
		}
		if early := c.core.first.Config.Unit == lb.Requests; c.Request.StoppedAll() != early {
			t.Errorf("the body waits in front of the plugin: %v, want %v", c.Request.StoppedAll(), early)
		}
		d.advance(200 * time.Microsecond)
		if want := strings.Join(r.Frames, ""); c.Held() || !c.Received().Ended || c.Received().Body != want {
			t.Fatalf("held %v, the endpoint has %q, all of it: %v; want %q", c.Held(), c.Received().Body,
				c.Received().Ended, want)
		}
		if len(r.Trailers) > 0 && !maps.Equal(c.Received().Trailers, fakehost.Headers(r.Trailers).Map()) {
			t.Errorf("trailers %v", c.Received().Trailers)
		}
		if got := d.redis.loads()[d.Addr(c.Upstream())].Requests; got != 1 {
			t.Errorf("Redis counts %d requests at the endpoint, want 1", got)
		}
		c.Finish()
		if host := c.Result().Headers["x-warmgate-host"]; host != d.Addr(c.Upstream()) {
			t.Errorf("chosen %q, served by %q", host, d.Addr(c.Upstream()))
		}
	})
}

// Without an answer, the embedded store decides when the timeout is over, and at once while the circuit breaker is
// open.
func TestNoAnswer(t *testing.T) {
	eachWait(t, func(t *testing.T, d *fakeDriver, r streamtest.Request) {
		d.redis.fate = redisSilent
		waited := uint64(0)
		for range 5 {
			c := d.client(0, r)
			if !c.Held() {
				c.Finish()
				break // it has failed often enough
			}
			waited++
			d.advance(19 * time.Millisecond)
			if !c.Held() && waited > 1 { // amending the previous one has failed as well
				c.Finish()
				break
			}
			if !c.Held() {
				t.Fatal("a request does not wait for as long as it may")
			}
			d.advance(2 * time.Millisecond)
			if c.Held() || c.Upstream() < 0 {
				t.Fatal("a request still waits after reserve_timeout")
			}
			c.Finish()
			if got := c.Result().Headers["x-warmgate-reason"]; got != "chosen" {
				t.Errorf("reason %q", got)
			}
		}
		c := d.client(0, r)
		if c.Held() || c.Upstream() < 0 {
			t.Error("a request waits although Redis has not answered the ones before")
		}
		c.Finish()
		if got := d.metrics.values[stats.Fallbacks+";cause=timeout"]; got != waited || waited < 2 {
			t.Errorf("%d requests waited in vain, of which %d are counted", waited, got)
		}
		if got := d.metrics.values[stats.Fallbacks+";cause=breaker_open"]; got < 1 {
			t.Errorf("%d fallbacks without a call", got)
		}
		d.redis.fate = redisAnswers
	})
}

func TestClientLeavesWhileReserving(t *testing.T) {
	eachWait(t, func(t *testing.T, d *fakeDriver, r streamtest.Request) {
		for name, leave := range map[string]func(c *fakeStream){
			"alone":                    (*fakeStream).ResetByClient,
			"with the gateway's reply": func(c *fakeStream) { c.answer(504, "") },
			"with the gateway's reply, which takes its time": func(c *fakeStream) {
				c.Request.Abort()
				c.answerBegins("504", false)
				d.advance(5 * time.Millisecond)
				c.end()
			},
		} {
			c := d.client(0, r)
			leave(c)
			d.advance(5 * time.Millisecond)
			if c.Received().Headers != nil {
				t.Errorf("%s: an endpoint has the request", name)
			}
			for addr, load := range d.redis.loads() {
				if load != (lb.Load{}) {
					t.Errorf("%s: Redis still counts %+v at %s", name, load, addr)
				}
			}
		}
		if got := d.metrics.decisions(); got["chosen"] != 4 || len(got) != 1 {
			t.Errorf("counted as %v", got)
		}
	})
}

// An endpoint that leaves between the choice and the answer gets nothing: some gateways would fail the request.
func TestEndpointLeavesWhileReserving(t *testing.T) {
	eachWait(t, func(t *testing.T, d *fakeDriver, r streamtest.Request) {
		d.SetEndpoints([]streamtest.Endpoint{{}, {}, {State: streamtest.Unhealthy}})
		d.redis.fate = redisAnswers
		c := d.client(0, r)
		d.SetEndpoints([]streamtest.Endpoint{{State: streamtest.Unhealthy}, {State: streamtest.Draining}, {}})
		d.advance(5 * time.Millisecond)
		if c.Upstream() != 2 {
			t.Errorf("the request is at endpoint %d, want the only one that is left", c.Upstream())
		}
		c.Finish()
		if got := c.Result().Headers["x-warmgate-reason"]; got != "no_healthy_endpoint" {
			t.Errorf("reason %q", got)
		}
	})
}

// A wrong answer of Redis, or none, costs the request only its count in Redis.
func TestRedisAnswersWrongly(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for cut, cause := range map[string]string{
		"-OOM command not allowed when used memory > 'maxmemory'.\r\n": "oom",
		"-LOADING Redis is loading the dataset in memory\r\n":          "loading",
		"-NOAUTH Authentication required.\r\n":                         "auth",
		"-READONLY You can't write against a read only replica.\r\n":   "readonly",
		"-MOVED 1 10.0.0.1:6379\r\n":                                   "moved",
		"+what\r\n":                                                    "garbage",
		"*1\r\n":                                                       "garbage",
		"":                                                             "garbage",
		"<html>":                                                       "garbage",
	} {
		d := startRedis(t, server, 1, 2, "")
		d.warm()
		d.redis.cut = []byte(cut)
		c := d.client(0, streamtest.Request{})
		c.Finish()
		if got := c.Result().Headers["x-warmgate-reason"]; got != "chosen" || c.Result().Status != 200 {
			t.Errorf("%q: %d, reason %q", cut, c.Result().Status, got)
		}
		if got := d.metrics.values[stats.Fallbacks+";cause="+cause]; got != 1 {
			t.Errorf("%q: %d fallbacks with cause %s: %v", cut, got, cause, d.metrics.values)
		}
		d.redis.cut = nil
		d.advance(3 * time.Second)
		d.drained()
		if strings.Contains(strings.Join(d.log, "\n"), "secret") {
			t.Errorf("a password in the log: %q", d.log)
		}
	}
}

func TestGatewayRefusesTheDestination(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	d.steerErr = errors.New("not here")
	c := d.workers[0].open(streamtest.Request{}.Filled())
	d.drained()
	c.Finish()
	if got := d.metrics.decisions(); c.Result().Status != 200 || !maps.Equal(got, map[string]uint64{"store_error": 1}) {
		t.Errorf("status %d, decisions %v", c.Result().Status, got)
	}
}
