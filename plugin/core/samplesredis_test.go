package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/process"
)

type sampleMap = map[string]engines.Sample

const metricsConfig = `{"lb_policy":"endpoint_metrics","lb_config":{"debug_headers":true,"health":{"slow_start":0}}}`

// vllmPage is a page of vLLM's with so many requests in the batch.
func vllmPage(running int) string {
	return fmt.Sprintf("vllm:num_requests_running %d\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n",
		running)
}

// published returns what the VMs have published.
func (p *fakeProcess) published() sampleMap {
	p.t.Helper()
	all, err := discovery.ParseEngineSamples([]byte(p.kv.Cells[process.KeySamples+fakeCluster].Val))
	if err != nil {
		p.t.Fatal(err)
	}
	return all.By
}

// With Redis, other gateways have requests at an engine, too. If Redis does not answer how many, the engine's metrics
// count all the same.
func TestSamplesWithRedis(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 2, 2, "")
	if !d.configure(strings.Replace(redisConfig(""), "global_least_request", "endpoint_metrics", 1)) {
		t.Fatal("refused")
	}
	for i := range d.endpoints {
		d.SetPage(i, vllmPage(0))
	}
	inflight := func() (counted, requests int64) {
		for _, r := range d.published() {
			if requests += r.Inflight.Requests; r.Counted {
				counted++
			}
		}
		return counted, requests
	}
	first := d.client(0, streamtest.Request{}) // from here on engines are scraped
	d.advance(2 * time.Second)
	open := []*fakeStream{
		d.client(0, streamtest.Request{}), d.client(1, streamtest.Request{}),
		d.client(0, streamtest.Request{}),
	}
	d.advance(2 * time.Second)
	if counted, requests := inflight(); counted != 2 || requests != 4 {
		t.Errorf("of 2 engines %d are published with what was in flight, %d requests in all; want 4", counted, requests)
	}
	d.redis.fate = redisRefuses
	d.advance(2 * time.Second)
	if counted, _ := inflight(); counted != 0 || len(d.published()) != 2 {
		t.Errorf("without Redis %d of %d engines are published with what was in flight", counted, len(d.published()))
	}
	for addr, r := range d.published() {
		if d.now-r.At > time.Second {
			t.Errorf("without Redis, the reading of %s is %v old", addr, d.now-r.At)
		}
	}
	d.redis.fate = redisAnswers
	d.advance(3 * time.Second)
	if counted, requests := inflight(); counted != 2 || requests != 4 {
		t.Errorf("with Redis back, %d engines are published with what was in flight, %d requests in all",
			counted, requests)
	}
	for _, c := range append(open, first) {
		c.Finish()
	}
	d.advance(2 * time.Second)
	d.drained()
}
