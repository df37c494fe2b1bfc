package higresshost

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

const evalScript = "headers: stop; body: buffer; end: stop, redis PING"

func TestRedisAnswer(t *testing.T) {
	g := start(t, Options{})
	g.Redis("redis.static")
	s := script(g, evalScript)
	calls := g.RedisCalls()
	if len(calls) != 1 || string(calls[0].Query) != "PING\r\n" || calls[0].Cluster != "redis.static" ||
		calls[0].Thread != g.Worker(0).Name() {
		t.Fatalf("calls %+v", calls)
	}
	if !s.Paused() {
		t.Fatal("not paused")
	}
	if !calls[0].Answer([]byte("+PONG\r\n")) || calls[0].Answer([]byte("+PONG\r\n")) {
		t.Error("one answer per call")
	}
	if !s.OnUpstream || last(t, g, "redis reply") != `0 "+PONG\r\n"` {
		t.Errorf("the guest logged %q", guestLog(g))
	}
	if n := len(g.RedisCalls()); n != 0 {
		t.Errorf("%d calls left", n)
	}
}

func TestRedisFailures(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(g *Gateway)
		act     func(g *Gateway, call *RedisCall)
		log     string
	}{
		{"unknown cluster", func(*Gateway) {}, nil, "redis:  (error status returned by host: bad argument)"},
		{"no endpoint", func(g *Gateway) {
			g.Redis("redis.static").Down = true
		}, nil, "redis:  (error status returned by host: internal failure)"},
		{"connection lost", func(g *Gateway) { g.Redis("redis.static") }, func(_ *Gateway, c *RedisCall) { c.Fail() }, `redis reply: 10 ""`},
		{"silence", func(g *Gateway) { g.Redis("redis.static") }, func(g *Gateway, c *RedisCall) {
			g.Advance(time.Second)
			if c.Answer([]byte("+late\r\n")) {
				t.Error("a late answer was delivered")
			}
		}, `redis reply: 10 ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{})
			c.prepare(g)
			script(g, evalScript)
			if c.act != nil {
				c.act(g, g.RedisCalls()[0])
			}
			if !strings.Contains(strings.Join(guestLog(g), "|"), c.log) {
				t.Errorf("the guest logged %q, want %q", guestLog(g), c.log)
			}
		})
	}
}

// The connection's timer is one for all its calls: a reply rearms it, its firing fails everything that waits.
func TestRedisTimeoutIsPerConnection(t *testing.T) {
	g := start(t, Options{})
	g.Redis("redis.static")
	script(g, "headers: redis_init")
	first, second, third := script(g, evalScript), script(g, evalScript), script(g, evalScript)
	g.Advance(150 * time.Millisecond)
	g.RedisCalls()[0].Answer([]byte("+OK\r\n"))
	g.Advance(150 * time.Millisecond)
	if first.Paused() || !second.Paused() || !third.Paused() {
		t.Fatal("the reply must rearm the timer of 200 ms")
	}
	g.Advance(50 * time.Millisecond)
	if second.Paused() || third.Paused() {
		t.Error("the timer must fail all pending calls")
	}
	inits := g.Redis("redis.static").Inits()
	if len(inits) != 1 || inits[0].Query != "db=0" || inits[0].User != "user" || inits[0].Password != "secret" ||
		inits[0].Worker != "worker 0" {
		t.Errorf("inits %+v", inits)
	}
}

// A client that leaves while its call is in flight: the call is still answered, but the answer has no receiver.
func TestRedisAnswerAfterTheStream(t *testing.T) {
	g := start(t, Options{})
	g.Redis("redis.static")
	s := script(g, evalScript)
	s.ResetByClient()
	onceEach(t, s)
	if !g.RedisCalls()[0].Answer([]byte("+OK\r\n")) {
		t.Error("the call belongs to the plugin context, which lives")
	}
	if g.LogContains("redis reply") {
		t.Error("the SDK must drop the callback of a dead stream")
	}
}

func TestRedisAnswersAutomatically(t *testing.T) {
	g := start(t, Options{})
	g.Redis("redis.static")
	g.OnRedisCall = func(c *RedisCall) { g.After(5*time.Millisecond, func() { c.Answer([]byte("+OK\r\n")) }) }
	s := script(g, evalScript)
	if !s.Paused() {
		t.Fatal("answered too early")
	}
	g.Advance(5 * time.Millisecond)
	if s.Paused() {
		t.Error("not answered")
	}
}

func TestRedisCallOfDeadVM(t *testing.T) {
	g := start(t, Options{})
	g.Redis("redis.static")
	script(g, evalScript).ResetByClient()
	script(g, "headers: panic")
	if g.RedisCalls()[0].Answer([]byte("+OK\r\n")) {
		t.Error("delivered to a trapped VM")
	}
}

func TestHTTPCall(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: stopall, http llm")
	calls := g.HTTPCalls()
	if len(calls) != 1 || calls[0].Headers.Get(":path") != "/x" || calls[0].Timeout != 100*time.Millisecond {
		t.Fatalf("calls %+v", calls)
	}
	if !calls[0].Respond(200, []byte("body"), "x-a", "b") || calls[0].Respond(200, nil) {
		t.Error("one answer per call")
	}
	if !g.LogContains(`http reply 2 [[:status 200] [x-a b]] "body"`) || s.Paused() {
		t.Errorf("the guest logged %q", guestLog(g))
	}
}

func TestHTTPCallTimesOut(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: stopall, http llm")
	call := g.HTTPCalls()[0]
	g.Advance(100 * time.Millisecond)
	if !g.LogContains(`http reply 0 [] ""`) || s.Paused() || call.Respond(200, nil) {
		t.Errorf("the guest logged %q", guestLog(g))
	}
}

func TestHTTPCallToUnknownCluster(t *testing.T) {
	g := start(t, Options{})
	script(g, "headers: http nowhere")
	if got := last(t, g, "http"); !strings.Contains(got, "bad argument") {
		t.Errorf("the guest logged %s", got)
	}
}

func TestHTTPCallAutomatically(t *testing.T) {
	g := start(t, Options{})
	g.OnHTTPCall = func(c *HTTPCall) { c.Fail() }
	if s := script(g, "headers: stopall, http llm"); s.Paused() {
		t.Error("the answer must come once the guest has returned")
	}
}

func TestHostsAsJSON(t *testing.T) {
	g := start(t, Options{})
	g.Cluster("llm").Endpoint(host2).Health = fakehost.Unhealthy
	g.Cluster("llm").Endpoint(host2).Metrics = "a 1\nb \"2\""
	script(g, "headers: hosts")
	want := `[[10.0.0.1:8000 {"health_status":"Healthy","metrics":""}] [10.0.0.2:8000 {"health_status":"Unhealthy","metrics":"a 1\nb \"2\""}]]`
	if got := last(t, g, "hosts"); got != want {
		t.Errorf("hosts %s\nwant  %s", got, want)
	}
	g.Worker(0).NewStream().To("r", "empty").Send("GET", "/", "", "x-script", "headers: hosts, local 500")
	if got := last(t, g, "hosts"); got != "[] (error status returned by host: not found)" {
		t.Errorf("hosts of no cluster: %s", got)
	}
}

func TestHostCallsAreCounted(t *testing.T) {
	g := start(t, Options{})
	g.ResetCalls()
	script(g, "headers: hosts, get :method")
	calls := g.HostCalls()
	if c := calls["get_upstream_hosts"]; c.Calls != 1 || c.Bytes < 80 {
		t.Errorf("get_upstream_hosts %+v", c)
	}
	// x-script is looked up once, :method once; name and value are both copied.
	if c := calls["get_header_map_value"]; c.Calls != 2 ||
		c.Bytes != len("x-script")+len("headers: hosts, get :method")+len(":method")+len("POST") {
		t.Errorf("get_header_map_value %+v", c)
	}
}

func TestPairs(t *testing.T) {
	want := fakehost.H("a", "1", "b", "", "a", "2")
	got, err := unmarshalPairs(marshalPairs(want))
	if err != nil || len(got) != 3 || got[2] != want[2] {
		t.Fatalf("%v, %v", got, err)
	}
	if vs := got.Values("A"); len(vs) != 2 || vs[1] != "2" || !got.Has("B") || got.Has("c") {
		t.Errorf("values %v", vs)
	}
	got.Set("a", "3")
	got.Del("b")
	if len(got) != 1 || got.Get("a") != "3" {
		t.Errorf("after Set and Del: %v", got)
	}
	for _, bad := range [][]byte{{1}, {255, 255, 255, 255}, {1, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 'a'}} {
		if h, err := unmarshalPairs(bad); err == nil {
			t.Errorf("%v read as %v", bad, h)
		}
	}
}

// FuzzPairs feeds the host what a broken guest could: it must answer with an error, never with a crash, and what it
// takes must come out again.
func FuzzPairs(f *testing.F) {
	f.Add(marshalPairs(fakehost.H("a", "1", "b", "")))
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := unmarshalPairs(b)
		if err != nil {
			return
		}
		again, err := unmarshalPairs(marshalPairs(h))
		if err != nil || len(again) != len(h) {
			t.Fatalf("%v came back as %v, %v", h, again, err)
		}
	})
}
