package hostcalls

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	endpoints    = 64
	bodyBytes    = 16 << 10
	answerBytes  = 197
	redisLatency = time.Millisecond
)

// policies are those of the tables, in the order of their columns, with their configurations.
var policies = []struct{ name, policy, members string }{
	{"`requests`", "global_least_request", `"unit":"requests"`},
	{"`tokens`", "global_least_request", `"unit":"tokens"`},
	{"`prefix_cache`", "prefix_cache", `"unit":"tokens"`},
}

// gateway is a host with one worker and an artifact.
type gateway struct {
	t     testing.TB
	host  *higresshost.Gateway
	envoy bool
	probe bool     // it has the plugin that only reads bodies, which chooses nothing
	redis net.Conn // nil for the embedded store
}

func start(t testing.TB, envoy, redis bool, policy, members string) *gateway {
	t.Helper()
	g := &gateway{t: t, envoy: envoy}
	var addrs []string
	for i := range endpoints {
		addrs = append(addrs, fmt.Sprintf("10.0.0.%d:8000", 100+i)) // of one length
	}
	o := higresshost.Options{BufferLimit: 1 << 20}
	kind := harness.HostHigress
	if envoy {
		kind = harness.HostEnvoy
		o.Profile, o.AllowStopIteration = higresshost.StockEnvoy, true
		members += `,"envoy":{"endpoints":["` + strings.Join(addrs, `","`) + `"]`
		if redis {
			members += `,"redis_cluster":"redis"`
		}
		members += "}"
	} else if redis {
		members += `,"serviceFQDN":"redis.static"`
	}
	o.Wasm = harness.ModuleT(t, kind)
	o.Config = `{"lb_policy":"` + policy + `","lb_config":{` + members + `}}`
	g.host = higresshost.Start(t, o)
	for _, a := range addrs {
		g.host.Cluster("llm").Add(a)
	}
	if redis {
		g.attachRedis()
	}
	g.host.Advance(2 * time.Second)
	return g
}

// attachRedis has a real server execute what the plugin sends.
func (g *gateway) attachRedis() {
	g.t.Helper()
	var err error
	if g.redis, err = net.Dial("tcp", redisserver.StartT(g.t, redisserver.Options{}).Addr()); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { g.redis.Close() })
	g.host.Cluster("redis")
	g.host.Redis("outbound|80||redis.static")
	g.host.OnRedisCall = func(c *higresshost.RedisCall) {
		reply := g.execute(c.Query, func(b []byte) bool {
			_, rest, err := redisclient.Parse(b)
			return err == nil && len(rest) == 0
		})
		g.host.After(redisLatency, func() { c.Answer(reply) })
	}
	g.host.OnHTTPCall = func(c *higresshost.HTTPCall) {
		reply := g.execute(c.Body, func(b []byte) bool { return bytes.HasSuffix(b, []byte("+PONG\r\n")) })
		g.host.After(redisLatency, func() { c.Respond(200, reply) })
	}
}

// execute returns what the server answers to the commands, once that is all.
func (g *gateway) execute(commands []byte, isAll func([]byte) bool) (reply []byte) {
	g.t.Helper()
	_ = g.redis.SetDeadline(time.Now().Add(harness.Patience))
	if _, err := g.redis.Write(commands); err != nil {
		g.t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	for !isAll(reply) {
		n, err := g.redis.Read(buf)
		if err != nil && err != io.EOF || n == 0 {
			g.t.Fatalf("after %q: %v", reply, err)
		}
		reply = append(reply, buf[:n]...)
	}
	return reply
}

// request plays one request, which an endpoint answers in one part.
func (g *gateway) request() {
	g.t.Helper()
	s := g.host.Worker(0).NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", ":path", "/v1/chat/completions", ":authority", "llm.example",
		":scheme", "http", "x-request-id", "00000000-0000-4000-8000-000000000000", "user-agent", "hostcalls",
		"content-type", "application/json", "content-length", strconv.Itoa(bodyBytes)), false)
	s.RequestBody([]byte(body), true)
	for i := 0; i < 10 && s.Paused(); i++ { // the first request waits for a script as well
		g.host.Advance(2 * redisLatency)
	}
	if g.probe {
		s.Respond(200, answer)
		return
	}
	chosen := s.Override
	if g.envoy {
		addr, err := base64.StdEncoding.DecodeString(s.Sent.Headers.Get("x-warmgate-session"))
		if err != nil {
			g.t.Fatal(err)
		}
		chosen = string(addr)
		s.Properties["upstream.address"] = chosen // this host does not know how stock Envoy is steered
	}
	if chosen == "" {
		g.t.Fatalf("the request was not placed: %q", s.FilterState["warmgate"])
	}
	s.Respond(200, answer)
	if g.redis != nil {
		g.host.Advance(2 * redisLatency)
	}
}

var (
	answer = fill(`{"id":"1","choices":[{"message":{"role":"assistant","content":"`, "ok ",
		`"}}],"usage":{"prompt_tokens":4096,"completion_tokens":9}}`, answerBytes)
	body = fill(`{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant."}`+
		strings.Repeat(`,{"role":"user","content":"`+strings.Repeat("the quick brown fox ", 50)+`"}`, 14)+
		`,{"role":"user","content":"`, "jumps over ", `"}]}`, bodyBytes)
)

// fill returns a text of so many bytes.
func fill(begin, middle, end string, length int) string {
	n := length - len(begin) - len(end)
	return begin + strings.Repeat(middle, n/len(middle)+1)[:n] + end
}
