package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/stats"
)

// frozenFake is a gateway with engines that answer while their pages may stand still.
type frozenFake struct {
	*fakeDriver
	answers int
	page    func(answers int) string
}

// serve sends two requests a second for some time, each of which is answered within half of one.
func (f *frozenFake) serve(d time.Duration) {
	for end := f.now + d; f.now < end; {
		for i := range f.endpoints {
			f.SetPage(i, f.page(f.answers))
		}
		f.answers++
		c := f.client(f.answers%len(f.workers), streamtest.Request{
			Frames: []string{`{"messages":[{"role":"user","content":"hello"}]}`},
		})
		f.advance(350 * time.Millisecond)
		c.Head(200)
		c.Finish()
		f.advance(150 * time.Millisecond)
	}
}

func (f *frozenFake) fresh() uint64 { return f.Gauge(stats.Fresh + ";cluster=" + fakeCluster) }

func (f *frozenFake) frozen() uint64 {
	return f.Counter(stats.Scrapes + ";result=" + endpoints.ScrapeFrozen)
}

func (f *frozenFake) logged() int { return strings.Count(strings.Join(f.log, "\n"), "stand still") }

// A page of metrics that stands still while answers end becomes stale for all policies and VMs, is counted and logged,
// and counts again once it moves. One that moves never does, nor one without counters, which may be the same by chance.
func TestFrozenPagesDoNotCount(t *testing.T) {
	for _, policy := range []string{"endpoint_metrics", "prefix_cache"} {
		for _, stored := range []bool{true, false} {
			for _, c := range []struct {
				name   string
				page   func(answers int) string
				frozen bool
			}{
				{"counts and moves", func(n int) string { return countingPage(1, 0, n) }, false},
				{"counts and stands still", func(int) string { return countingPage(1, 0, 4000) }, true},
				{"counts and stands still, but for the exporter", func(n int) string {
					return fmt.Sprintf("process_cpu_seconds_total %d\n", n) + countingPage(1, 0, 4000)
				}, true},
				{"counts nothing yet", func(int) string {
					return fullPage(0, 0) + "vllm:prompt_tokens_total 0\n"
				}, false},
				{"gauges alone", func(int) string { return fullPage(0, 0) }, false},
			} {
				t.Run(fmt.Sprintf("%s/stored=%v/%s", policy, stored, c.name), func(t *testing.T) {
					config := strings.Replace(metricsConfig, "endpoint_metrics", policy, 1)
					f := &frozenFake{fakeDriver: startFake(t, 2, 2, config), page: c.page}
					f.stored = stored
					f.serve(2 * time.Second)
					if n := f.fresh(); n != 2 {
						t.Fatalf("%d fresh at first", n)
					}
					f.serve(20 * time.Second)
					want := uint64(2)
					if c.frozen {
						want = 0
					}
					if n := f.fresh(); n != want {
						t.Errorf("%d fresh, want %d", n, want)
					}
					if n, logged := f.frozen(), f.logged(); n > 0 != c.frozen || logged > 0 != c.frozen {
						t.Errorf("counted %d times, logged %d times", n, logged)
					}
					if f.logged() > 2*(len(f.workers)+1) {
						t.Errorf("logged %d times", f.logged())
					}
					before := f.frozen()
					f.page = func(n int) string { return countingPage(1, 0, n) }
					f.serve(5 * time.Second)
					if n := f.fresh(); n != 2 {
						t.Errorf("%d fresh once pages move", n)
					}
					if n := f.frozen() - before; n > uint64(2*len(f.endpoints)) {
						t.Errorf("counted %d times more", n)
					}
				})
			}
		}
	}
}

// With counts in Redis, too, and on one endpoint alone, where all requests go.
func TestFrozenPagesInRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := &fakeDriver{fakeProcess: newFakeProcess(t, 2)}
	d.attachRedis(t, server).latency = time.Millisecond
	d.SetEndpoints(make([]streamtest.Endpoint, 1))
	if !d.configure(strings.Replace(metricsConfig, `"lb_config":{`,
		`"lb_config":{"serviceFQDN":"redis.static","password":"my secret",`, 1)) {
		t.Fatal("refused")
	}
	f := &frozenFake{fakeDriver: d, page: func(n int) string { return countingPage(1, 0, n) }}
	f.serve(10 * time.Second)
	if n := f.fresh(); n != 1 {
		t.Errorf("%d fresh while the page moves", n)
	}
	f.page = func(int) string { return countingPage(1, 0, 4000) }
	f.serve(10 * time.Second)
	if n := f.fresh(); n != 0 || f.frozen() == 0 {
		t.Errorf("%d fresh, counted %d times", n, f.frozen())
	}
}

// What makes no engine compute says nothing about its page: an idle engine's stays the same.
func TestIdlePagesAreFresh(t *testing.T) {
	f := &frozenFake{fakeDriver: startFake(t, 2, 2, metricsConfig)}
	for i := range f.endpoints {
		f.SetPage(i, countingPage(0, 0, 4000))
	}
	for i := range 40 {
		r := streamtest.Request{Method: "GET", Path: "/v1/models"}
		if i%4 == 3 {
			r = streamtest.Request{Frames: []string{`{"messages":[{"role":"user","content":"hello"}]}`}}
		}
		c := f.client(i%2, r)
		f.advance(350 * time.Millisecond)
		if i%4 == 3 {
			c.Head(500)
		} else {
			c.Head(200)
		}
		c.Finish()
		f.advance(150 * time.Millisecond)
	}
	if n := f.fresh(); n != 2 || f.frozen() > 0 {
		t.Errorf("%d fresh, counted %d times", n, f.frozen())
	}
}
