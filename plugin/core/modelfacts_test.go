package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// loop is one client of a closed loop: it sends its next request when it has the answer to the last one.
type loop struct {
	kind   string
	client *fakeClient
	until  time.Duration
}

// served ends the client's request, which is served.
func (l *loop) served() {
	l.client.Head(200)
	l.client.Data(`{"choices":[{"text":"a"}]}`)
	l.client.Finish()
	l.client = nil
}

// answered is how an endpoint answers: at once, unless it serves. It serves with 200 and no body.
type answered func(kind string, at int) (status int, body string)

// loopsPlay has the clients of each kind send requests for a while, over all workers. Each answer that is served takes
// 100 ms. It returns how many requests of each kind each endpoint had, and how many were refused.
func (d *fakeDriver) loopsPlay(
	loops []*loop, send func(kind string) streamtest.Request, answer answered, d0 time.Duration,
) (had map[string][]int, refused map[string]int) {
	had, refused = map[string][]int{}, map[string]int{}
	n := 0
	for end := d.now + d0; d.now < end; d.advance(5 * time.Millisecond) {
		for _, l := range loops {
			if had[l.kind] == nil {
				had[l.kind] = make([]int, len(d.endpoints))
			}
			if l.client != nil && d.now < l.until {
				continue
			}
			if l.client != nil {
				l.served()
			}
			n++
			c := d.client(n%len(d.workers), send(l.kind).Filled())
			at := c.Upstream()
			had[l.kind][at]++
			status, body := answer(l.kind, at)
			if status == 200 && body == "" {
				l.client, l.until = c, d.now+100*time.Millisecond
				continue
			}
			refused[l.kind]++
			c.Head(status, [2]string{"content-type", "application/json"})
			c.Data(body)
			c.Finish()
		}
	}
	for _, l := range loops {
		if l.client != nil {
			l.served()
		}
	}
	return had, refused
}

func newLoops(kinds ...string) (loops []*loop) {
	for _, kind := range kinds {
		loops = append(loops, &loop{kind: kind})
	}
	return loops
}

// An agent counts the tokens of each prompt before it sends it. Counting needs the adapter as well: after the first few
// refusals it is done where the adapter is.
func TestCountsForAnAdapter(t *testing.T) {
	d := startFake(t, 2, 4, requestsConfig)
	send := func(kind string) streamtest.Request {
		model, api, _ := strings.Cut(kind, " ")
		q := bodyOf(model, 100)
		q.Path = api
		return q
	}
	answer := func(kind string, at int) (int, string) {
		if strings.HasPrefix(kind, "base") || at == 3 {
			return 200, ""
		}
		return 404, `{"type":"error","error":{"type":"not_found_error","message":"The model ` +
			"`sql-adapter`" + ` does not exist."}}`
	}
	const messages, base = "sql-adapter /v1/messages", "base /v1/messages"
	const counts = messages + "/count_tokens"
	loops := newLoops(counts, counts, counts, messages, messages, messages, base, base)
	had, refused := d.loopsPlay(loops, send, answer, 20*time.Second)
	total := 0
	for _, n := range had[counts] {
		total += n
	}
	t.Logf("%v, refused: %v", had, refused)
	if 50*refused[counts] > total {
		t.Errorf("%d of %d counts for the adapter were refused", refused[counts], total)
	}
	for addr, w := range d.weights() {
		if w != 1 {
			t.Errorf("%s has weight %v", addr, w)
		}
	}
}

func bodyOf(model string, size int) streamtest.Request {
	return streamtest.Request{Frames: []string{fmt.Sprintf(
		`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, strings.Repeat("word ", size/5))}}
}

// One of four endpoints has an adapter, the others answer at once that they have not: its requests are served, after
// the first few and but for a few that ask again, and each endpoint keeps its weight.
func TestAdapterOnAPart(t *testing.T) {
	for name, config := range map[string]string{
		"requests": requestsConfig, "tokens": strings.Replace(requestsConfig, "{", `{"lb_type":"endpoint",`, 1),
	} {
		if name == "tokens" {
			config = strings.Replace(config, `"lb_config":{`, `"lb_config":{"unit":"tokens",`, 1)
		}
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 2, 4, config)
			loops := newLoops("sql-adapter", "sql-adapter", "sql-adapter", "sql-adapter", "sql-adapter", "sql-adapter",
				"base", "base", "base", "base", "base", "base")
			answer := func(kind string, at int) (int, string) {
				if kind == "base" || at == 3 {
					return 200, ""
				}
				return 404, `{"error":{"message":"The model ` + "`sql-adapter`" + ` does not exist.",` +
					`"type":"NotFoundError","param":"model","code":404}}`
			}
			send := func(kind string) streamtest.Request { return bodyOf(kind, 100) }
			had, refused := d.loopsPlay(loops, send, answer, 15*time.Second)
			total := 0
			for _, n := range had["sql-adapter"] {
				total += n
			}
			t.Logf("%v, %d of %d refused for the adapter", had, refused["sql-adapter"], total)
			if 50*refused["sql-adapter"] > total {
				t.Errorf("%d of %d requests for the adapter were refused", refused["sql-adapter"], total)
			}
			for addr, w := range d.weights() {
				if w != 1 {
					t.Errorf("%s has weight %v", addr, w)
				}
			}
			had, _ = d.loopsPlay(loops[6:], send, answer, 5*time.Second) // the adapter's have left
			for at, n := range had["base"] {
				if n < 30 {
					t.Errorf("endpoint %d has %d of the base model's requests: %v", at, n, had["base"])
				}
			}
		})
	}
}

// Two of four endpoints have a smaller context: long prompts go to the others, and the endpoints that refuse them keep
// their weight, and their part of the short ones.
func TestMixedContextLengths(t *testing.T) {
	d := startFake(t, 2, 4, requestsConfig)
	loops := newLoops("long", "long", "long", "long", "short", "short", "short", "short", "short", "short", "short",
		"short")
	had, refused := d.loopsPlay(loops, func(kind string) streamtest.Request {
		if kind == "long" {
			return bodyOf("m", 30_000)
		}
		return bodyOf("m", 100)
	}, func(kind string, at int) (int, string) {
		if kind == "short" || at >= 2 {
			return 200, ""
		}
		return 400, `{"error":{"message":"This model's maximum context length is 4096 tokens.","code":400}}`
	}, 12*time.Second)
	t.Logf("long %v, %d refused; short %v", had["long"], refused["long"], had["short"])
	if refused["long"] > 10 {
		t.Errorf("%d long prompts were refused: %v", refused["long"], had["long"])
	}
	all := 0
	for at := range 4 {
		all += had["long"][at] + had["short"][at]
	}
	for at := range 4 {
		if n := had["long"][at] + had["short"][at]; n < all/5 {
			t.Errorf("endpoint %d has %d of %d requests: %v and %v", at, n, all, had["long"], had["short"])
		}
	}
	for addr, w := range d.weights() {
		if w != 1 {
			t.Errorf("%s has weight %v", addr, w)
		}
	}
	if n := d.metrics.values[statEjections+";cluster="+fakeCluster]; n != 0 {
		t.Errorf("%d ejections", n)
	}
}
