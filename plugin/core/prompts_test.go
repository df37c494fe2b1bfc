package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// losses returns how many caches were lost, by the statistics published a moment later.
func (d *fakeDriver) losses() uint64 {
	d.advance(2 * time.Second)
	return d.Counter(stats.Losses + ";cluster=" + fakeCluster)
}

// Bodies with the same beginning that were read no further match by that part of their length. Their tokens do not
// count as expected to be cached: the rest may be new.
func TestPromptSeenInPart(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inspect_bytes":16384,`+
		`"output_tokens":1}}`)
	for number := range 10 {
		d.talk(number, 980)
	}
	before := d.Counter(stats.Expected)
	for number := range 20 {
		body := promptBody(1)[:3000] + strings.Repeat("x", 13384) + strings.Repeat(string(rune('a'+number)), 16384*3-4) + `"}`
		c := d.client(0, streamtest.Request{
			Headers: [][2]string{{"content-length", strconv.Itoa(len(body))}},
			Frames:  []string{body},
		})
		c.Head(200)
		match, _ := strconv.ParseFloat(c.Result().Headers["x-warmgate-match"], 64)
		if number > 0 && (match < 0.2 || match > 0.3) {
			t.Errorf("request %d: %.2f of the prompt is expected to be cached, want the quarter that was seen",
				number, match)
		}
		if work := d.Load(0).Tokens; number > 0 && work < 11_000 {
			t.Errorf("request %d: %d tokens in flight, want those of the part that was not seen", number, work)
		}
		c.Data(`{"usage":{"prompt_tokens":16000,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":1000}}}`)
		c.Finish()
	}
	if got := d.Counter(stats.Expected) - before; got != 0 {
		t.Errorf("%d tokens were expected to be cached", got)
	}
	if got := d.losses(); got != 0 {
		t.Errorf("%d losses", got)
	}
	d.drained()
}

// Responses that commonly lack usage do not affect what is known of the cache: an answer that broke off, and one of an
// API in which the server never reports cached tokens.
func TestMissingUsageIsNoLoss(t *testing.T) {
	for name, send := range map[string]func(d *fakeDriver, body string){
		"the client leaves": func(d *fakeDriver, body string) {
			c := d.client(0, streamtest.Request{Frames: []string{body}})
			c.Head(200)
			c.Data("data: {\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":1}}\n\n")
			c.ResetByClient()
		},
		"all is computed": func(d *fakeDriver, body string) {
			c := d.client(0, streamtest.Request{Frames: []string{strings.TrimSuffix(body, "}") + `,"prompt_logprobs":1}`}})
			c.Head(200)
			c.Data(`{"usage":{"prompt_tokens":1000,"completion_tokens":9}}`)
			c.Finish()
			if got := c.Result().Headers["x-warmgate-match"]; got != "0.00" {
				d.t.Errorf("%s of a prompt that is computed as a whole is expected to be cached", got)
			}
		},
		"another API": func(d *fakeDriver, body string) {
			c := d.client(0, streamtest.Request{Path: "/v1/messages?beta=true", Frames: []string{body}})
			c.Head(200)
			c.Data(`{"usage":{"input_tokens":1000,"output_tokens":9}}`)
			c.Finish()
		},
	} {
		d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
		for number := range 20 {
			d.talk(number, 980)
		}
		output := d.outputs()
		for number := range 20 {
			send(d, promptBody(number))
		}
		if got := d.losses(); got != 0 {
			t.Errorf("%s: %d losses", name, got)
		}
		if got := d.talk(7, 980); got != "1.00" {
			t.Errorf("%s: %s of a prompt is expected to be cached, want all", name, got)
		}
		if got := d.outputs(); got < 9 || got > output { // all that have ended have 9
			t.Errorf("%s: answers are estimated to have %g tokens, want 9 to %g", name, got, output)
		}
		d.drained()
	}
}

// outputs returns the length of answers that the first worker expects.
func (d *fakeDriver) outputs() float64 {
	w := d.workers[0]
	key := learned.Key{Cluster: fakeCluster, Guess: clusters.GuessOf(w.current.Set.Match("", "", ""))}
	return math.Round(w.vm.Prompts.Models.Typical(key, 0).Output)
}

// In shadow mode the gateway chooses, and the records of the endpoint that the plugin would have chosen are kept.
func TestShadowKeepsRecordedPrompts(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"shadow":true,`+
		`"health":{"panic_threshold":0,"slow_start":0}}}`)
	served := map[int]int{}
	for range 8 {
		c := d.client(0, streamtest.Request{Frames: []string{promptBody(1)}})
		c.Finish()
		served[c.Upstream()]++
	}
	if len(served) != 2 {
		t.Fatalf("served by %v: the gateway does not spread", served)
	}
	for i := range 2 {
		list := make([]streamtest.Endpoint, 2)
		list[1-i].State = streamtest.Unhealthy
		d.SetEndpoints(list)
		c := d.client(0, streamtest.Request{Frames: []string{promptBody(1)}})
		c.Finish()
		h := c.Result().Headers
		if match, host := h["x-warmgate-match"], h["x-warmgate-host"]; match != "1.00" || host != d.Addr(i) {
			t.Errorf("%s of the prompt counts as cached at %s, want all at endpoint %d, "+
				"which has served it", match, host,
				i)
		}
	}
}
