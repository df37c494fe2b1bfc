package core

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
)

// longConfig reads 64 KiB of a body at once.
const longConfig = `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inspect_bytes":65536%s}}`

// seededWords are so many words, the same for each seed.
func seededWords(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%s ", strconv.FormatUint(r.Uint64()%1_000_000, 36))
	}
	return b.String()
}

// matchOf sends a body in parts of that size, and returns how much of the prompt is expected to be cached, and where it
// goes.
func (d *fakeDriver) matchOf(body string, part int) (match float64, endpoint int) {
	return d.matchAt("/v1/chat/completions", body, part)
}

func (d *fakeDriver) matchAt(path, body string, part int) (match float64, endpoint int) {
	var frames []string
	for from := 0; from < len(body); from += part {
		frames = append(frames, body[from:min(from+part, len(body))])
	}
	length := [][2]string{{"content-length", strconv.Itoa(len(body))}}
	c := d.client(0, streamtest.Request{Path: path, Frames: frames, Headers: length})
	c.Head(200)
	c.Data("{}")
	c.Finish()
	if c.Received().Body != body {
		d.t.Errorf("%d bytes have arrived of %d", len(c.Received().Body), len(body))
	}
	match, _ = strconv.ParseFloat(c.Result().Headers["x-warmgate-match"], 64)
	return match, c.Upstream()
}

// unread returns how many prompts were not matched for that cause.
func (d *fakeDriver) unread(cause string) uint64 { return d.Counter(stats.Unread + ";cause=" + cause) }

// What isolates prompts does so wherever it stands in a body, however long that is.
func TestNamesBehindLongPrompts(t *testing.T) {
	prompt := `{"messages":[{"role":"user","content":"` + seededWords(1, 40_000) + `"}],`
	for name, pair := range map[string][2]string{
		"a model":      {`"model":"base","max_tokens":4}`, `"model":"other","max_tokens":4}`},
		"a salt":       {`"model":"m","cache_salt":"one"}`, `"model":"m","cache_salt":"two"}`},
		"an extra key": {`"model":"m","extra_key":"one"}`, `"model":"m","extra_key":"two"}`},
		"an adapter":   {`"model":"m","lora_path":"one"}`, `"model":"m","lora_path":"two"}`},
	} {
		for _, part := range []int{1 << 30, 100_000, 16_000, 1000} {
			d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
			d.matchOf(prompt+pair[0], part)
			if match, _ := d.matchOf(prompt+pair[1], part); match != 0 {
				t.Errorf("%s, in parts of %d: %.2f of the other prompt are matched", name, part, match)
			}
			if match, _ := d.matchOf(prompt+pair[0], part); match < 0.2 {
				t.Errorf("%s, in parts of %d: %.2f of the same prompt are matched", name, part, match)
			}
			d.drained()
		}
	}
}

// A conversation that grows beyond what is held of a body stays where it is, with its tools and its system prompt
// behind the messages.
func TestToolsBehindLongConversations(t *testing.T) {
	const turns, turnWords = 24, 1200
	lead := `],"model":"m","system":"` + seededWords(100, 1500) + `","tools":[{"name":"t","description":"` + seededWords(101, 3000) + `"}]}`
	d := startFake(t, 1, 4, fmt.Sprintf(longConfig, `,"prefix":{"block_bytes":1024}`))
	messages, before, last := "", -1, 0
	for turn := range turns {
		if turn > 0 {
			messages += `,{"role":"assistant","content":"` + seededWords(uint64(turn+50), 100) + `"},`
		}
		messages += `{"role":"user","content":"` + seededWords(uint64(turn), turnWords) + `"}`
		body := `{"max_tokens":4,"messages":[` + messages + lead
		d.advance(10 * time.Second)
		match, at := d.matchOf(body, 16<<10)
		if seen := min(1, float64(64<<10+30<<10)/float64(len(body))); turn > 0 && (match < 0.6*seen || at != before) {
			t.Errorf("turn %d of %d bytes: %.2f are matched, at %d after %d", turn, len(body), match, at, before)
		}
		before, last = at, len(body)
	}
	if last < 150_000 {
		t.Fatalf("the last body has %d bytes", last)
	}
	for _, cause := range []string{"too_long", "late", "no_room", "not_shown", "too_complex"} {
		if n := d.unread(cause); n != 0 {
			t.Errorf("%d bodies are not read to their ends: %s", n, cause)
		}
	}
	d.drained()
}

// A body that is not read to its end matches nothing, and its cause is counted.
func TestBodyThatIsNotReadToItsEnd(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + seededWords(1, 40_000) + `"}],"model":"m"}`
	complex := `{"messages":[` + strings.Repeat(`[[]],`, 200_000) + `1],"model":"m"}`
	for cause, test := range map[string]struct{ config, body string }{
		"too_long":    {`,"max_scan_bytes":131072`, body},
		"too_complex": {"", complex},
	} {
		for _, part := range []int{1 << 30, 16_000} {
			d := startFake(t, 1, 2, fmt.Sprintf(longConfig, test.config))
			for range 2 {
				if match, _ := d.matchOf(test.body, part); match != 0 {
					t.Errorf("%s, in parts of %d: %.2f are matched", cause, part, match)
				}
			}
			if n := d.unread(cause); n != 2 {
				t.Errorf("%s, in parts of %d: counted %d times", cause, part, n)
			}
			d.drained()
		}
	}
}

// A body that pauses is not waited for. What comes later is passed on.
func TestLongBodyThatPauses(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + seededWords(1, 40_000) + `"}],"model":"m"}`
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, `,"body_timeout":"400ms"`))
	c := d.client(0, streamtest.Request{Frames: []string{body[:70_000]}, Unended: true})
	for range 10 { // longer than body_timeout, but without such a pause
		d.advance(150 * time.Millisecond)
		c.Send("", false)
	}
	if !c.Held() {
		t.Error("a body that keeps coming is not waited for")
	}
	c.Send(body[70_000:150_000], false)
	d.advance(700 * time.Millisecond)
	if c.Held() || d.unread("late") != 1 {
		t.Errorf("held %v, %d are late", c.Held(), d.unread("late"))
	}
	c.Send(body[150_000:], true)
	c.Head(200)
	c.Finish()
	if c.Received().Body != body {
		t.Errorf("%d bytes have arrived of %d", len(c.Received().Body), len(body))
	}
	other := d.client(0, streamtest.Request{Frames: []string{body[:70_000]}, Unended: true})
	other.ResetByClient()
	d.drained()
}

// What is behind a picture that is longer than what is kept of a body is matched, and the picture is no text.
func TestBodyWithLongPicture(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true}}`)
	body := func(question string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			strings.Repeat("QUJD", 250_000) + `"}},{"type":"text","text":"` + question + `"}]}],"model":"m"}`
	}
	text := seededWords(1, 2_000)
	for i, question := range []string{text, text, text + seededWords(2, 2_000)} {
		if match, _ := d.matchOf(body(question), 16_000); match < 0.4 != (i == 0) {
			t.Errorf("turn %d: %.2f are matched", i, match)
		}
	}
	c := d.client(0, streamtest.Request{Frames: []string{body(text)}})
	if n := c.core.first.Lease.Reservation.Plan.Prefix.Bytes; n > 2*len(text) {
		t.Errorf("the prompt has %d bytes", n)
	}
	c.Finish()
	d.drained()
}

// A body that keeps coming is waited for, for longer than body_timeout in all, whether it is held or read on.
func TestBodyThatComesSteadily(t *testing.T) {
	const part, pause = 8_000, 40 * time.Millisecond
	for _, words := range []int{25_000, 70_000} {
		body := `{"messages":[{"role":"user","content":"` + seededWords(1, words) + `"}],"model":"m"}`
		d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true}}`)
		for turn := range 2 {
			c := d.client(0, streamtest.Request{Frames: []string{body[:part]}, Unended: true})
			for from := part; from < len(body); from += part {
				d.advance(pause)
				c.Send(body[from:min(from+part, len(body))], from+part >= len(body))
			}
			c.Head(200)
			c.Finish()
			match, _ := strconv.ParseFloat(c.Result().Headers["x-warmgate-match"], 64)
			if late := d.unread("late"); match > 0.9 != (turn > 0) || late != 0 {
				t.Errorf("%d bytes, turn %d: %.2f are matched, %d are late", len(body), turn, match, late)
			}
		}
		d.drained()
	}
}

// Bodies that are read on take bounded memory: those for which there is no room are placed without a match.
func TestLongBodiesAreBounded(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + seededWords(1, 40_000) + `"}],"model":"m"}`
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
	var clients []*fakeStream
	for range 200 {
		clients = append(clients, d.client(0, streamtest.Request{Frames: []string{body[:100_000]}, Unended: true}))
	}
	if b := d.workers[0].vm.Bodies; b.Kept > request.MaxKept+1<<20 || b.Kept < request.MaxKept/2 {
		t.Errorf("%d bytes are kept, want up to %d", b.Kept, request.MaxKept)
	}
	if n := d.unread("no_room"); n == 0 || n > 150 {
		t.Errorf("%d of %d had no room", n, len(clients))
	}
	for _, c := range clients {
		c.Send(body[100_000:], true)
		c.Head(200)
		c.Finish()
	}
	d.drained()
}

// A body that has no room any more, once its held parts are read, goes on as a whole.
func TestHeldBodyWithoutRoom(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"` + seededWords(1, 40_000) + `"}],"model":"m"}`
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
	b := d.workers[0].vm.Bodies
	b.Held = request.MaxHeld - 1
	c := d.client(0, streamtest.Request{Frames: []string{body[:40_000], body[40_000:100_000]}, Unended: true})
	if n := d.unread("no_room"); n != 1 {
		t.Errorf("%d bodies had no room", n)
	}
	c.Send(body[100_000:], true)
	c.Head(200)
	c.Finish()
	if c.Received().Body != body || b.Held != request.MaxHeld-1 {
		t.Errorf("%d bytes of %d have arrived, and %d are held", len(c.Received().Body), len(body), b.Held)
	}
	b.Held = 0
	d.drained()
}

// Of a body that the gateway does not show, no more is given back than was taken.
func TestLongBodyThatIsNotShown(t *testing.T) {
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
	c := d.client(0, streamtest.Request{Frames: []string{strings.Repeat(" ", 70_000)}, Unended: true})
	c.shown = 1000
	c.Send(strings.Repeat(" ", 10_000), false)
	if b := d.workers[0].vm.Bodies; b.Held != 71_000 {
		t.Errorf("%d bytes are held", b.Held)
	}
	c.Send("{}", true)
	if b := d.workers[0].vm.Bodies; b.Held != 0 || b.Kept != 0 {
		t.Errorf("%d bytes are held, %d kept behind the end", b.Held, b.Kept)
	}
	c.Finish()
	d.drained()
}

// Where the gateway does not show the last part of a body that it holds, bodies are read as they come: the first one is
// not matched, the others are.
func TestGatewayThatHidesTheLastPart(t *testing.T) {
	prompt := `{"messages":[{"role":"user","content":"` + seededWords(1, 6_000) + `"}],`
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
	d.host.StaleBuffer = true
	for i, want := range []bool{false, false, true} {
		if match, _ := d.matchOf(prompt+`"model":"m","cache_salt":"one"}`, 8_000); match > 0.9 != want {
			t.Errorf("request %d: %.2f are matched", i, match)
		}
	}
	if n := d.unread("not_shown"); n != 1 {
		t.Errorf("%d bodies were not shown", n)
	}
	if match, _ := d.matchOf(prompt+`"model":"m","cache_salt":"two"}`, 8_000); match != 0 {
		t.Errorf("with another salt, %.2f are matched", match)
	}
	d.drained()
}

// A client that sends an empty part does not make its gateway look like such a one.
func TestEmptyPart(t *testing.T) {
	d := startFake(t, 1, 2, fmt.Sprintf(longConfig, ""))
	body := `{"messages":[],"model":"m"}`
	length := [][2]string{{"content-length", strconv.Itoa(len(body))}}
	c := d.client(0, streamtest.Request{Frames: []string{body[:9], "", body[9:]}, Headers: length})
	c.Finish()
	if d.workers[0].vm.Bodies.Stale {
		t.Error("the gateway does not show the last part")
	}
	d.drained()
}

// No more of a body is held than holdBytes, and no body that is too long is read on: the gateway may not have room.
func TestHeldPart(t *testing.T) {
	const long = "20000000" // more than max_scan_bytes
	text := seededWords(1, 3_000)
	for name, test := range map[string]struct {
		config, length string
		placed         int // bytes that have come when an endpoint is chosen
	}{
		"by requests, too long": {`"lb_policy":"prefix_cache","lb_config":{}`, long, 262_144},
		"by tokens":             {`"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}`, "", 655_360},
		"by tokens, too long":   {`"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}`, long, 262_144},
		"not scanned":           {`"lb_policy":"prefix_cache","lb_config":{"max_scan_bytes":1024}`, "", 655_360},
	} {
		d := startFake(t, 1, 2, `{`+test.config+`}`)
		r := streamtest.Request{Frames: []string{`{"messages":[{"content":"`}, Unended: true}
		if test.length != "" {
			r.Headers = [][2]string{{"content-length", test.length}}
		}
		c := d.client(0, r)
		came := len(r.Frames[0])
		for ; c.Held() && came < 1<<20; came += 10_000 {
			if c.Request.Buffering() && came > request.HoldBytes {
				t.Errorf("%s: %d bytes are held at once", name, came)
			}
			c.Send(text[:10_000], false)
		}
		if came < test.placed || came > test.placed+10_000 {
			t.Errorf("%s: placed after %d bytes, want %d", name, came, test.placed)
		}
		c.Send(`"}]}`, true)
		c.Finish()
		d.drained()
	}
}

// What a call refers to, and its model while facts about models are known, are found behind a long prompt.
func TestReferencesBehindLongPrompts(t *testing.T) {
	d := startFake(t, 1, 2, requestsConfig)
	refused := d.client(0, bodyOf("m", 10))
	refused.Head(404)
	refused.Data(`{"error":{"message":"The model m does not exist.","param":"model","code":404}}`)
	refused.Finish()
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		c := d.client(0, streamtest.Request{Path: path, Unended: true})
		c.Send(`{"input":"`, false)
		for range 40 {
			c.Send(seededWords(1, 4_000), false)
		}
		c.Send(`","model":"m","previous_response_id":"resp_1"}`, true)
		if path == "/v1/responses" && c.core.first.Kept.ID != "resp_1" {
			t.Errorf("it refers to %q", c.core.first.Kept.ID)
		}
		if c.core.first.Facts.Model != xxhash.Sum64String("m") {
			t.Errorf("%s: its model is not known", path)
		}
		c.Finish()
	}
	d.drained()
}

// A body that has more values than are parsed is matched by all of its names.
func TestNamesBehindManyValues(t *testing.T) {
	prompt := `{"messages":[{"role":"user","content":"` + seededWords(1, 3_000) + `"}],"documents":[` +
		strings.Repeat(`-1234,`, 30_000) + `1],`
	d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"max_inspect_bytes":1048576}}`)
	for i, want := range []bool{false, true} {
		if match, _ := d.matchOf(prompt+`"cache_salt":"one"}`, 1<<20); match > 0.01 != want {
			t.Errorf("request %d: %.2f are matched", i, match)
		}
	}
	if match, _ := d.matchOf(prompt+`"cache_salt":"two"}`, 1<<20); match != 0 {
		t.Errorf("with another salt, %.2f are matched", match)
	}
	d.drained()
}

// The key of a session is found behind a long prompt, also in a member that has more in it.
func TestSessionBehindLongPrompt(t *testing.T) {
	metadata := `"metadata":{"x":"` + seededWords(1, 1500) + `","user_id":"someone"}`
	for _, member := range []string{`"user":"someone"`, metadata} {
		d := startFake(t, 1, 8, `{"lb_policy":"consistent_hash","lb_config":{"max_inspect_bytes":65536}}`)
		homes := map[int]bool{}
		for n := range 6 {
			prompt := `{"messages":[{"role":"user","content":"` + seededWords(uint64(n), 30_000) + `"}],`
			_, at := d.matchOf(prompt+member+`}`, 16_000)
			homes[at] = true
		}
		if len(homes) != 1 {
			t.Errorf("the session of %d bytes is at %d endpoints", len(member), len(homes))
		}
		d.drained()
	}
}
