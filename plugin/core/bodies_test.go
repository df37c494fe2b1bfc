package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/request"
)

const uploadConfig = `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inspect_bytes":65536,"max_scan_bytes":65536}}`

// upload opens a request of which 300 KB have come, and not the end.
func (d *fakeDriver) upload() *fakeStream {
	begin := `{"prompt":"` + strings.Repeat("x", 300_000)
	return d.client(0, streamtest.Request{Frames: []string{begin}, Unended: true})
}

// Prompts that are still arriving count by what has come of them: they do not all go to the endpoint with the least
// other load.
func TestOpenUploadsSpread(t *testing.T) {
	const endpoints = 8
	d := startFake(t, 1, endpoints, uploadConfig)
	var clients []*fakeStream
	for range endpoints - 1 {
		clients = append(clients, d.client(0, streamtest.Request{Frames: []string{`{"prompt":"hello"}`}}))
	}
	var at [endpoints]int
	for range 10 {
		c := d.upload()
		at[c.Upstream()]++
		clients = append(clients, c)
	}
	for i, n := range at {
		if n == 0 || n > 2 {
			t.Errorf("endpoint %d has %d of 10 uploads: %v", i, n, at)
		}
	}
	for _, c := range clients {
		c.Finish()
	}
	d.drained()
}

// An upload that stalls counts next to nothing after a second, one that continues keeps its load, and both have their
// full load at the end, whatever happens before.
func TestOpenUploadStalls(t *testing.T) {
	const weight = 300_000 / 4
	near := func(got, want int64) bool { return got > want*9/10 && got < want*11/10 }
	for _, policy := range []string{"global_least_request", "prefix_cache"} {
		t.Run(policy, func(t *testing.T) {
			d := startFake(t, 1, 2, strings.Replace(uploadConfig, "global_least_request", policy, 1))
			stalled, going := d.upload(), d.upload()
			a, b := stalled.Upstream(), going.Upstream()
			if a == b {
				t.Fatal("both went to one endpoint")
			}
			for range 8 {
				d.advance(200 * time.Millisecond)
				going.Send("xx", false)
			}
			if got := d.Load(a).Tokens; got != request.OpenTokens {
				t.Errorf("the one that stalls weighs %d tokens, want %d", got, request.OpenTokens)
			}
			if got := d.Load(b).Tokens; !near(got, weight) {
				t.Errorf("the one that continues weighs %d tokens, want about %d", got, weight)
			}
			stalled.Send("xx", false)
			if stalled.Retry() != b {
				t.Fatal("the retry went to the same endpoint")
			}
			stalled.Head(200)
			if got := d.Load(a).Tokens; got != 0 {
				t.Errorf("%d tokens are left where the retry came from", got)
			}
			stalled.Send(`"}`, true)
			going.Send(`"}`, true)
			if got := d.Load(b).Tokens; !near(got, 2*weight) {
				t.Errorf("both weigh %d tokens at their end, want about %d", got, 2*weight)
			}
			d.advance(3 * time.Second)
			if got := d.Load(b).Tokens; !near(got, 2*weight) {
				t.Errorf("both weigh %d tokens later, want about %d", got, 2*weight)
			}
			stalled.Finish()
			going.Finish()
			d.drained()
		})
	}
}

// Whatever ends an upload, nothing is kept of it.
func TestOpenUploadEnds(t *testing.T) {
	d := startFake(t, 1, 2, uploadConfig)
	for _, end := range []func(c *fakeStream){
		func(c *fakeStream) { c.ResetByClient() },
		func(c *fakeStream) { c.ResetByUpstream() },
		func(c *fakeStream) { c.Finish() },
		func(c *fakeStream) { c.Send(`"}`, true); c.Finish() },
		func(c *fakeStream) { d.advance(2 * time.Second); c.ResetByClient() },
	} {
		end(d.upload())
		d.drained()
	}
}
