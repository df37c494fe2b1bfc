package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// renderedConfig shows what is matched.
const renderedConfig = `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true}}`

// askFor sends a body, which is answered with usage of so many tokens, of which that share is cached. It returns how
// much of the prompt was expected to be cached, and where it went.
func (d *fakeDriver) askFor(path, body string, tokens int, cached float64) (match float64, endpoint int) {
	d.t.Helper()
	d.advance(time.Second)
	c := d.client(0, streamtest.Request{Path: path, Frames: []string{body}})
	c.Head(200)
	c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":%d,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}}}`,
		tokens, int(cached*float64(tokens))))
	c.Finish()
	match, _ = strconv.ParseFloat(c.Result().Headers["x-warmgate-match"], 64)
	return match, c.Upstream()
}

// withFirst is a request of a coding client: its system prompt begins with a line of its own.
func withFirst(line string, turns int) string { return inFrontOf(seededWords(7, 1000), line, turns) }

// inFrontOf is one with the other text of the system prompt.
func inFrontOf(behind, line string, turns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","system":[{"type":"text","text":%q},{"type":"text","text":%q}],"messages":[`, line, behind)
	for turn := range turns {
		if turn > 0 {
			fmt.Fprintf(&b, `,{"role":"assistant","content":%q},`, seededWords(uint64(turn+100), 80))
		}
		fmt.Fprintf(&b, `{"role":"user","content":%q}`, seededWords(uint64(turn+200), 250))
	}
	return b.String() + `]}`
}

// A line that engines are known to leave out does not change what is matched.
func TestKnownMetadataIsLeftOut(t *testing.T) {
	d := startFake(t, 1, 4, renderedConfig)
	home := -1
	for turn := 1; turn < 6; turn++ {
		line := fmt.Sprintf("x-anthropic-billing-header: cch=%05x;", turn*7919)
		match, at := d.askFor("/v1/messages?beta=true", withFirst(line, turn), 4000, 0.8)
		if turn > 1 && (match < 0.6 || at != home) {
			t.Errorf("turn %d: %.2f are matched at %d, after %d", turn, match, at, home)
		}
		home = at
	}
}

// A first line that changes in every request, which is not known, is left out, too, until answers show that engines
// print it.
func TestChangingFirstTextsAreRecognised(t *testing.T) {
	for name, leftOut := range map[string]bool{"left out by the engine": true, "printed": false} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 1, renderedConfig)
			body := func(n int) string { return withFirst(fmt.Sprintf("some-client: request=%d", n*7919), 2) }
			matches := make([]float64, 40)
			for n := range matches {
				cached := 0.0
				if leftOut && n > 0 {
					cached = 0.95
				}
				matches[n], _ = d.askFor("/v1/messages", body(n), 4000, cached)
				// short texts have no part in it
				d.askFor("/v1/messages", inFrontOf("be brief", "You are a cook.", 2), 4000, 0.95)
				if n == 20 && !leftOut { // the engine does report what is cached of others
					d.askFor("/v1/messages", withFirst("always the same", 2), 4000, 0)
					d.askFor("/v1/messages", withFirst("always the same", 2), 4000, 0.95)
				}
			}
			if matches[1] != 0 {
				t.Errorf("at first, %.2f are matched", matches[1])
			}
			last := matches[len(matches)-1]
			if leftOut && last < 0.6 || !leftOut && last > 0.1 {
				t.Errorf("at last, %.2f are matched", last)
			}
		})
	}
}

// First texts that stay, or differ with what is behind them, are part of the prompt; and what is known of them is
// bounded.
func TestFirstTextsThatStay(t *testing.T) {
	for name, body := range map[string]func(n int) string{
		"one": func(int) string { return withFirst("the same line", 2) },
		"one for each text behind them": func(n int) string {
			return inFrontOf(seededWords(uint64(n), 1000), fmt.Sprintf("line %d", n), 2)
		},
		"one for each user": func(n int) string { return withFirst(fmt.Sprintf("I am user %d", n%3), 2) },
	} {
		d := startFake(t, 1, 1, renderedConfig)
		for n := range 40 {
			d.askFor("/v1/messages", body(n), 4000, 0.9)
		}
		if match, _ := d.askFor("/v1/messages", withFirst("another line", 2), 4000, 0); match > 0.1 {
			t.Errorf("%s: with another first text, %.2f are matched", name, match)
		}
	}
	d := startFake(t, 1, 4, renderedConfig)
	for n := range 300 {
		d.askFor("/v1/messages", strings.Replace(withFirst("a line", 1), `"m"`, fmt.Sprintf(`"m%d"`, n), 1), 4000, 0)
	}
	if n := len(d.workers[0].vm.Prompts.Firsts); n > 64 {
		t.Errorf("%d models are known", n)
	}
}

// Cache markers that move, and texts that are written in another way, change nothing for an engine.
func TestMarkersThatMove(t *testing.T) {
	text := func(n int) string { return strconv.Quote(seededWords(uint64(n), 600)) }
	marked := func(n int) string {
		return `[{"type":"text","text":` + text(n) + `,"cache_control":{"type":"ephemeral"}}]`
	}
	for name, contents := range map[string]func(turn, turns int) string{
		"the last": func(turn, turns int) string {
			if turn == turns-1 {
				return marked(turn)
			}
			return text(turn)
		},
		"the last two": func(turn, turns int) string {
			if turn >= turns-2 {
				return marked(turn)
			}
			return `[{"text":` + text(turn) + `,"type":"text"}]`
		},
	} {
		d := startFake(t, 1, 4, renderedConfig)
		home := -1
		for turns := 1; turns < 7; turns++ {
			var messages []string
			for turn := range turns {
				messages = append(messages, `{"role":"user","content":`+contents(turn, turns)+`}`,
					fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"f","arguments":"{}"}}]}`, turns))
			}
			match, at := d.askFor("/v1/chat/completions", `{"model":"m","messages":[`+strings.Join(messages[:2*turns-1], ",")+`]}`, 1000*turns, 0.8)
			if want := float64(turns-1)/float64(turns) - 0.05; match < want || turns > 1 && at != home {
				t.Errorf("%s, %d turns: %.2f are matched at %d, after %d", name, turns, match, at, home)
			}
			home = at
		}
	}
}

// withPicture is a request with text, a picture and text.
func withPicture(picture, question string) string {
	return fmt.Sprintf(`{"model":"see","messages":[{"role":"user","content":[{"type":"text","text":%q},`+
		`{"type":"image_url","image_url":{"url":%q}},{"type":"text","text":%q}]}]}`, seededWords(1, 1000), picture, question)
}

// How many tokens a picture takes is learned, so that the share that is expected to be cached is that which is.
func TestPicturesAreLearned(t *testing.T) {
	for _, pictureTokens := range []int{100, 1400, 6000} {
		d := startFake(t, 1, 1, renderedConfig)
		picture := func(n int) string {
			return fmt.Sprintf("data:image/png;base64,%064d", n) + strings.Repeat("QUJD", 500)
		}
		all := len(seededWords(1, 1000))/4 + pictureTokens
		for n := range 20 {
			d.askFor("/v1/chat/completions", withPicture(picture(n), "what is it"), all, 0)
		}
		match, _ := d.askFor("/v1/chat/completions", withPicture(picture(19), "and where"), all, 1)
		if want := 1.0; math.Abs(match-want) > 0.1 {
			t.Errorf("the same picture of %d tokens: %.2f are matched, want %.2f", pictureTokens, match, want)
		}
		match, _ = d.askFor("/v1/chat/completions", withPicture(picture(99), "what is it"), all, 0)
		if want := float64(all-pictureTokens) / float64(all); math.Abs(match-want) > 0.1 {
			t.Errorf("another picture of %d tokens: %.2f are matched, want %.2f", pictureTokens, match, want)
		}
	}
}

// How far off expectations are is shown for each API and model, of which there is a bounded number.
func TestMatchErrors(t *testing.T) {
	d := startFake(t, 1, 1, renderedConfig)
	shown := func(api, model string) (uint64, bool) {
		v, ok := d.metrics.values[stats.MatchError+";api="+api+";model="+model]
		return v, ok
	}
	for range 40 {
		d.askFor("/v1/chat/completions", `{"model":"good","messages":[{"role":"user","content":"`+seededWords(1, 500)+`"}]}`, 1000, 0.99)
		d.askFor("/v1/messages", `{"model":"silent","messages":[{"role":"user","content":"`+seededWords(2, 500)+`"}]}`, 1000, 0)
		d.askFor("/v1/messages", `{"model":"bad","messages":[{"role":"user","content":"`+seededWords(3, 500)+`"}]}`, 1000, 0.3)
	}
	if v, ok := shown("chat", "good"); !ok || v > 10 {
		t.Errorf("an engine that does what is expected is off by %d points, %v", v, ok)
	}
	if v, ok := shown("messages", "bad"); !ok || v < 50 {
		t.Errorf("an engine that has less is off by %d points, %v", v, ok)
	}
	if _, ok := shown("messages", "silent"); ok {
		t.Error("an engine that reports nothing is shown")
	}
	for n := range 200 {
		for _, model := range []string{fmt.Sprintf("model-%d", n), fmt.Sprintf("odd;name=%d", n)} {
			d.askFor("/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"`+seededWords(4, 100)+`"}]}`, 200, 0.5)
		}
	}
	names := 0
	for name := range d.metrics.values {
		if strings.HasPrefix(name, stats.MatchError) {
			names++
		}
	}
	if _, ok := shown("chat", "other"); !ok || names > 32+11 { // models, and others of each API
		t.Errorf("%d names, of others %v", names, ok)
	}
}

// A line that changes may be long, and have short texts behind it that stay, as a coding client sends them.
func TestShapesOfChangingFirstTexts(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf("some-client: request=%d", n*7919) }
	long, question := seededWords(7, 1500), seededWords(9, 100)
	for name, test := range map[string]struct {
		path    string
		body    func(n int) string
		leftOut bool
	}{
		"a short text behind it": {"/v1/messages", func(n int) string {
			return fmt.Sprintf(`{"model":"m","system":[{"type":"text","text":%q},{"type":"text","text":"You are an agent."},`+
				`{"type":"text","text":%q}],"messages":[{"role":"user","content":%q}]}`, line(n), long, question)
		}, true},
		"messages of the system": {"/v1/chat/completions", func(n int) string {
			return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"developer","content":"Be brief."},`+
				`{"role":"system","content":%q},{"role":"user","content":%q}]}`, line(n), long, question)
		}, true},
		"a long line": {"/v1/messages", func(n int) string {
			return fmt.Sprintf(`{"model":"m","system":[{"type":"text","text":%q},{"type":"text","text":%q}],"messages":[]}`,
				line(n)+strings.Repeat("x", 800), long)
		}, true},
		"a short question": {"/v1/chat/completions", func(n int) string {
			return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"hello"},`+
				`{"role":"assistant","content":%q},{"role":"user","content":"why?"}]}`, line(n), long)
		}, false},
	} {
		d := startFake(t, 1, 4, renderedConfig)
		var match float64
		for n := range 12 {
			match, _ = d.askFor(test.path, test.body(n), 4000, 0.9)
		}
		if match > 0.8 != test.leftOut {
			t.Errorf("%s: %.2f are matched", name, match)
		}
	}
}

// What a client keeps in a conversation for itself changes nothing for an engine, and neither do other spellings.
func TestWhatTemplatesIgnore(t *testing.T) {
	text := func(n int) string { return strconv.Quote(seededWords(uint64(n), 600)) }
	options := [...]string{
		`"chat_template_kwargs":{"enable_thinking":false,"a":1}`, `"chat_template_kwargs":{"a": 1, "enable_thinking": false}`,
	}
	for name, message := range map[string]func(role string, turn, turns int) string{
		"time stamps": func(role string, turn, turns int) string {
			return fmt.Sprintf(`{"role":%q,"content":%s,"timestamp":%d}`, role, text(turn), 1000*turns+turn)
		},
		"a marker of a message": func(role string, turn, turns int) string {
			if turn == turns-1 {
				return fmt.Sprintf(`{"role":%q,"content":%s,"cacheControl":{"type":"ephemeral"}}`, role, text(turn))
			}
			return fmt.Sprintf(`{"role":%q,"content":%s}`, role, text(turn))
		},
		"a marker as a part": func(role string, turn, turns int) string {
			if turn == turns-1 {
				return fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":%s},{"cachePoint":{"type":"default"}}]}`, role, text(turn))
			}
			return fmt.Sprintf(`{"role":%q,"content":%s}`, role, text(turn))
		},
	} {
		d := startFake(t, 1, 4, renderedConfig)
		for turns := 1; turns < 10; turns += 2 {
			var messages []string
			for turn := range turns {
				messages = append(messages, message([...]string{"user", "assistant"}[turn%2], turn, turns))
			}
			body := `{"model":"m","messages":[` + strings.Join(messages, ",") + `],` + options[turns/2%2] + `}`
			match, _ := d.askFor("/v1/chat/completions", body, 1000*turns, 0.9)
			if want := float64(turns-1)/float64(turns) - 0.05; match < want {
				t.Errorf("%s, %d messages: %.2f are matched, want %.2f", name, turns, match, want)
			}
		}
	}
}
