package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

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
		if n := c.core.first.Lease.Reservation.Plan.Prefix.Bytes; n > most || n < most*9/10 && most > 1000 {
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
