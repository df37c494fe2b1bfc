package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/plugin/stats"
)

const prefixConfig = `{"lb_policy":"prefix_cache","lb_config":{"debug_headers":true,"redisKeyTTL":600,` +
	`"prefix":{"table_bytes":65536,"cache_tokens":%d}}}`

// talk sends the conversation of the given number through the first worker and answers it with so many of its 1000
// tokens cached. It returns the share that was expected to be cached.
func (d *fakeDriver) talk(number int, cached int) string { return d.talkTo("", number, cached) }

// talkTo is talk with a domain.
func (d *fakeDriver) talkTo(domain string, number int, cached int) string {
	c := d.client(0, streamtest.Request{Authority: domain, Frames: []string{promptBody(number)}})
	c.Head(200)
	c.Data(fmt.Sprintf(`{"usage":{"prompt_tokens":1000,"completion_tokens":9,`+
		`"prompt_tokens_details":{"cached_tokens":%d}}}`, cached))
	c.Finish()
	return c.Result().Headers["x-warmgate-match"]
}

// promptBody is a body with a prompt of its own for each number.
func promptBody(number int) string {
	return `{"prompt":"` + strings.Repeat(fmt.Sprintf("conversation %d ", number), 200) + `"}`
}

// Statistics show what answers report of caches: the retention, a loss, and cached tokens against expected ones.
func TestCacheGauges(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 1_000_000))
	const cluster = ";cluster=" + fakeCluster
	for range 3 {
		for number := range 20 {
			d.talk(number, 980)
		}
		d.advance(40 * time.Second)
	}
	if got := d.Gauge(stats.Retention + cluster); got != 600 {
		t.Errorf("%d s, want 600", got)
	}
	if _, ok := d.metrics.kinds[stats.Losses+cluster]; ok {
		t.Error("a loss is counted")
	}
	if got := d.talk(19, 980); got != "1.00" {
		t.Fatalf("%s of a prompt is expected to be cached", got)
	}
	for number := range 10 { // the server has restarted
		d.talk(number, 0)
		d.advance(time.Second)
	}
	if got := d.Counter(stats.Losses + cluster); got != 1 {
		t.Errorf("%d losses, want one", got)
	}
	if got := d.talk(19, 0); got != "0.00" {
		t.Errorf("%s of a prompt is still expected to be cached", got)
	}
	for name, kind := range map[string]string{stats.Retention: "gauge", stats.Losses: "counter", stats.Table: "gauge"} {
		if got := d.metrics.kinds[name+cluster]; got != kind {
			t.Errorf("%s is a %q, want %s", name, got, kind)
		}
	}
	d.drained()
}

// The log has one line when the prefix index is too small for the caches.
func TestIndexIsTooSmall(t *testing.T) {
	for _, c := range []struct {
		tokens int
		shown  bool // in a gauge
		warned bool
	}{{0, false, false}, {100, true, false}, {100_000_000, true, true}} {
		d := startFake(t, 1, 2, fmt.Sprintf(prefixConfig, c.tokens))
		for number := range 5 {
			d.talk(number, 0)
			d.advance(2 * time.Second)
		}
		percent, shown := d.metrics.values[stats.Table+";cluster="+fakeCluster]
		if warned := strings.Count(strings.Join(d.log, "\n"), "table_bytes"); shown != c.shown ||
			(warned == 1) != c.warned ||
			warned > 1 {
			t.Errorf("%d tokens a cache: %d %% (%v), %d warnings", c.tokens, percent, shown, warned)
		}
	}
}

// The learned values are the cluster's: with many rules, each with other settings, they are learned all the same,
// counted once, and the operator is warned once.
func TestManyRulesLearnTogether(t *testing.T) {
	const rules = 20
	var list []string
	domain := func(i int) string { return fmt.Sprintf("tenant%d.example", i%rules) }
	for i := range rules {
		list = append(list, fmt.Sprintf(`{"_match_domain_":["%s"],"lb_policy":"prefix_cache",`+
			`"lb_config":{"debug_headers":true,"redisKeyTTL":%d,
			"prefix":{"table_bytes":65536,"cache_tokens":100000000}}}`, domain(i), 600+i))
	}
	d := startFake(t, 1, 1, `{"_rules_":[`+strings.Join(list, ",")+`]}`)
	caches := func() *cache.Tracker { return d.workers[0].vm.Clusters[fakeCluster].Caches }
	var first *cache.Tracker
	for round := range 4 {
		for i := range rules {
			d.talkTo(domain(i), i, 980)
		}
		if first = caches(); round == 3 && d.talkTo(domain(0), 0, 980) != "1.00" {
			t.Error("what was sent is not expected to be cached")
		}
		d.advance(5 * time.Second)
	}
	for i := range 10 {
		d.talkTo(domain(i), i, 0)
		d.advance(2 * time.Second)
	}
	if got := d.Counter(stats.Losses + ";cluster=" + fakeCluster); got != 1 {
		t.Errorf("%d losses, want one", got)
	}
	if got := d.talkTo(domain(rules-1), rules-1, 0); got != "0.00" {
		t.Errorf("%s of a prompt is expected to be cached although another rule has met the loss", got)
	}
	if got := strings.Count(strings.Join(d.log, "\n"), "table_bytes"); got != 1 {
		t.Errorf("%d warnings, want one", got)
	}
	if len(d.workers[0].vm.Clusters[fakeCluster].Policies) != rules || caches() != first {
		t.Error("policies of rules in force are not kept, or what was learned is not")
	}
	d.drained()
}

// A new configuration keeps what was learned. When the cluster leaves prefix_cache, its gauges become 0, because their
// values are no longer in force.
func TestLeavesPrefixCache(t *testing.T) {
	const cluster = ";cluster=" + fakeCluster
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 1_000_000))
	show := func(when string, shown bool, losses uint64) {
		t.Helper()
		d.advance(2 * time.Second)
		retention, percent := d.Gauge(stats.Retention+cluster), d.Gauge(stats.Table+cluster)
		if got := d.Counter(stats.Losses + cluster); retention > 0 != shown || percent > 0 != shown || got != losses {
			t.Errorf("%s: kept for %d s, %d %% in the index, %d losses; shown is to be "+
				"%v, with %d losses", when, retention,
				percent, got, shown, losses)
		}
	}
	lose := func() {
		for number := range 20 {
			d.talk(number, 980)
		}
		d.advance(2 * time.Second)
		for number := range 10 {
			d.talk(number, 0)
		}
		for number := range 20 {
			d.talk(number, 980)
		}
	}
	lose()
	show("at first", true, 1)
	d.configure(requestsConfig)
	d.serve(0, 200)
	show("with another policy", false, 1)
	d.configure(fmt.Sprintf(prefixConfig, 1_000_000))
	d.talk(1, 980)
	show("back again", true, 1)
	d.advance(time.Minute)
	lose()
	show("after another loss", true, 2)
}

// If another endpoint serves a request than the chosen one, the expected match does not count for that endpoint.
func TestMovedRequestsExpectNothing(t *testing.T) {
	d := startFake(t, 1, 2, fmt.Sprintf(prefixConfig, 0))
	d.talk(1, 900)
	c := d.client(0, streamtest.Request{Frames: []string{promptBody(1)}})
	c.Retry()
	c.Head(200)
	before := d.Counter(stats.Expected)
	c.Data(`{"usage":{"prompt_tokens":1000,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}`)
	c.Finish()
	if got := d.Counter(stats.Expected) - before; got != 0 {
		t.Errorf("%d tokens were expected to be cached where the request went in the end", got)
	}
	d.drained()
}
