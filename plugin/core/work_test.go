package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
)

func TestEstimate(t *testing.T) {
	c := &config.Config{BytesPerToken: 4, OutputTokens: 256, MaxRequestTokens: 5000}
	for _, tc := range []struct {
		name           string
		info           prompt.Info
		seen, size     int
		prompt, output int64
	}{
		{"nothing known", prompt.Info{}, 0, 0, 0, 256},
		{"text", prompt.Info{TextBytes: 4000}, 4100, 4100, 1000, 256},
		{"what was not seen is like what was", prompt.Info{TextBytes: 2000}, 4000, 8000, 1000, 256},
		{"what was not seen behind an image", prompt.Info{TextBytes: 40}, 4000, 400_000, 1000, 256},
		{"what cannot be read", prompt.Info{}, 0, 2000, 500, 256},
		{"a lot that cannot be read", prompt.Info{}, 0, 1 << 30, 512, 256},
		{"its own limit", prompt.Info{MaxTokens: 10}, 0, 0, 0, 10},
		{"several answers", prompt.Info{MaxTokens: 10, N: 3}, 0, 0, 0, 30},
		{"token ids", prompt.Info{TokenIDs: 77, TextBytes: 4}, 300, 300, 78, 256},
		{"token ids that were not seen", prompt.Info{TokenIDs: 77}, 300, 900, 231, 256},
		{"a limit beyond what is typical", prompt.Info{MaxTokens: 1000}, 0, 0, 0, 256},
		{"many answers", prompt.Info{MaxTokens: 1000, N: 9}, 0, 0, 0, 512},
		{"a limit beyond reason", prompt.Info{TextBytes: 4000, MaxTokens: 1 << 30, N: 1 << 30}, 4100, 4100, 1000, 512},
		{"a prompt beyond reason", prompt.Info{TextBytes: 1 << 20, MaxTokens: 10}, 1 << 20, 1 << 40, 5000, 0},
		{"nearly as much as may be", prompt.Info{TextBytes: 4 * 4900}, 4 * 4900, 4 * 4900, 4900, 100},
		{"embeddings generate nothing", prompt.Info{TextBytes: 40, API: prompt.Embeddings}, 60, 60, 10, 0},
		{"rerank generates nothing", prompt.Info{TextBytes: 40, API: prompt.Rerank, MaxTokens: 5}, 60, 60, 10, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typical := learned.Models{}.Typical(learned.Key{Guess: clusters.GuessOf(c)}, tc.info.MaxTokens)
			w := work{info: tc.info, seen: tc.seen, typical: typical}
			if p, o := w.estimate(c, tc.size); p != tc.prompt || o != tc.output {
				t.Fatalf("%d and %d tokens, want %d and %d", p, o, tc.prompt, tc.output)
			}
		})
	}
}

// The rest of a picture is no text.
func TestUnseenPicture(t *testing.T) {
	d := startFake(t, 1, 2, `{"lb_policy":"prefix_cache","lb_config":{"max_inspect_bytes":65536,"max_scan_bytes":65536}}`)
	for begin, most := range map[string]int{
		`{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,`: 1000,
		`{"messages":[{"role":"user","content":"`: 2_101_000,
	} {
		c := d.client(0, streamtest.Request{Frames: []string{begin + strings.Repeat("x", 100_000)}, Unended: true})
		c.Send(strings.Repeat("x", 2_000_000), true)
		if n := c.core.first.lease.reservation.plan.Prefix.Bytes; n > most || n < most*9/10 && most > 1000 {
			t.Errorf("%s: the prompt has %d bytes, want %d at most", begin, n, most)
		}
		c.Finish()
	}
	d.drained()
}

// A request whose load was estimated before its end had come is estimated once more then.
func TestAmendedWork(t *testing.T) {
	const (
		tokens = `{"lb_policy":"global_least_request",
			"lb_config":{"unit":"tokens","max_inspect_bytes":1024,"body_timeout":"200ms"}}`
		much = 38_000
	)
	retried := func(c *fakeStream) { c.Retry(); c.Head(200) }
	answered := func(c *fakeStream) { c.Head(200); c.Data("a") }
	begin := `{"stream":true,"prompt":"` + strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		begin         string
		rest          int
		during        func(c *fakeStream)
		before, after int64
	}{
		"much longer than what came":   {begin, much, nil, 249 + 256, 249 + much/4*1000/1025 + 256},
		"hardly longer than what came": {begin, 10, nil, 249 + 256, 249 + 256},
		"shorter":                      {"", 40, nil, 1, 266},
		"nothing":                      {"", 0, nil, 1, 256},
		"long, and nothing of it read": {"", much, nil, 1, 512 + 256},
		"answered before its end":      {begin, much, answered, 256, 256},
		"served by another":            {begin, much, retried, 249 + 256, 249 + much/4*1000/1025 + 256},
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 2, tokens)
			r := streamtest.Request{Unended: true}
			if tc.begin != "" {
				r.Frames = []string{tc.begin}
			}
			c := d.client(0, r)
			d.advance(500 * time.Millisecond)
			if tc.during != nil {
				tc.during(c)
			}
			at := c.Upstream()
			if got := d.Load(at).Tokens; got != tc.before {
				t.Errorf("%d tokens before the end, want %d", got, tc.before)
			}
			half := strings.Repeat("x", tc.rest/2)
			c.Send(half, false)
			if got := d.Load(at).Tokens; got != tc.before {
				t.Errorf("%d tokens with half of the body, want %d", got, tc.before)
			}
			c.Send(half, true)
			if got := d.Load(at).Tokens; got < tc.after-1 || got > tc.after+1 {
				t.Errorf("%d tokens after the end, want %d", got, tc.after)
			}
			c.Finish()
			d.drained()
		})
	}
}
