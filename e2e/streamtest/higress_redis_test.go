package streamtest_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	higressRedisSource  = `"serviceFQDN":"redis.static"`
	higressRedisCluster = "outbound|80||redis.static"
	// redisLatency is how long an answer of Redis takes, in the host's simulated time.
	redisLatency = 200 * time.Microsecond
)

// TestHigressRedis runs the scenarios on the test host with counts in a real Redis.
func TestHigressRedis(t *testing.T) {
	t.Parallel()
	server := redisserver.StartT(t, redisserver.Options{})
	var groups []string // all
	if testing.Short() {
		groups = shortRedis
	}
	for i, profile := range []higresshost.Profile{higresshost.Higress21, higresshost.Higress22} {
		t.Run(profile.String(), func(t *testing.T) {
			if i > 0 {
				harness.LongT(t)
			}
			streamtest.Run(t, func(t *testing.T, _ streamtest.Options) streamtest.Gateway {
				return &higress{t: t, profile: profile, redis: dialRedis(t, server), drains: true}
			}, groups...)
		})
	}
}

// wantDrained fails the test unless all requests were counted in Redis, and nothing is counted there any more.
func (h *higress) wantDrained() {
	if h.t.Failed() {
		return
	}
	h.gw.Advance(2 * time.Second)
	for _, cause := range redisclient.Causes() {
		if n := h.Counter("warmgate_store_fallbacks_total;cause=" + cause); n != 0 {
			h.t.Errorf("%d requests were not counted in Redis: %s", n, cause)
		}
	}
	lost := false
	for _, w := range h.gw.Workers() {
		lost = lost || w.Recoveries() > 0
	}
	// Redis's clock is real: the leases of a lost VM have not expired yet
	if busy := busyIn(h.t, h.redis.server, higressCluster); len(busy) > 0 && !lost {
		h.t.Errorf("in Redis, these still carry requests: %v", busy)
	}
}

// higressRedis carries the host's Redis calls to a real server at once, and delivers the answers later. As the host, it
// has one login for all plugins, uses it when it connects, and shows nobody the answer to it.
type higressRedis struct {
	t      *testing.T
	server *redisserver.Server
	conn   *pipe.Conn
	inits  int                   // of plugins, so far
	login  higresshost.RedisInit // the latest of them
	mute   bool                  // answers do not come
	held   []func()              // but later, all of them
}

// speak ends the time in which Redis does not answer.
func (r *higressRedis) speak() {
	r.mute = false
	for _, answer := range r.held {
		answer()
	}
	r.held = nil
}

func dialRedis(t *testing.T, s *redisserver.Server) *higressRedis {
	t.Helper()
	if _, err := s.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	r := &higressRedis{t: t, server: s}
	t.Cleanup(func() { r.conn.Close() })
	r.connect()
	return r
}

// connect replaces the connection by one that begins with the login.
func (r *higressRedis) connect() {
	r.t.Helper()
	if r.conn != nil {
		r.conn.Close()
	}
	conn, err := pipe.Dial(r.server.Addr())
	if err != nil {
		r.t.Fatal(err)
	}
	r.conn = conn
	if l := r.login; l.User != "" {
		r.execute(redisclient.AppendCommand(nil, "AUTH", l.User, l.Password))
	} else if l.Password != "" {
		r.execute(redisclient.AppendCommand(nil, "AUTH", l.Password))
	}
	if query, err := url.ParseQuery(r.login.Query); err == nil && query.Has("db") {
		r.execute(redisclient.AppendCommand(nil, "SELECT", query.Get("db")))
	}
}

// attach makes the Redis service known to the gateway.
func (r *higressRedis) attach(gw *higresshost.Gateway) {
	if r == nil {
		return
	}
	gw.Redis(higressRedisCluster)
	gw.OnRedisCall = func(c *higresshost.RedisCall) {
		if inits := gw.Redis(higressRedisCluster).Inits(); len(inits) != r.inits {
			r.inits, r.login = len(inits), inits[len(inits)-1]
			r.connect()
		}
		reply := r.execute(c.Query)
		answer := func() { c.Answer(reply) }
		if r.mute {
			r.held = append(r.held, answer)
			return
		}
		gw.After(redisLatency, answer)
	}
	gw.Advance(1200 * time.Millisecond) // redis_init has failed without the service; it is repeated after a second
}

// execute carries out a command and returns the raw reply.
func (r *higressRedis) execute(query []byte) []byte {
	r.t.Helper()
	reply, err := r.conn.Carry(query)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

// startHigressRedis returns a gateway with one worker, two endpoints and a Redis service.
func startHigressRedis(t *testing.T, members string) *higress {
	t.Helper()
	h := &higress{t: t, redis: dialRedis(t, redisserver.StartT(t, redisserver.Options{}))}
	h.list = make([]streamtest.Endpoint, 2)
	if err := h.Configure(`{"lb_policy":"global_least_request","lb_config":{"debug_headers":true,` + members + `}}`); err != nil {
		t.Fatal(err)
	}
	return h
}

// The plugin repeats redis_init until the gateway knows the service, and after a refused login, but at most once a
// second.
func TestHigressRedisInit(t *testing.T) {
	h := startHigressRedis(t, `"serviceFQDN":"redis.static","username":"u","password":"my secret","database":3,"timeout":500`)
	h.redis.must("ACL", "SETUSER", "u", "on", ">my secret", "~*", "+@all")
	inits := func() (of []higresshost.RedisInit) {
		for _, i := range h.gw.Redis(higressRedisCluster).Inits() {
			if i.Worker == h.gw.Worker(0).Name() {
				of = append(of, i)
			}
		}
		return of
	}
	want := higresshost.RedisInit{
		Worker: h.gw.Worker(0).Name(), Query: "db=3&buffer_flush_timeout=0&max_buffer_size_before_flush=0",
		User: "u", Password: "my secret", Timeout: 500 * time.Millisecond,
	}
	if got := inits(); len(got) != 1 || got[0] != want {
		t.Errorf("introduced as %+v, want once %+v", got, want)
	}
	refuse := true
	forward := h.gw.OnRedisCall
	h.gw.OnRedisCall = func(c *higresshost.RedisCall) {
		if refuse {
			h.gw.After(redisLatency, func() { c.Answer([]byte("-NOAUTH Authentication required.\r\n")) })
			return
		}
		forward(c)
	}
	for range 10 { // one second
		s := h.Open(streamtest.Request{})
		if s.Upstream() < 0 {
			t.Fatal("the request reached no endpoint")
		}
		s.Finish()
		h.gw.Advance(90 * time.Millisecond)
	}
	if got := len(inits()); got < 2 || got > 3 {
		t.Errorf("introduced %d times, want once more for each second in which the login is refused", got)
	}
	refuse = false
	h.gw.Advance(3 * time.Second)
	before := h.Counter("warmgate_store_fallbacks_total;cause=auth")
	s := h.Open(streamtest.Request{})
	s.Finish()
	if got := h.Counter("warmgate_store_fallbacks_total;cause=auth"); before == 0 || got != before {
		t.Errorf("%d fallbacks for the login, then %d more", before, got-before)
	}
	if h.gw.LogContains("secret") {
		t.Error("a password in the log")
	}
}

// must carries out a command of a test with all rights.
func (r *higressRedis) must(words ...any) {
	r.t.Helper()
	if _, err := r.server.Do(words...); err != nil {
		r.t.Fatal(err)
	}
}

// A Redis that does not answer holds a request for reserve_timeout, to the millisecond of the gateway's timers; later
// requests are not held.
func TestHigressRedisIsSilent(t *testing.T) {
	h := startHigressRedis(t, higressRedisSource)
	h.Open(streamtest.Request{}).Finish()
	h.redis.mute = true
	waited := 0
	for range 6 {
		s := h.gw.Worker(0).Request("GET", "/", "")
		if !s.Paused() {
			s.Respond(200, "")
			break
		}
		waited++
		h.gw.Advance(19 * time.Millisecond)
		if !s.Paused() {
			t.Fatal("a request did not wait for as long as it may")
		}
		h.gw.Advance(2 * time.Millisecond)
		if s.Paused() || !s.OnUpstream {
			t.Fatal("a request still waits after reserve_timeout")
		}
		s.Respond(200, "")
	}
	if waited == 0 || waited > 5 {
		t.Errorf("%d requests waited, want some and no more than five", waited)
	}
	h.redis.speak()
	h.gw.Advance(3 * time.Second)
	s := h.gw.Worker(0).Request("GET", "/", "")
	if !s.Paused() {
		t.Error("Redis answers again, but gets no reservation")
	}
	h.settle()
	if !s.OnUpstream {
		t.Error("the answer does not reach the request")
	}
	s.Respond(200, "")
}

// A configuration that is replaced while its calls to Redis have no answer yet stays until all answers are there, and
// none is lost.
func TestHigressReplacedDuringCalls(t *testing.T) {
	h := startHigressRedis(t, higressRedisSource)
	h.Open(streamtest.Request{}).Finish()
	held := h.gw.Worker(0).Request("GET", "/", "")
	other := h.Open(streamtest.Request{})
	h.redis.mute = true
	other.Finish() // a release is on its way
	waiting := h.gw.Worker(0).Request("GET", "/", "")
	held.Respond(200, "")
	waiting.ResetByClient()
	if err := h.Configure(`{"lb_policy":"global_least_request","lb_config":{"max_inflight":100,` + higressRedisSource + `}}`); err != nil {
		t.Fatal(err)
	}
	if n := h.gw.Worker(0).Contexts(); n != 2 {
		t.Errorf("%d contexts while answers are missing, want the old and the new one", n)
	}
	h.redis.speak()
	h.settle()
	if n := h.gw.Worker(0).Contexts(); n != 1 {
		t.Errorf("%d contexts when all is answered, want the new one", n)
	}
	next := h.Open(streamtest.Request{})
	if next.Upstream() < 0 {
		t.Error("the next request reached no endpoint")
	}
	next.Finish()
	for _, cause := range redisclient.Causes() {
		if n := h.Counter("warmgate_store_fallbacks_total;cause=" + cause); n != 0 {
			t.Errorf("%d requests were not counted in Redis: %s", n, cause)
		}
	}
}
