package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// This file tests what clients claim: a length, a limit, names, bodies that cannot be read.

const (
	claimers = 7
	honest   = 200
)

// claimConfigs count tokens under each of the policies that do.
var claimConfigs = map[string]string{
	"global_least_request": `{"lb_policy":"global_least_request",
		"lb_config":{"unit":"tokens","health":{"slow_start":0}}}`,
	"prefix_cache": `{"lb_policy":"prefix_cache","lb_config":{"health":{"slow_start":0}}}`,
}

// chatOf is a body for the model, whose name is JSON, with a prompt of its own for each number and a limit.
func chatOf(model string, number, limit int) string {
	return fmt.Sprintf(`{"model":%s,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`,
		model, limit, strings.Repeat(fmt.Sprintf("question %d ", number), 40))
}

// serveUsage sends a request and answers it with usage of so many tokens.
func (d *fakeDriver) serveUsage(body string, prompt, output int) {
	c := d.client(0, streamtest.Request{Frames: []string{body}})
	c.Head(200)
	c.Data(fmt.Sprintf("data: {\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", prompt, output))
	c.Finish()
}

// moved returns how many of the honest requests, all in flight at once, go elsewhere because of what claim has sent
// before.
func moved(t *testing.T, config string, claim func(d *fakeDriver)) (n int) {
	t.Helper()
	place := func(claim func(d *fakeDriver)) []int {
		d := startFake(t, 1, claimers+1, config)
		for number := range 100 {
			d.serveUsage(chatOf(`"model-a"`, number, 400), 120, 200)
		}
		claim(d)
		at := make([]int, claimers+1)
		for number := range honest {
			c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, 1000+number, 400)}})
			at[c.Upstream()]++
		}
		return at
	}
	without, with := place(func(*fakeDriver) {}), place(claim)
	t.Logf("%v without the claims, %v with them", without, with)
	for i := range with {
		n += max(0, with[i]-without[i])
	}
	return n
}

var gigabyte = [][2]string{{"content-length", "1000000000"}}

// padded adds to a body a key that engines ignore, with a megabyte in it.
func padded(body, before string) string {
	return strings.TrimSuffix(body, "}") + before + `,"metadata":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
}

// claims are what seven requests claim of themselves.
var claims = map[string]func(d *fakeDriver){
	"a length": func(d *fakeDriver) {
		for range claimers {
			d.client(0, streamtest.Request{Headers: gigabyte, Unended: true})
		}
		d.advance(time.Second)
	},
	"a length, with the beginning of a body": func(d *fakeDriver) {
		for number := range claimers {
			body := chatOf(`"model-a"`, number, 400)
			c := d.client(0, streamtest.Request{Headers: gigabyte, Frames: []string{body[:300]}, Unended: true})
			d.advance(time.Second)
			c.Send(body[300:310], false)
		}
	},
	"a limit": func(d *fakeDriver) {
		for number := range claimers {
			c := d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, number, 1_000_000)}})
			c.Head(200)
			c.Data("data: {}\n\n")
		}
	},
	"answers": func(d *fakeDriver) {
		for number := range claimers {
			body := strings.Replace(chatOf(`"model-a"`, number, 1_000_000), `"stream"`, `"n":1000,"stream"`, 1)
			d.client(0, streamtest.Request{Frames: []string{body}})
		}
	},
	"a spelling of the name": func(d *fakeDriver) {
		for number := range claimers {
			d.client(0, streamtest.Request{Frames: []string{chatOf(`"\u006dodel-a"`, number, 1_000_000)}})
		}
	},
	"many names": func(d *fakeDriver) {
		for number := range 2000 {
			d.serveUsage(chatOf(fmt.Sprintf(`"model-%d"`, number), number, 1), 120, 1)
		}
		for number := range claimers {
			d.client(0, streamtest.Request{Frames: []string{chatOf(`"model-a"`, number, 1_000_000)}})
		}
	},
	"text behind what is read": func(d *fakeDriver) {
		for number := range claimers {
			d.client(0, streamtest.Request{Frames: []string{padded(chatOf(`"model-a"`, number, 400), "")}})
		}
	},
	"a length of what cannot be read": func(d *fakeDriver) {
		for number := range claimers {
			d.client(0, streamtest.Request{Frames: []string{padded(chatOf(`"model-a"`, number, 400), `,"x":NaN`)}})
		}
	},
}

// A client does not move more requests of others than it has requests, up to a small factor, whatever it claims.
func TestClaimsDoNotMoveOthers(t *testing.T) {
	for name, claim := range claims {
		for policy, config := range claimConfigs {
			t.Run(policy+"/"+name, func(t *testing.T) {
				const most = 2 * honest * claimers / (honest + claimers)
				if n := moved(t, config, claim); n > most {
					t.Errorf("%d of %d requests moved, want %d at most", n, honest, most)
				}
			})
		}
	}
}

// A claimed limit does not move more than a few requests of others where these set limits that their answers reach,
// from which nothing is known of an answer without a limit. Claims at all servers but one, as above, would not show it:
// what they move has nowhere to go.
func TestClaimedLimitsMoveFew(t *testing.T) {
	const claimants, servers, few = 2, 8, 6
	limitOf := func(number int) int { return 6 + number%18 }
	begin := func(d *fakeDriver, body string) int {
		c := d.client(0, streamtest.Request{Frames: []string{body}})
		c.Head(200)
		c.Data("data: {}\n\n")
		return c.Upstream()
	}
	place := func(t *testing.T, config string, answered int, claim func(number int) string) []int {
		d := startFake(t, 1, servers, config)
		for number := range 100 {
			limit := limitOf(number)
			d.serveUsage(chatOf(`"model-a"`, number, limit), 120, limit)
			if number%20 == 7 && answered > 0 {
				d.serveUsage(claim(number), 120, answered)
			}
		}
		for number := 0; number < claimants && claim != nil; number++ {
			begin(d, claim(number))
		}
		at := make([]int, servers)
		for number := range honest {
			at[begin(d, chatOf(`"model-a"`, 1000+number, limitOf(number)))]++
		}
		return at
	}
	for name, claim := range map[string]func(number int) string{
		"a limit": func(number int) string { return chatOf(`"model-a"`, number, 1_000_000) },
		"no limit": func(number int) string {
			return strings.Replace(chatOf(`"model-a"`, number, 1), `"max_tokens"`, `"x"`, 1)
		},
		"a spelling": func(number int) string { return chatOf(`"\u006dodel-a"`, number, 1_000_000) },
		"fresh names": func(number int) string {
			return chatOf(fmt.Sprintf(`"model-%d"`, number), number, 1_000_000)
		},
		"many answers": func(number int) string {
			return strings.Replace(chatOf(`"model-a"`, number, 1_000_000), `"stream"`, `"n":1000,"stream"`, 1)
		},
	} {
		for policy, config := range claimConfigs {
			without := place(t, config, 0, nil)
			for _, answered := range []int{0, 3, 25} { // tokens of earlier answers to claims, 0 for none
				t.Run(fmt.Sprintf("%s/%s/%d", policy, name, answered), func(t *testing.T) {
					with, n := place(t, config, answered, claim), 0
					for i := range with {
						n += max(0, with[i]-without[i])
					}
					if n > few*claimants {
						t.Errorf("%v without the claims, %v with them: %d of %d moved, want %d at most", without, with,
							n, honest, few*claimants)
					}
				})
			}
		}
	}
}

// unreadable are bodies of which only the length is known, by the reason, with the error in them.
var unreadable = map[string]streamtest.Request{
	"body_encoded": {Headers: [][2]string{{"content-encoding", "x"}}, Frames: []string{"{}"}},
	"body_encoded, multipart": {
		Headers: [][2]string{{"content-type", "multipart/form-data"}},
		Frames:  []string{"--x--"},
	},
	"body_ambiguous":               {Frames: []string{`{"model":"a","prompt":"p","model":"b"}`}},
	"body_malformed, no number":    {Frames: []string{`{"prompt":"a","temperature":NaN}`}},
	"body_malformed, a byte order": {Frames: []string{"\ufeff" + `{"prompt":"a"}`}},
}

// The cap applies to every request.
func TestUnreadableBodiesMeetTheCap(t *testing.T) {
	for name, r := range unreadable {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 1, `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inflight":4}}`)
			passed := 0
			var clients []*fakeStream
			for range 50 {
				c := d.client(0, r)
				if c.Upstream() >= 0 {
					passed++
				}
				clients = append(clients, c)
			}
			if passed != 4 {
				t.Errorf("%d of 50 requests passed, want 4", passed)
			}
			reason, _, _ := strings.Cut(name, ",")
			if got := d.metrics.decisions()[reason]; got != 4 {
				t.Errorf("%d decisions %s, want 4", got, reason)
			}
			for _, c := range clients {
				if c.Upstream() >= 0 {
					c.Finish()
				}
			}
			d.drained()
		})
	}
}

// A request that the gateway answers while its body is held has ended, whenever its stream ends.
func TestAnsweredByTheGatewayWhileHeld(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	c := d.client(0, streamtest.Request{Unended: true})
	c.answerBegins("413", false)
	c.Request.Abort()
	d.advance(time.Second)
	if load := d.Load(0); load.Requests != 0 {
		t.Errorf("%+v in flight for a request that was answered", load)
	}
	if c.Routed {
		t.Error("a request that was answered went on")
	}
	c.end()
	if got := d.metrics.decisions(); len(got) != 1 || got["body_late"] != 1 {
		t.Errorf("decisions %v, want one, body_late", got)
	}
	d.drained()
}
