package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/measured"
)

// What is not in a usage is guessed, and says so.
func TestGuessedTokens(t *testing.T) {
	for name, c := range map[string]struct {
		play func(c *fakeStream)
		want price.Tokens
	}{
		"usage without a prompt": {
			func(c *fakeStream) { c.streams(4, usageOf(0, 0, 4)); c.Finish() },
			price.Tokens{Input: 100, Output: 4, Estimated: true},
		},
		"usage without its thoughts": {
			func(c *fakeStream) {
				c.Head(200, eventStream)
				c.Data(thoughtEvent + thoughtEvent + wordEvent)
				c.Data(usageOf(100, 0, 3) + doneEvent)
				c.Finish()
			},
			price.Tokens{Input: 100, Output: 3},
		},
		"a stream in one part": {
			func(c *fakeStream) {
				c.Head(200, eventStream)
				text := thoughtEvent + strings.Repeat(wordEvent, 3) + stopEvent + doneEvent
				c.Stream.ResponseBody([]byte(text), true)
			},
			price.Tokens{Input: 100, Output: 3, Reasoning: 1, Estimated: true},
		},
		"a compressed answer in one piece": {
			func(c *fakeStream) {
				c.Head(200, [2]string{"content-type", "application/json"}, [2]string{"content-encoding", "gzip"})
				c.Stream.ResponseBody([]byte(strings.Repeat("\x1f\x8b", 5000)), true)
			},
			price.Tokens{Input: 100, Output: 256, Estimated: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
			if got := d.measure(c.play).Tokens; got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Where no usage says it, a prompt is what has come of it, as far as that is one.
func TestGuessedPrompts(t *testing.T) {
	body := strings.Repeat("text ", 80)
	for name, c := range map[string]struct {
		request streamtest.Request
		want    int64
	}{
		"a body":          {streamtest.Request{Frames: []string{body}}, 100},
		"only its length": {streamtest.Request{Headers: [][2]string{{"content-length", "4000"}}, Unended: true}, 0},
		"less than its length": {streamtest.Request{
			Headers: [][2]string{{"content-length", "4000"}}, Frames: []string{body}, Unended: true,
		}, 100},
		"one that is very long": {streamtest.Request{Frames: []string{strings.Repeat(body, 100)}}, 512},
		"compressed": {streamtest.Request{
			Headers: [][2]string{{"content-encoding", "gzip"}}, Frames: []string{body},
		}, 0},
		"multipart": {streamtest.Request{
			Headers: [][2]string{{"content-type", "multipart/form-data"}}, Frames: []string{body},
		}, 0},
		"an upgrade": {streamtest.Request{
			Headers: [][2]string{{"upgrade", "websocket"}}, Frames: []string{body},
		}, 0},
		"of a call that is not listed": {streamtest.Request{Path: "/upload", Frames: []string{body}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
			d.client(0, c.request).ResetByClient()
			got := d.workers[0].vm.Measured
			if got.Outcome != measured.ClientLeft || got.Tokens.Prompt() != c.want {
				t.Errorf("%s with a prompt of %d tokens, want %d", got.Outcome, got.Tokens.Prompt(), c.want)
			}
		})
	}
}

// Of a part of a stream that is longer than what is read of it, the rest counts by its bytes.
func TestGuessedLongParts(t *testing.T) {
	d := startFake(t, 1, 1, `{"lb_policy":"global_least_request"}`)
	const words = 10_000
	got := d.measure(func(c *fakeStream) {
		c.streams(1, strings.Repeat(wordEvent, words-1))
		c.ResetByClient()
	}).Tokens.Output
	skipped := d.streams[1000].core.first.Response.Skipped
	if got < words-2 || got > words+2 || skipped < words*len(wordEvent)/2 {
		t.Errorf("%d tokens, want %d; %d bytes were not read", got, words, skipped)
	}
}
