package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// loop is one client of a closed loop: it sends its next request when it has the answer to the last one.
type loop struct {
	kind   string
	kinds  []string // of its requests in turn, nil for kind only
	sent   int
	client *fakeStream
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
		for i, l := range loops {
			if l.client != nil && d.now < l.until {
				continue
			}
			if l.client != nil {
				l.served()
			}
			if n++; l.kinds != nil {
				l.kind = l.kinds[l.sent%len(l.kinds)]
				l.sent++
			}
			q := send(l.kind).Filled()
			q.Client = fmt.Sprint("10.9.0.", i)
			c := d.client(n%len(d.workers), q)
			at := c.Upstream()
			if had[l.kind] == nil {
				had[l.kind] = make([]int, len(d.endpoints))
			}
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
	for api, counting := range map[string]string{
		"/v1/messages":                         "/v1/messages/count_tokens",
		"/v1beta/models/MODEL:generateContent": "/v1beta/models/MODEL:countTokens",
	} {
		t.Run(api, func(t *testing.T) {
			d := startFake(t, 2, 4, requestsConfig)
			send := func(kind string) streamtest.Request {
				model, api, _ := strings.Cut(kind, " ")
				q := bodyOf(model, 100)
				q.Path = strings.Replace(api, "MODEL", model, 1)
				return q
			}
			answer := func(kind string, at int) (int, string) {
				if strings.HasPrefix(kind, "base") || at == 3 {
					return 200, ""
				}
				return 404, `{"type":"error","error":{"type":"not_found_error","message":"The model ` +
					"`sql-adapter`" + ` does not exist."}}`
			}
			asks, base, counts := "sql-adapter "+api, "base "+api, "sql-adapter "+counting
			loops := newLoops(counts, counts, counts, asks, asks, asks, base, base)
			had, refused := d.loopsPlay(loops, send, answer, 20*time.Second)
			d.wantFewRefused(t, counts, had, refused)
		})
	}
}

// wantFewRefused wants at most 2 % of the requests of a kind refused, and no endpoint to lose weight for them.
func (d *fakeDriver) wantFewRefused(t *testing.T, kind string, had map[string][]int, refused map[string]int) {
	t.Helper()
	total := 0
	for _, n := range had[kind] {
		total += n
	}
	t.Logf("%v, %d of %d refused of %s", had, refused[kind], total, kind)
	if 50*refused[kind] > total {
		t.Errorf("%d of %d requests of %s were refused", refused[kind], total, kind)
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
			d.wantFewRefused(t, "sql-adapter", had, refused)
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
// their weight, and their part of the short ones, in whatever words they refuse.
func TestMixedContextLengths(t *testing.T) {
	for who, message := range map[string]string{
		"vLLM": "This model's maximum context length is 4096 tokens.",
		"vLLM 0.16": "You passed 7500 input tokens and requested 16 output tokens. However, the model's context " +
			"length is only 4096 tokens, resulting in a maximum input length of 4080 tokens.",
		"Mistral": "Prompt contains 7500 tokens and 0 draft tokens, too large for model with 4096 maximum context " +
			"length",
		"LiteLLM": "litellm.BadRequestError: OpenAIException - This model's maximum context length is 4096 tokens.",
	} {
		t.Run(who, func(t *testing.T) {
			d := startFake(t, 2, 4, requestsConfig)
			had := d.mixedLengths(t, func(kind string) streamtest.Request {
				if kind == "long" {
					return bodyOf("m", 30_000)
				}
				return bodyOf("m", 100)
			}, message)
			all := 0
			for at := range 4 {
				all += had["long"][at] + had["short"][at]
			}
			for at := range 4 {
				if n := had["long"][at] + had["short"][at]; n < all/5 {
					t.Errorf("endpoint %d has %d of %d requests: %v and %v", at, n, all, had["long"], had["short"])
				}
			}
		})
	}
}

// Where limits of answers are read, one that an endpoint's context has no room for is a fact as well.
func TestMixedContextLengthsByAnswers(t *testing.T) {
	d := startFake(t, 2, 4, strings.Replace(requestsConfig, `"lb_config":{`, `"lb_config":{"unit":"tokens",`, 1))
	d.mixedLengths(t, func(kind string) streamtest.Request {
		tokens := 16
		if kind == "long" {
			tokens = 32_000
		}
		return streamtest.Request{Frames: []string{fmt.Sprintf(
			`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"word"}]}`, tokens)}}
	}, "This model's maximum context length is 32000 tokens. However, you requested 32000 output tokens and your "+
		"prompt contains at least 7 input tokens, for a total of at least 32007 tokens.")
}

// mixedLengths plays requests of which two endpoints refuse the long ones, with the message.
func (d *fakeDriver) mixedLengths(t *testing.T, send func(kind string) streamtest.Request, message string) (
	had map[string][]int,
) {
	loops := newLoops("", "", "", "", "", "", "", "", "", "", "", "")
	for i, l := range loops {
		l.kinds, l.sent = []string{"long", "short", "short", "short", "short", "short", "long", "long", "short"}, i
	}
	had, refused := d.loopsPlay(loops, send, func(kind string, at int) (int, string) {
		if kind == "short" || at >= 2 {
			return 200, ""
		}
		return 400, fmt.Sprintf(`{"error":{"message":%q,"code":400}}`, message)
	}, 12*time.Second)
	t.Logf("long %v, %d refused; short %v", had["long"], refused["long"], had["short"])
	if refused["long"] > 10 {
		t.Errorf("%d long prompts were refused: %v", refused["long"], had["long"])
	}
	for addr, w := range d.weights() {
		if w != 1 {
			t.Errorf("%s has weight %v", addr, w)
		}
	}
	if n := d.metrics.values[stats.Ejections+";cluster="+fakeCluster]; n != 0 {
		t.Errorf("%d ejections", n)
	}
	return had
}

// adapterForm is how a request names the adapter, sql, and how it is refused.
type adapterForm struct {
	path, body string
	status     int
	answer     string
}

var adapterForms = map[string]adapterForm{
	"Gemini": {
		"/v1beta/models/sql:generateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`,
		404, `{"error":{"code":404,"message":"models/sql is not found for API version v1beta"}}`,
	},
	"Azure": {
		"/openai/deployments/sql/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 404,
		`{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist."}}`,
	},
	"Triton": {
		"/v2/models/sql/generate", `{"text_input":"x"}`,
		400, `{"error":"Request for unknown model: 'sql' is not found"}`,
	},
	"audio": {
		"/v1/audio/transcriptions", "--b\r\ncontent-disposition: form-data; name=\"language\"\r\n\r\nen\r\n" +
			"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nsql\r\n" +
			"--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" +
			strings.Repeat("\x00", 1000),
		404, `{"error":{"message":"The model does not exist.","type":"NotFoundError","code":404}}`,
	},
	"LiteLLM": {
		"/v1/chat/completions", `{"model":"sql","messages":[{"role":"user","content":"x"}]}`,
		400, `{"error":{"message":"/chat/completions: Invalid model name passed in model=sql. Call ` +
			"`/v1/models` to view available models for your key.\"}}",
	},
	"Ray": {
		"/v1/chat/completions", `{"model":"sql","messages":[{"role":"user","content":"x"}]}`,
		404, `{"error":{"message":"Could not find model with id sql","code":404}}`,
	},
}

// request returns one for the model.
func (f *adapterForm) request(model string) (q streamtest.Request) {
	q.Path, q.Frames = strings.Replace(f.path, "sql", model, 1), []string{strings.Replace(f.body, "sql", model, 1)}
	if strings.HasPrefix(f.body, "--b") {
		q.Headers = [][2]string{{"content-type", "multipart/form-data; boundary=b"}}
	}
	return q
}

// What an endpoint does not have is learned in whatever form a request names its model, and in whatever words it is
// refused.
func TestAdapterInOtherForms(t *testing.T) {
	for name, form := range adapterForms {
		for unit, config := range map[string]string{
			"requests": requestsConfig,
			"tokens":   strings.Replace(requestsConfig, `"lb_config":{`, `"lb_config":{"unit":"tokens",`, 1),
		} {
			t.Run(name+", "+unit, func(t *testing.T) {
				d := startFake(t, 2, 4, config)
				answer := func(kind string, at int) (int, string) {
					if kind == "base" || at == 3 {
						return 200, ""
					}
					return form.status, form.answer
				}
				had, refused := d.loopsPlay(newLoops("sql", "sql", "sql", "sql", "sql", "sql", "base", "base", "base",
					"base", "base", "base"), form.request, answer, 15*time.Second)
				d.wantFewRefused(t, "sql", had, refused)
			})
		}
	}
}
