package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// sender is a tenant, or several of a class, of whom some requests always wait.
type sender struct {
	class, tenant string
	output        int  // tokens of an answer
	stream        bool // answers come in parts
	mute          bool // and do not tell their usage

	waiting []*fakeStream
	served  int // tokens, of prompts and answers
}

// answering is a request that is being answered.
type answering struct {
	*fakeStream
	by *sender
	at time.Duration // its end
}

// tokenTime is how long a token of an answer takes: so little that nobody waits for the aging, which breaks the shares.
const tokenTime = 200 * time.Microsecond

// promptTokens is how long each prompt is, at 4 bytes of text a token.
const promptTokens = 10

// compete has the senders compete for the places of one endpoint until n answers have ended.
func (d *fakeDriver) compete(n int, senders ...*sender) {
	d.t.Helper()
	var busy []answering
	for ended := 0; ended < n; {
		for _, s := range senders {
			for len(s.waiting) < 4 {
				s.waiting = append(s.waiting, d.client(0, s.request()))
			}
			kept := s.waiting[:0]
			for _, c := range s.waiting {
				switch {
				case c.Upstream() >= 0:
					busy = append(busy, answering{c, s, d.now + time.Duration(s.output)*tokenTime})
				case c.Ended:
					d.t.Fatalf("a request of %q was refused: %+v", s.tenant, c.Result())
				default:
					kept = append(kept, c)
				}
			}
			s.waiting = kept
		}
		next := -1
		for i := range busy {
			if next < 0 || busy[i].at < busy[next].at {
				next = i
			}
		}
		if next < 0 {
			d.advance(time.Millisecond)
			continue
		}
		d.advance(max(0, busy[next].at-d.now))
		busy[next].by.answer(busy[next].fakeStream)
		busy = append(busy[:next], busy[next+1:]...)
		ended++
	}
}

func (s *sender) request() streamtest.Request {
	body := fmt.Sprintf(`{"stream":%v,"prompt":%q}`, s.stream, strings.Repeat("abc ", promptTokens))
	return streamtest.Request{
		Headers: [][2]string{{"x-warmgate-class", s.class}, {"x-warmgate-tenant", s.tenant}},
		Frames:  []string{body},
	}
}

// answer answers a request of the sender.
func (s *sender) answer(c *fakeStream) {
	s.served += promptTokens + s.output
	c.Head(200)
	for i := 0; s.stream && i < s.output; i++ {
		c.Data("data: {}\n\n")
	}
	if !s.mute {
		c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, promptTokens, s.output))
	}
	c.Finish()
}

// While all wait, each tenant of a class gets an equal part of the tokens that are served, and each class its part by
// weight, however long the answers of each are.
func TestTenantsShareTokens(t *testing.T) {
	const byTokens, byPrompts = `"lb_policy":"global_least_request","lb_config":{"unit":"tokens",`,
		`"lb_policy":"prefix_cache","lb_config":{`
	for name, c := range map[string]struct {
		stream, mute bool
		policy       string
		store        string
	}{
		"unit tokens":            {false, false, byTokens, "embedded"},
		"prefix_cache":           {false, false, byPrompts, "embedded"},
		"prefix_cache, in Redis": {false, false, byPrompts, "Redis"},
		"streams":                {true, false, byPrompts, "embedded"},
		"streams, without usage": {true, true, byTokens, "embedded"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startShares(t, c.store, "{"+c.policy+`"max_inflight":4,`+shippedQueue(t))
			long := &sender{class: "batch", tenant: "long", output: 650, stream: c.stream, mute: c.mute}
			short := &sender{class: "batch", tenant: "short", output: 50, stream: c.stream, mute: c.mute}
			d.compete(100, long, short) // until the first answers have shown what is typical
			long.served, short.served = 0, 0
			d.compete(1000, long, short)
			wantShare(t, long, short, 1)
		})
	}
}

func TestClassesShareTokens(t *testing.T) {
	d := startShares(t, "embedded", `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":4,`+shippedQueue(t))
	short := &sender{class: "interactive", tenant: "chat", output: 50}
	long := &sender{class: "batch", tenant: "job", output: 650}
	d.compete(200, long, short)
	long.served, short.served = 0, 0
	d.compete(4000, long, short)
	wantShare(t, short, long, 8)
}

// What is typical of the answers to one tenant of the queue is not expected of those to another.
func TestEstimatesOfTenants(t *testing.T) {
	d := startShares(t, "embedded", `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens",`+shippedQueue(t))
	long, short := &sender{tenant: "long", output: 650}, &sender{tenant: "short", output: 50}
	for range 16 {
		for _, s := range []*sender{long, short} {
			s.answer(d.client(0, s.request()))
		}
	}
	for _, s := range []*sender{long, short} {
		want := int64(promptTokens + s.output)
		if got := d.client(0, s.request()).core.first.Lease.Tokens; got < want*9/10 || got > want*11/10 {
			t.Errorf("a request of %q is estimated at %d tokens, its answers had %d", s.tenant, got, want)
		}
	}
}

// What counts as served of a request that has waited.
func TestServedTokens(t *testing.T) {
	const usage = `{"usage":{"prompt_tokens":100,"completion_tokens":30`
	for name, c := range map[string]struct {
		stream bool
		status int
		parts  []string
		want   int64
	}{
		"usage":                     {false, 200, []string{usage + "}}"}, 130},
		"usage with cached tokens":  {false, 200, []string{usage + `,"prompt_tokens_details":{"cached_tokens":60}}}`}, 70},
		"a stream without usage":    {true, 200, []string{"data: a\n\n", "data: b\n\n"}, promptTokens + 2},
		"an answer without usage":   {false, 200, []string{`{"text":"a"}`}, promptTokens + 256},
		"a server without room":     {false, 503, []string{"busy"}, 0},
		"a request that is refused": {false, 400, []string{"bad"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := startShares(t, "embedded", `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens",`+
				`"max_inflight":1,`+shippedQueue(t))
			s := &sender{stream: c.stream}
			busy := d.client(0, s.request())
			waits := d.client(0, s.request())
			d.wantWaiting(waits)
			d.advance(time.Millisecond)
			busy.ResetByClient()
			waits.Head(c.status)
			for _, part := range c.parts {
				waits.Data(part)
			}
			waits.core.first.Response.Complete = true
			waits.in(func() {
				if got := waits.core.first.Wait.ServedTokens(); got != c.want {
					t.Errorf("%d tokens, want %d", got, c.want)
				}
			})
		})
	}
}

// startShares starts one worker before one endpoint, with a configuration that lacks its end.
func startShares(t *testing.T, store, config string) *fakeDriver {
	t.Helper()
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 1)}
	if store == "Redis" {
		d.attachRedis(t, redisserver.StartT(t, redisserver.Options{})).latency = time.Millisecond
		config += `,"serviceFQDN":"redis.static","password":"my secret"`
	}
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if !d.configure(config + "}}") {
		t.Fatalf("refused: %s", config)
	}
	d.advance(time.Second)
	return d
}

// wantShare fails the test unless one sender was served so many times as much as another, within 5 %.
func wantShare(t *testing.T, a, b *sender, times float64) {
	t.Helper()
	ratio := float64(a.served) / float64(b.served)
	t.Logf("%q was served %d tokens, %q %d", a.tenant, a.served, b.tenant, b.served)
	if ratio < times*0.95 || ratio > times*1.05 {
		t.Errorf("%q was served %.2f times as much as %q, want %g", a.tenant, ratio, b.tenant, times)
	}
}
