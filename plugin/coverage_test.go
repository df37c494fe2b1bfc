package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

const prefixConfig = `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"redisKeyTTL":600,"prefix":{"table_bytes":65536,"cache_tokens":%d}}}`

// talk sends a conversation of the given number through the first worker and answers it: so much of its 1000 tokens was cached. It
// returns which share was expected to be.
func (d *fakeDriver) talk(number int, cached int) string {
	text := strings.Repeat(fmt.Sprintf("conversation %d ", number), 200)
	c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"` + text + `"}`}})
	c.Head(200)
	c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":1000,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}}}`, cached))
	c.Finish()
	return c.result.Headers["x-warmgate-match"]
}

// What answers tell of caches is shown: how long they keep things, that one was lost, and how they compare with the table.
func TestShowsWhatIsKnownOfCaches(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 1_000_000))
	const cluster = ";cluster=" + fakeCluster
	for range 3 {
		for number := range 20 {
			d.talk(number, 980)
		}
		d.advance(40 * time.Second)
	}
	if got := d.Gauge(statRetention + cluster); got != 600 {
		t.Errorf("%d s, want 600", got)
	}
	if _, ok := d.metrics.kinds[statLosses+cluster]; ok {
		t.Error("a loss is counted")
	}
	if got := d.talk(19, 980); got != "1.00" {
		t.Fatalf("%s of a prompt is expected to be cached", got)
	}
	for number := range 10 { // the server has restarted
		d.talk(number, 0)
		d.advance(time.Second)
	}
	if got := d.Counter(statLosses + cluster); got != 1 {
		t.Errorf("%d losses, want one", got)
	}
	if got := d.talk(19, 0); got != "0.00" {
		t.Errorf("%s of a prompt is still expected to be cached", got)
	}
	for name, kind := range map[string]string{statRetention: "gauge", statLosses: "counter", statTable: "gauge"} {
		if got := d.metrics.kinds[name+cluster]; got != kind {
			t.Errorf("%s is a %q, want %s", name, got, kind)
		}
	}
	d.drained()
}

// The operator is told, once, when the table is too small for the caches.
func TestTableIsTooSmall(t *testing.T) {
	for _, c := range []struct {
		tokens int
		told   bool // in a gauge
		warned bool
	}{{0, false, false}, {100, true, false}, {100_000_000, true, true}} {
		d := startFake(t, 1, 2, fmt.Sprintf(prefixConfig, c.tokens))
		for number := range 5 {
			d.talk(number, 0)
			d.advance(2 * time.Second)
		}
		percent, told := d.metrics.values[statTable+";cluster="+fakeCluster]
		if warned := strings.Count(strings.Join(d.log, "\n"), "table_bytes"); told != c.told || (warned == 1) != c.warned || warned > 1 {
			t.Errorf("%d tokens a cache: %d %% (%v), %d warnings", c.tokens, percent, told, warned)
		}
	}
}

// The share follows from the blocks of prompts, their tokens, and the weights of endpoints.
func TestTableShare(t *testing.T) {
	view := &lb.View{Endpoints: []lb.Endpoint{{Addr: "a", Weight: 2}, {Addr: "b"}, {Addr: "c", Weight: 1}}}
	blocks := lb.TableBlocks(1 << 20)
	p := prompts{cfg: &config.Config{Prefix: config.Prefix{TableBytes: 1 << 20, CacheTokens: blocks * 25}, Weights: map[string]float64{"c": 5}}}
	if _, known := p.share(view); known {
		t.Error("known before any prompt was")
	}
	p.told(p.cfg, nil, 1000, 10)
	if got, known := p.share(view); got != 50 || !known { // 100 tokens a block, and 2 + 1 + 5 times 25
		t.Errorf("%d %%, %v; want 50", got, known)
	}
	p.told(p.cfg, nil, 0, 0)
	for range 200 {
		p.told(p.cfg, nil, 2000, 10)
	}
	if got, _ := p.share(view); got < 99 || got > 100 {
		t.Errorf("%d %% with twice as many tokens a block; want 100", got)
	}
	p.cfg.Enabled, p.cfg.Store, p.cfg.Prefix.RedisBytes = true, "redis", 4<<20
	if got, _ := p.share(view); got < 300 || got > 400 {
		t.Errorf("%d %% with four times the memory in Redis, where more is needed for each block; want 300 to 400", got)
	}
	if _, known := p.share(&lb.View{}); known {
		t.Error("known without endpoints")
	}
	if _, known := p.share(nil); known {
		t.Error("known without a view")
	}
}

// A policy of a new configuration counts its losses from 0.
func TestLossesOfAnotherPolicy(t *testing.T) {
	p := prompts{losses: 7}
	a, _ := lb.New("prefix_cache", lb.Config{Health: lb.NewHealth()})
	b, _ := lb.New("prefix_cache", lb.Config{Health: lb.NewHealth()})
	for _, c := range []struct {
		policy lb.Policy
		want   uint64
	}{{a, 0}, {a, 7}, {b, 0}} {
		if p.told(nil, c.policy, 1, 1); p.losses != c.want {
			t.Errorf("%d losses counted so far, want %d", p.losses, c.want)
		}
		p.losses = 7
	}
}

// What a moved request was expected to find cached is not held against the endpoint that served it.
func TestMovedRequestsExpectNothing(t *testing.T) {
	d := startFake(t, 1, 2, fmt.Sprintf(prefixConfig, 0))
	d.talk(1, 900)
	text := strings.Repeat("conversation 1 ", 200)
	c := d.client(0, streamtest.Request{Frames: []string{`{"prompt":"` + text + `"}`}})
	c.Retry()
	c.Head(200)
	before := d.Counter(statExpected)
	c.Data(`{"usage":{"prompt_tokens":1000,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}`)
	c.Finish()
	if got := d.Counter(statExpected) - before; got != 0 {
		t.Errorf("%d tokens were expected to be cached where the request went in the end", got)
	}
	d.drained()
}
