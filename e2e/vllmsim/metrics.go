package vllmsim

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// familiesText lists what vLLM 0.32 exposes, in its order: type, name and help of each family
// but the _created ones, which follow from it.
//
//go:embed families.txt
var familiesText string

type family struct{ kind, name, help string }

var families = parseFamilies(familiesText)

func parseFamilies(text string) []family {
	var fs []family
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		fs = append(fs, family{parts[0], parts[1], parts[2]})
	}
	return fs
}

// sample is one series of a family: its labels as the exposition has them, without braces, and a value. For a
// histogram, le goes between labels and after.
type sample struct {
	labels, after string
	value         float64
	hist          *histogram
}

// metrics renders the exposition of vLLM 0.32 with this server's values.
func (s *Server) metrics() []byte {
	m := map[string][]sample{}
	s.processMetrics(m)
	// Histograms are rendered under the locks that guard them.
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	s.engineMetrics(m)
	s.histogramMetrics(m)
	s.trafficMetrics(m)
	return render(m, float64(s.started.UnixMicro())/1e6)
}

// render writes every family that has samples.
func render(m map[string][]sample, created float64) []byte {
	b := make([]byte, 0, 64<<10)
	for _, f := range families {
		samples := m[f.name]
		if len(samples) == 0 {
			continue
		}
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, v := range samples {
			switch f.kind {
			case "histogram":
				b = appendHistogram(b, f.name, v)
			case "summary":
				b = appendSample(b, f.name+"_count", v.labels, float64(v.hist.total()))
				b = appendSample(b, f.name+"_sum", v.labels, v.hist.sum)
			default:
				b = appendSample(b, f.name, v.labels, v.value)
			}
		}
		if f.kind == "gauge" || !strings.HasPrefix(f.name, "vllm:") && !strings.HasPrefix(f.name, "http_") {
			continue
		}
		name := strings.TrimSuffix(f.name, "_total")
		if f.kind == "histogram" {
			name = f.name
		}
		b = fmt.Appendf(b, "# HELP %s_created %s\n# TYPE %s_created gauge\n", name, f.help, name)
		for _, v := range samples {
			b = appendSample(b, name+"_created", v.join(""), created)
		}
	}
	return b
}

// join is the sample's labels with one more in its place.
func (v sample) join(le string) string {
	parts := slices.DeleteFunc([]string{v.labels, le, v.after}, func(p string) bool { return p == "" })
	return strings.Join(parts, ",")
}

func appendHistogram(b []byte, name string, v sample) []byte {
	total := int64(0)
	for i, n := range v.hist.counts {
		total += n
		le := "+Inf"
		if i < len(v.hist.bounds) {
			le = pyFloat(v.hist.bounds[i])
		}
		b = appendSample(b, name+"_bucket", v.join(`le="`+le+`"`), float64(total))
	}
	b = appendSample(b, name+"_count", v.join(""), float64(total))
	return appendSample(b, name+"_sum", v.join(""), v.hist.sum)
}

func appendSample(b []byte, name, labels string, value float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(b, '{')
		b = append(b, labels...)
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = append(b, pyFloat(value)...)
	return append(b, '\n')
}

func (h *histogram) total() int64 {
	n := int64(0)
	for _, c := range h.counts {
		n += c
	}
	return n
}

// engineLabels are the labels nearly all families of vLLM carry; label names are sorted, so
// what sorts between them needs its own place.
func (s *Server) engineLabels() (engine, model string) {
	return `engine="0"`, "model_name=" + strconv.Quote(s.cfg.Model)
}

// engineMetrics collects the counters and gauges of the engine.
func (s *Server) engineMetrics(m map[string][]sample) {
	e, sched := s.engine, s.engine.sched
	sched.account(e.now())
	c := sched.stats
	engine, model := s.engineLabels()
	base := engine + "," + model
	plain := func(name string, v float64) { m["vllm:"+name] = []sample{{labels: base, value: v}} }
	by := func(name, label string, values ...any) {
		for i := 0; i < len(values); i += 2 {
			l := fmt.Sprintf("%s,%s=%q", base, label, values[i])
			m["vllm:"+name] = append(m["vllm:"+name], sample{labels: l, value: toFloat(values[i+1])})
		}
	}
	for _, name := range []string{
		"estimated_flops_per_gpu_total", "estimated_read_bytes_per_gpu_total", "estimated_write_bytes_per_gpu_total",
		"external_prefix_cache_queries_total", "external_prefix_cache_hits_total",
		"mm_cache_queries_total", "mm_cache_hits_total",
	} {
		plain(name, 0)
	}
	plain("num_requests_running", float64(sched.shown.running))
	plain("num_requests_waiting", float64(sched.shown.waiting))
	by("num_requests_waiting_by_reason", "reason", "capacity", sched.shown.waiting-sched.shown.deferred,
		"deferred", sched.shown.deferred)
	by("engine_sleep_state", "sleep_state", "awake", 1, "weights_offloaded", 0, "discard_all", 0)
	plain("kv_cache_usage_perc", sched.shown.kvUsage)
	plain("prefix_cache_queries_total", float64(c.prefixQueries))
	plain("prefix_cache_hits_total", float64(c.prefixHits))
	plain("num_preemptions_total", float64(c.preemptions))
	plain("prompt_tokens_total", float64(c.promptTokens))
	by("prompt_tokens_by_source_total", "source", "local_compute", c.promptTokens-c.cachedTokens,
		"local_cache_hit", c.cachedTokens, "external_kv_transfer", 0)
	plain("prompt_tokens_cached_total", float64(c.cachedTokens))
	by("prompt_tokens_cached_by_source_total", "source", "device", c.prefixHits,
		"host", 0, "p2p", 0, "disk", 0, "external_unspecified", 0)
	plain("generation_tokens_total", float64(c.outputTokens))
	for _, reason := range []finish{finishStop, finishLength, finishAbort, "error", "repetition"} {
		l := fmt.Sprintf(`%s,finished_reason=%q,%s`, engine, reason, model)
		m["vllm:request_success_total"] = append(m["vllm:request_success_total"],
			sample{labels: l, value: float64(c.finished[reason])})
	}
	m["vllm:admission_rejections_total"] = []sample{
		{labels: model + `,reason="max_num_queued_reqs"`, value: float64(c.rejected)},
		{labels: model + `,reason="max_num_queued_tokens"`},
	}
	m["vllm:lora_requests_info"] = sched.adapters.samples(e.start)
	m["vllm:cache_config_info"] = []sample{{labels: s.cacheConfig(), value: 1}}
}

func toFloat(v any) float64 {
	switch n := v.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	}
	panic(fmt.Sprintf("vllmsim: %T is no count", v))
}

// cacheConfig is the label set of vllm:cache_config_info; only what this server has is true.
func (s *Server) cacheConfig() string {
	tokens := s.cfg.BlockSize * s.cfg.NumBlocks
	return strings.NewReplacer(
		"$BLOCK", strconv.Itoa(s.cfg.BlockSize),
		"$NUM", strconv.Itoa(s.cfg.NumBlocks),
		"$TOKENS", strconv.Itoa(tokens),
		"$CONCURRENCY", pyFloat(float64(tokens)/float64(s.cfg.MaxModelLen)),
	).Replace(cacheConfigLabels)
}

// histogramMetrics lists the histograms of the engine.
func (s *Server) histogramMetrics(m map[string][]sample) {
	engine, model := s.engineLabels()
	c := s.engine.sched.stats
	for name, h := range map[string]*histogram{
		"request_prompt_tokens":                 &c.promptLen,
		"request_generation_tokens":             &c.outputLen,
		"iteration_tokens_total":                &c.iteration,
		"request_max_num_generation_tokens":     &c.maxOutput,
		"request_params_n":                      &c.paramN,
		"request_params_max_tokens":             &c.paramMaxTokens,
		"time_to_first_token_seconds":           &c.ttft,
		"inter_token_latency_seconds":           &c.interToken,
		"request_time_per_output_token_seconds": &c.perToken,
		"e2e_request_latency_seconds":           &c.e2e,
		"request_queue_time_seconds":            &c.queueTime,
		"request_inference_time_seconds":        &c.inference,
		"request_prefill_time_seconds":          &c.prefillTime,
		"request_decode_time_seconds":           &c.decodeTime,
		"request_num_preemptions":               &c.preemptHist,
		"request_prefill_kv_computed_tokens":    &c.prefillKV,
	} {
		m["vllm:"+name] = []sample{{labels: engine, after: model, hist: h}}
	}
}

// trafficMetrics collects the families of vLLM's HTTP front end.
func (s *Server) trafficMetrics(m map[string][]sample) {
	add := func(name string, v sample) { m[name] = append(m[name], v) }
	for _, key := range s.traffic.keys() {
		h := s.traffic.handlers[key]
		handler, method := fmt.Sprintf("handler=%q", key.handler), fmt.Sprintf("method=%q", key.method)
		for class, n := range h.classes {
			if n > 0 {
				l := fmt.Sprintf(`%s,%s,status="%dxx"`, handler, method, class)
				add("http_requests_total", sample{labels: l, value: float64(n)})
			}
		}
		size := h.latency
		size.sum = h.inBytes
		add("http_request_size_bytes", sample{labels: handler, hist: &size})
		// vLLM's replies are chunked and count as 0 bytes.
		reply := h.latency
		reply.sum = 0
		add("http_response_size_bytes", sample{labels: handler, hist: &reply})
		add("http_request_duration_seconds", sample{labels: handler, after: method, hist: &h.latency})
	}
	add("http_request_duration_highr_seconds", sample{hist: &s.traffic.latency})
}

// keys returns the handlers that were called, in a fixed order.
func (t *traffic) keys() []handlerKey {
	keys := make([]handlerKey, 0, len(t.handlers))
	for k := range t.handlers {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b handlerKey) int {
		return -strings.Compare(a.handler+a.method, b.handler+b.method)
	})
	return keys
}

// processMetrics stands in for the metrics of a Python process.
func (s *Server) processMetrics(m map[string][]sample) {
	for generation := range 3 {
		l := fmt.Sprintf(`generation="%d"`, generation)
		for _, name := range []string{"objects_collected", "objects_uncollectable", "collections"} {
			name = "python_gc_" + name + "_total"
			m[name] = append(m[name], sample{labels: l})
		}
	}
	m["python_info"] = []sample{{
		labels: `implementation="CPython",major="3",minor="11",patchlevel="7",version="3.11.7"`, value: 1,
	}}
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
		"process_start_time_seconds":    float64(s.started.UnixMilli()) / 1e3,
		"process_cpu_seconds_total":     cpu,
		"process_open_fds":              float64(len(fds)),
		"process_max_fds":               20000,
	} {
		m[name] = []sample{{value: v}}
	}
}
