// Package enginestest has pages of metrics, for tests.
package enginestest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/metrics"
)

// Snapshot returns what a page of metrics shows that has the given values of vLLM's metrics, and those of the targets
// "gauge" and "counter".
func Snapshot(t testing.TB, values map[string]float64) (s metrics.Snapshot) {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine, "gauge", "counter")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{
		"running": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting",
		"deferred": `vllm:num_requests_waiting_by_reason{reason="deferred"}`, "use": "vllm:kv_cache_usage_perc",
		"tokens": "vllm:inter_token_latency_seconds_count", "seconds": "vllm:inter_token_latency_seconds_sum",
		"awake": `vllm:engine_sleep_state{sleep_state="awake"}`, "gauge": "gauge", "counter": "counter_total",
		"prompt tokens": "vllm:prompt_tokens_total", "output tokens": "vllm:generation_tokens_total",
	}
	var page strings.Builder
	for name, v := range values {
		if names[name] != "" {
			fmt.Fprintf(&page, "%s %v\n", names[name], v)
		}
	}
	if blocks, ok := values["blocks"]; ok {
		fmt.Fprintf(&page, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"%v\"} 1\n", blocks)
	}
	if slots, ok := values["adapters"]; ok {
		fmt.Fprintf(&page, "vllm:lora_requests_info{max_lora=\"%v\",running_lora_adapters=\"a,b\",", slots)
		fmt.Fprintf(&page, "waiting_lora_adapters=\"w\"} 1\n")
	}
	p.Parse([]byte(page.String()), &s)
	return s
}
