package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/stats"
)

// behaving is a kind of calls, how they are answered, and from which one on they are to count for tokens, or for none.
type behaving struct {
	method, path string
	after        time.Duration
	answer       string
	want         string
}

const (
	chatPath, helperPath = "/v1/chat/completions", "/api/internal/embed-helper"

	usageShown   = `{"label":1,"usage":{"prompt_tokens":1000,"completion_tokens":9}}`
	nothingShown = `{"status":"ok"}`
	textStreamed = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"

	plainText = "text/plain: " // in front of the parts of an answer that is none in JSON

	counted = " tokens from 0"
	judged  = " tokens from 0 none from 32"
)

var chatCalls = behaving{"POST", chatPath, time.Second, usageShown, counted}

// helperCalls are calls that compute nothing.
func helperCalls(want string) behaving {
	return behaving{"POST", helperPath, 5 * time.Millisecond, nothingShown, want}
}

// behave has a call with the prompt of a number answered, and returns the tokens that it counted for.
func (d *fakeDriver) behave(b behaving, number int) (tokens int64, headers map[string]string) {
	q := streamtest.Request{Method: b.method, Path: strings.ReplaceAll(b.path, "ID", fmt.Sprint(number))}
	if b.method == "POST" {
		q.Frames = []string{promptBody(number)}
	}
	c := d.client(0, q)
	tokens = c.core.first.Lease.Tokens
	d.advance(b.after)
	text, plain := strings.CutPrefix(b.answer, plainText)
	if plain {
		c.Head(200, [2]string{"content-type", "text/plain"})
	} else {
		c.Head(200)
	}
	for part := range strings.SplitSeq(text, "|") {
		c.Data(part)
	}
	c.Finish()
	return tokens, c.Result().Headers
}

// askAll has n calls of each kind answered in turn.
func (d *fakeDriver) askAll(n int, kinds ...behaving) {
	d.t.Helper()
	got, before := make([]string, len(kinds)), make([]string, len(kinds))
	for i := range n {
		for k, b := range kinds {
			now := " none"
			if tokens, _ := d.behave(b, i); tokens > 0 {
				now = " tokens"
			}
			if now != before[k] {
				before[k] = now
				got[k] += fmt.Sprint(now, " from ", i)
			}
		}
	}
	for k, b := range kinds {
		if got[k] != b.want {
			d.t.Errorf("%d calls of %s:%s; want%s", n, b.path, got[k], b.want)
		}
	}
}

// Calls that no table lists count by what their answers show, after a few dozen of them.
func TestCallsByBehaviour(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	cl := func() *clusters.Cluster { return d.workers[0].vm.Clusters[fakeCluster] }
	d.askAll(80, chatCalls, helperCalls(judged),
		behaving{"POST", "/jobs/job-ID/done", 5 * time.Millisecond, "", judged},
		behaving{"POST", "/count", 0, plainText + "17", judged},
		behaving{"POST", "/my-plain-text", 0, plainText + "once| upon| a time", counted},
		behaving{"POST", "/my-generate", time.Second, usageShown, counted},
		behaving{"POST", "/cached-generate", 0, usageShown, counted},
		behaving{"POST", "/cached-text", 0, `{"text":"a"}`, counted},
		behaving{"POST", "/stream", 0, "data: {\"delta\":1}\n\n", counted},
		behaving{"POST", "/classify", 400 * time.Millisecond, `{"label":"a"}`, counted},
		behaving{"GET", "/my-text", time.Second, textStreamed, " none from 0 tokens from 32"},
		behaving{"GET", "/job", 0, usageShown, " none from 0"})
	samples, held := cl().Samples, d.client(0, streamtest.Request{Path: helperPath, Unended: true})
	if held.Upstream() < 0 {
		t.Error("a call that computes nothing is held for its body")
	}
	held.ResetByClient()
	d.askAll(20, helperCalls(" none from 0"))
	if cl().Samples != samples {
		t.Errorf("its answers are samples: %v, before: %v", cl().Samples, samples)
	}
	d.behave(helperCalls(""), 500)
	if _, headers := d.behave(chatCalls, 500); headers["x-warmgate-match"] != "0.00" {
		t.Errorf("%s of its prompt is expected to be cached", headers["x-warmgate-match"])
	}
	d.drained()
}

// What was judged by answers is taken back by the first that shows that a model works, and by some that take long. Then
// twice as many have to show that none does.
func TestBehaviourChanges(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	d.advance(time.Second)
	d.askAll(40, chatCalls, helperCalls(judged))
	work := `{"padding":"` + strings.Repeat("x", 9000) + `",` + usageShown[1:]
	d.askAll(3, behaving{"POST", helperPath, 0, work, " none from 0 tokens from 1"})
	if n := len(d.workers[0].vm.Prompts.Models); n != 2 { // of chat alone, and of all
		t.Errorf("%d models are known", n)
	}
	d.askAll(100, chatCalls, helperCalls(" tokens from 0 none from 64"))
	d.askAll(60, behaving{"POST", helperPath, time.Second, nothingShown, " none from 0 tokens from 32"})
}

// Paths that a client makes up take a bounded place, and what is known of others stays, and is learned beside them.
func TestMadeUpPathsChangeNothing(t *testing.T) {
	d := startFake(t, 1, 1, tokensConfig)
	d.advance(time.Second)
	d.askAll(40, chatCalls, helperCalls(judged))
	for i := range 60 {
		for j := range 50 {
			name := strings.Map(func(c rune) rune { return c + 'a' - '0' }, fmt.Sprint(50*i+j))
			d.behave(behaving{"POST", "/" + name, 0, nothingShown, ""}, 0)
		}
		d.behave(chatCalls, i)
		if tokens, _ := d.behave(behaving{"POST", "/another", 0, nothingShown, ""}, i); (tokens == 0) != (i >= 32) {
			t.Errorf("call %d of another path counts for %d tokens", i, tokens)
		}
	}
	d.askAll(1, helperCalls(" none from 0"))
}

// What computes nothing, by its answers, is charged to no target.
func TestBehaviourUnderBudgets(t *testing.T) {
	d := startBudget(t, 1, `"weight":1,"max_tokens_per_minute":1000000000`, "")
	_, before := d.behave(helperCalls(""), 0)
	d.advance(time.Second)
	d.askAll(40, chatCalls, helperCalls(judged))
	_, after := d.behave(helperCalls(""), 0)
	if before["x-warmgate-charged-tokens"] == "" || after["x-warmgate-charged-tokens"] != "" {
		t.Errorf("at first %v, once its answers are known %v", before, after)
	}
}

// It goes on to endpoints that have its model, and among those by requests in flight.
func TestQuietCallsByModelAndRequests(t *testing.T) {
	d := startFake(t, 1, 4, strings.Replace(requestsConfig, `"lb_config":{`,
		`"lb_config":{"unit":"tokens","max_inflight_tokens":8000,"queue":{"max_wait":"1s"},`, 1))
	d.advance(time.Second)
	d.askAll(40, chatCalls, helperCalls(judged))
	d.advance(time.Second)
	if n := d.Gauge(stats.Parallelism + ";cluster=" + fakeCluster); n != 32 {
		t.Errorf("%d requests are suggested, want 8 of 1000 tokens at each endpoint", n)
	}
	refused, open := 0, make([]int, 4)
	for range 40 {
		c := d.client(0, streamtest.Request{Path: helperPath, Frames: []string{`{"model":"sql"}`}})
		if c.Upstream() != 3 {
			refused++
			c.Head(404)
			c.Data(`{"error":{"code":"model_not_found"}}`)
		} else {
			c.Data(nothingShown)
		}
		c.Finish()
	}
	d.client(0, streamtest.Request{Frames: []string{promptBody(1)}})
	for range 11 {
		open[d.client(0, streamtest.Request{Path: helperPath, Frames: []string{"{}"}}).Upstream()]++
	}
	if refused > 9 || slices.Min(open) < 2 {
		t.Errorf("%d of 40 were refused, and 11 beside a prompt are spread as %v", refused, open)
	}
}
