package vllmsim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// snapshot is what the metrics show of an engine.
type snapshot struct {
	start    time.Time // of the engine's time
	gauges   enginesim.Gauges
	stats    enginesim.Stats
	adapters []enginesim.AdapterSet
}

// metrics renders the exposition of vLLM 0.32 with this server's values.
func (s *Server) metrics() []byte {
	v := snapshot{start: s.runner.start}
	s.runner.do(func(e *enginesim.Engine, _ time.Duration) {
		v.gauges, v.stats, v.adapters = e.Gauges(), e.Stats(), e.AdapterSets()
	})
	p := page{}
	p.addProcess(s.started)
	p.addEngine(&s.cfg, &v)
	p.addHistograms(&s.cfg, &v.stats)
	// Histograms of the traffic are rendered under the lock that guards them.
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	p.addTraffic(&s.traffic)
	return p.render(float64(s.started.UnixMicro()) / 1e6)
}

// engineLabels are the labels nearly all families of vLLM carry; label names are sorted, so what sorts between them
// needs its own place.
func engineLabels(cfg *Config) (engine, model string) {
	return `engine="0"`, "model_name=" + strconv.Quote(cfg.Model)
}

// addEngine adds the counters and gauges of the engine.
func (p page) addEngine(cfg *Config, v *snapshot) {
	c, g := &v.stats, &v.gauges
	number, model := engineLabels(cfg)
	base := number + "," + model
	plain := func(name string, v float64) { p.add("vllm:"+name, sample{labels: base, value: v}) }
	// by adds a series for each of the label's values, which spaces divide; what has no number is 0.
	by := func(name, label, values string, numbers ...float64) {
		for i, value := range strings.Fields(values) {
			s := sample{labels: fmt.Sprintf("%s,%s=%q", base, label, value)}
			if i < len(numbers) {
				s.value = numbers[i]
			}
			p.add("vllm:"+name, s)
		}
	}
	for _, name := range []string{
		"estimated_flops_per_gpu_total", "estimated_read_bytes_per_gpu_total", "estimated_write_bytes_per_gpu_total",
		"external_prefix_cache_queries_total", "external_prefix_cache_hits_total",
		"mm_cache_queries_total", "mm_cache_hits_total",
	} {
		plain(name, 0)
	}
	plain("num_requests_running", float64(g.Running))
	plain("num_requests_waiting", float64(g.Waiting))
	by("num_requests_waiting_by_reason", "reason", "capacity deferred",
		float64(g.Waiting-g.Deferred), float64(g.Deferred))
	by("engine_sleep_state", "sleep_state", "awake weights_offloaded discard_all", 1)
	plain("kv_cache_usage_perc", g.KVUsage)
	plain("prefix_cache_queries_total", float64(c.PrefixQueries))
	plain("prefix_cache_hits_total", float64(c.PrefixHits))
	plain("num_preemptions_total", float64(c.Preemptions))
	plain("prompt_tokens_total", float64(c.PromptTokens))
	by("prompt_tokens_by_source_total", "source", "local_compute local_cache_hit external_kv_transfer",
		float64(c.PromptTokens-c.CachedTokens), float64(c.CachedTokens))
	plain("prompt_tokens_cached_total", float64(c.CachedTokens))
	by("prompt_tokens_cached_by_source_total", "source", "device host p2p disk external_unspecified",
		float64(c.PrefixHits))
	plain("generation_tokens_total", float64(c.OutputTokens))
	for _, end := range []enginesim.Finish{
		enginesim.FinishStop, enginesim.FinishLength, enginesim.FinishAbort, "error", "repetition",
	} {
		l := fmt.Sprintf(`%s,finished_reason=%q,%s`, number, end, model)
		p.add("vllm:request_success_total", sample{labels: l, value: float64(c.Finished[end])})
	}
	p.add("vllm:admission_rejections_total",
		sample{labels: model + `,reason="max_num_queued_reqs"`, value: float64(c.Rejected)},
		sample{labels: model + `,reason="max_num_queued_tokens"`})
	for _, set := range v.adapters {
		names := strconv.Quote(set.Names)
		p.add("vllm:lora_requests_info", sample{
			labels: fmt.Sprintf(`max_lora="%d",running_lora_adapters=%s,waiting_lora_adapters=%s`,
				cfg.MaxLoras, names, names),
			value: float64(v.start.Add(set.At).UnixMicro()) / 1e6, // Unix seconds
		})
	}
	p.add("vllm:cache_config_info", sample{labels: cacheConfig(cfg), value: 1})
}

// cacheConfig is the label set of vllm:cache_config_info; only what this server has is true.
func cacheConfig(cfg *Config) string {
	tokens := cfg.BlockSize * cfg.NumBlocks
	return strings.NewReplacer(
		"$BLOCK", strconv.Itoa(cfg.BlockSize),
		"$NUM", strconv.Itoa(cfg.NumBlocks),
		"$TOKENS", strconv.Itoa(tokens),
		"$CONCURRENCY", pyFloat(float64(tokens)/float64(cfg.MaxModelLen)),
	).Replace(cacheConfigLabels)
}

// cacheConfigLabels are the labels vLLM 0.32 puts on vllm:cache_config_info, with $ marking those
// that depend on the server.
const cacheConfigLabels = "" +
	`_block_size_resolved="True",block_size="$BLOCK",cache_dtype="auto",` +
	`cache_hit_alignment_tokens="None",effective_attention_block_size="$BLOCK",` +
	`enable_mamba_shared_prefix_checkpoint="False",enable_prefix_caching="True",engine="0",` +
	`gpu_memory_utilization="0.92",hash_block_size="None",is_attention_free="False",` +
	`kv_cache_dtype_skip_layers="[]",kv_cache_layout="None",kv_cache_max_concurrency="$CONCURRENCY",` +
	`kv_cache_memory_bytes="1073741824",kv_cache_size_tokens="$TOKENS",` +
	`kv_offloading_backend="native",kv_offloading_size="None",kv_sharing_fast_prefill="False",` +
	`mamba_block_size="None",mamba_cache_dtype="auto",mamba_cache_mode="none",` +
	`mamba_page_size_padded="None",mamba_ssm_cache_dtype="auto",num_cpu_blocks="None",` +
	`num_gpu_blocks="$NUM",num_gpu_blocks_override="None",prefix_cache_retention_interval="0",` +
	`prefix_caching_hash_algo="sha256",prefix_match_unit="None",replayssm_buffer_len="16",` +
	`skip_page_size_padded="None",sliding_window="None",swa_bounded_replay="True",` +
	`use_kda_recoverssm="False",use_replayssm="False",user_specified_block_size="True"`

// addHistograms adds the histograms of the engine.
func (p page) addHistograms(cfg *Config, c *enginesim.Stats) {
	number, model := engineLabels(cfg)
	for name, h := range map[string]*enginesim.Histogram{
		"request_prompt_tokens":                 &c.PromptLen,
		"request_generation_tokens":             &c.OutputLen,
		"iteration_tokens_total":                &c.Iteration,
		"request_max_num_generation_tokens":     &c.MaxOutput,
		"request_params_n":                      &c.N,
		"request_params_max_tokens":             &c.MaxTokens,
		"time_to_first_token_seconds":           &c.TTFT,
		"inter_token_latency_seconds":           &c.InterToken,
		"request_time_per_output_token_seconds": &c.PerToken,
		"e2e_request_latency_seconds":           &c.E2E,
		"request_queue_time_seconds":            &c.QueueTime,
		"request_inference_time_seconds":        &c.Inference,
		"request_prefill_time_seconds":          &c.PrefillTime,
		"request_decode_time_seconds":           &c.DecodeTime,
		"request_num_preemptions":               &c.Preempted,
		"request_prefill_kv_computed_tokens":    &c.PrefillKV,
	} {
		p.add("vllm:"+name, sample{labels: number, after: model, hist: h})
	}
}

// addTraffic adds the families of vLLM's HTTP front end.
func (p page) addTraffic(t *traffic) {
	for _, key := range t.keys() {
		h := t.handlers[key]
		handler, method := fmt.Sprintf("handler=%q", key.handler), fmt.Sprintf("method=%q", key.method)
		for class, n := range h.classes {
			if n > 0 {
				l := fmt.Sprintf(`%s,%s,status="%dxx"`, handler, method, class)
				p.add("http_requests_total", sample{labels: l, value: float64(n)})
			}
		}
		size := h.latency
		size.Sum = h.inBytes
		p.add("http_request_size_bytes", sample{labels: handler, hist: &size})
		// vLLM's replies are chunked and count as 0 bytes.
		reply := h.latency
		reply.Sum = 0
		p.add("http_response_size_bytes", sample{labels: handler, hist: &reply})
		p.add("http_request_duration_seconds", sample{labels: handler, after: method, hist: &h.latency})
	}
	p.add("http_request_duration_highr_seconds", sample{hist: &t.latency})
}

// addProcess stands in for the metrics of a Python process.
func (p page) addProcess(started time.Time) {
	for generation := range 3 {
		l := fmt.Sprintf(`generation="%d"`, generation)
		for _, name := range []string{"objects_collected", "objects_uncollectable", "collections"} {
			name = "python_gc_" + name + "_total"
			p.add(name, sample{labels: l})
		}
	}
	p.add("python_info", sample{
		labels: `implementation="CPython",major="3",minor="11",patchlevel="7",version="3.11.7"`, value: 1,
	})
	var pages [2]float64
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		// Fields that cannot be read stay 0.
		_, _ = fmt.Sscan(string(statm), &pages[0], &pages[1])
	}
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	fds, _ := os.ReadDir("/proc/self/fd")
	cpu := float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
	for name, v := range map[string]float64{
		"process_virtual_memory_bytes":  pages[0] * float64(os.Getpagesize()),
		"process_resident_memory_bytes": pages[1] * float64(os.Getpagesize()),
		"process_start_time_seconds":    float64(started.UnixMilli()) / 1e3,
		"process_cpu_seconds_total":     cpu,
		"process_open_fds":              float64(len(fds)),
		"process_max_fds":               20000,
	} {
		p.add(name, sample{value: v})
	}
}
