package metrics

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// values are the fields that are expected in a page.
type values map[Field]float64

func found(l *Snapshot) values {
	v := values{}
	for f := range fieldCount {
		if value, ok := l.Value(f); ok {
			v[f] = value
		}
	}
	return v
}

func parser(t testing.TB, e Engine, targets ...string) *Parser {
	t.Helper()
	p, err := New(e, targets...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSamples(t *testing.T) {
	const uptime = "dynamo_component_uptime_seconds"
	p := parser(t, AnyEngine, "vllm:kv_cache_usage_perc", "llamacpp:n_tokens_max", uptime, "vllm:prompt_tokens", "none")
	for _, c := range []struct {
		file    string
		engine  Engine
		want    values
		missing []string
	}{
		{"vllm-0.32.0.prom", VLLM, values{
			Running: 0, Waiting: 0, Deferred: 0, KVUse: 0, KVBlocks: 16384, BlockTokens: 32, PromptTokens: 4923,
			OutputTokens:  24,
			PrefixQueries: 4923, PrefixHits: 3200, Intervals: 18, IntervalTime: 0.18361165999999685,
			Preemptions: 0, Awake: 1, Started: 1.79524773298e+09,
			Target(0): 0, Target(3): 4923,
		}, []string{"none"}},
		{"vllm-0.32.0-second.prom", VLLM, values{
			Running: 0, Waiting: 0, Deferred: 0, KVUse: 0, KVBlocks: 8192, BlockTokens: 32, PromptTokens: 57285,
			OutputTokens:  876,
			PrefixQueries: 57285, PrefixHits: 28160, Intervals: 840, IntervalTime: 11.517022132999045,
			Preemptions: 0, Awake: 1, Started: 1.79524796033e+09,
			Target(0): 0, Target(3): 57285,
		}, []string{"none"}},
		{"llamacpp.prom", LlamaCPP, values{
			Running: 0, Waiting: 0, PromptTokens: 26981 + 28396, OutputTokens: 108, PrefixQueries: 26981 + 28396,
			PrefixHits: 28396,
			Intervals:  108, IntervalTime: 1.19561, Target(1): 6006,
		}, []string{"none"}},
		{"dynamo-mocker.prom", Dynamo, values{
			Running: 0, Waiting: 0, Served: 4, Target(2): 1.875466037,
		}, []string{"none"}},
	} {
		var l Snapshot
		p.Parse([]byte(sample(t, c.file)), &l)
		if l.Engine != c.engine || l.Cut || l.Loaded.N+l.Waiting.N != 0 {
			t.Errorf("%s: %v, cut %v, adapters %v %v", c.file, l.Engine, l.Cut, l.Loaded.N, l.Waiting.N)
		}
		if got := found(&l); !maps.Equal(got, c.want) {
			t.Errorf("%s: got  %v\nwant %v", c.file, got, c.want)
		}
		if got := p.Missing(&l, Running, Waiting, KVUse, MaxAdapters, Target(4)); !slices.Equal(got, c.missing) {
			t.Errorf("%s: missing %q, want %q", c.file, got, c.missing)
		}
	}
}

// engineTexts are written after the documentation of the engines.
var engineTexts = []struct {
	name, text string
	engine     Engine
	want       values
}{
	{"an older vLLM", `
vllm:num_requests_running{model_name="m"} 3.0
vllm:num_requests_swapped{model_name="m"} 7.0
vllm:num_requests_waiting{model_name="m"} 2.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:cpu_cache_usage_perc{model_name="m"} 0.9
`, VLLM, values{Running: 3, Waiting: 2, KVUse: 0.25}},
	{"both names of vLLM", `
vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:kv_cache_usage_perc{model_name="m"} 0.5
vllm:gpu_cache_usage_perc{model_name="n"} 0.25
`, VLLM, values{KVUse: 0.5}},
	{"vLLM asleep", `
vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0
vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 1.0
`, VLLM, values{Awake: 0}},
	{"vLLM with two copies", `
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 5.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="1",reason="deferred"} 2.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="1001"} 1.0
`, VLLM, values{Running: 8, Deferred: 3, KVUse: 0.5, BlockTokens: 16, KVBlocks: 2001}},
	{"SGLang", `
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 12
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3
sglang:num_grammar_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2
sglang:num_prefill_inflight_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 9
sglang:full_token_usage{model_name="m",tp_rank="0"} 0.5
sglang:token_usage{model_name="m",tp_rank="0"} 0.375
sglang:prompt_tokens_total{model_name="m"} 1e+06
sglang:cache_config_info{num_pages="500",page_size="64"} 1
`, SGLang, values{Running: 12, Waiting: 5, KVUse: 0.375, PromptTokens: 1e6, KVBlocks: 500, BlockTokens: 64}},
	{"SGLang, all GPUs report the same", `
sglang:num_running_reqs{pp_rank="0",tp_rank="1"} 12
sglang:num_running_reqs{pp_rank="0",tp_rank="0"} 12
sglang:num_running_reqs{pp_rank="1",tp_rank="1"} 12
sglang:token_usage{pp_rank="0",tp_rank="0"} 0.5
sglang:token_usage{pp_rank="0",tp_rank="1"} 0.5
`, SGLang, values{Running: 12, KVUse: 0.5}},
	{"SGLang with two copies on two GPUs each", `
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 1
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 1
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 10
sglang:num_running_reqs{dp_rank="1",tp_rank="3"} 10
`, SGLang, values{Running: 11}},
	{"SGLang whose second stage reports first", `
sglang:num_running_reqs{pp_rank="1",tp_rank="0"} 12
sglang:num_running_reqs{pp_rank="0",tp_rank="0"} 12
`, SGLang, values{Running: 12}},
	{"SGLang with ranks of several digits", `
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 1
sglang:num_running_reqs{dp_rank="0",tp_rank="9"} 1
sglang:num_running_reqs{dp_rank="0",tp_rank="100"} 1
sglang:num_running_reqs{dp_rank="9",tp_rank="9"} 10
sglang:num_running_reqs{dp_rank="10",tp_rank="10"} 100
`, SGLang, values{Running: 111}},
	{"SGLang with priorities", `
sglang:num_queue_reqs{priority="",tp_rank="0"} 7
sglang:num_queue_reqs{priority="1",tp_rank="0"} 4
sglang:num_queue_reqs{priority="2",tp_rank="0"} 3
`, SGLang, values{Waiting: 7}},
	{"TensorRT-LLM", `
trtllm_request_success_total{finished_reason="stop",model_name="m"} 150
trtllm_request_success_total{finished_reason="length",model_name="m"} 7
trtllm_num_requests_running{model_name="m"} 4
trtllm_num_requests_waiting{model_name="m"} 1
trtllm_kv_cache_utilization{model_name="m"} 0.62
trtllm_kv_cache_tokens_per_block{model_name="m"} 32
trtllm_kv_cache_max_blocks{model_name="m"} 900
`, TensorRTLLM, values{Running: 4, Waiting: 1, KVUse: 0.62, BlockTokens: 32, KVBlocks: 900, Served: 157}},
	{"Triton with TensorRT-LLM", `
nv_inference_pending_request_count{model="ensemble",version="1"} 40
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 300
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 400
`, Triton, values{Running: 3, Waiting: 1, BlockTokens: 64, KVUsedBlocks: 100, KVBlocks: 400, KVUse: 0.25}},
	{
		"Triton with another backend",
		"nv_inference_pending_request_count{model=\"m\"} 40\nnv_inference_request_success{model=\"m\"} 9\n", Triton,
		values{Waiting: 40, Served: 9},
	},
	{"TGI", `
tgi_batch_current_size 5
tgi_queue_size 3
tgi_request_count{method="generate"} 150
`, TGI, values{Running: 5, Waiting: 3, Served: 150}},
	{"an engine behind Dynamo", `
dynamo_component_inflight_requests{dynamo_endpoint="generate"} 9
dynamo_work_handler_queue_depth 4
sglang:num_running_reqs{tp_rank="0"} 2
`, SGLang, values{Running: 2}}, // its queue, which is not reported here, is not the handler's
	{"an engine behind Dynamo that reports little", `
dynamo_component_inflight_requests{dynamo_endpoint="generate"} 9
sglang:prompt_tokens_total 5
`, SGLang, values{PromptTokens: 5}},
	{"TGI among other processes", `
process_start_time_seconds{pod="a"} 1000
process_start_time_seconds{pod="b"} 3000
process_start_time_seconds{pod="c"} 2000
tgi_queue_size 3
`, TGI, values{Waiting: 3, Started: 3000}},
	{"of no engine but for a count", "tgi_request_count 4\nvllm:num_requests_running_total 4\n", AnyEngine, values{}},
}

func TestEngines(t *testing.T) {
	for _, c := range engineTexts {
		var l Snapshot
		parser(t, AnyEngine).Parse([]byte(c.text), &l)
		if got := found(&l); l.Engine != c.engine || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v %v, want %v %v", c.name, l.Engine, got, c.engine, c.want)
		}
		parser(t, c.engine).Parse([]byte(c.text), &l)
		if got := found(&l); l.Engine != c.engine || !maps.Equal(got, c.want) {
			t.Errorf("%s, engine given: got %v %v, want %v %v", c.name, l.Engine, got, c.engine, c.want)
		}
		if c.engine != TGI {
			parser(t, TGI).Parse([]byte(c.text), &l)
			if got := found(&l); l.Engine != AnyEngine || len(got) != 0 {
				t.Errorf("%s, read as TGI's: %v %v", c.name, l.Engine, got)
			}
		}
	}
}

func TestAdapters(t *testing.T) {
	info := func(max, running, waiting, at string) string {
		return `vllm:lora_requests_info{max_lora="` + max + `",running_lora_adapters="` + running +
			`",waiting_lora_adapters="` + waiting + `"} ` + at + "\n"
	}
	many := make([]string, MaxNames+3)
	for i := range many {
		many[i] = "adapter-" + strings.Repeat("x", i)
	}
	for _, c := range []struct {
		name, text      string
		most            float64
		loaded, waiting []string
	}{
		{"one state", info("4", "a", "", "1.7952478152460895e+09"), 4, []string{"a"}, nil},
		{
			"the newest of three", info("4", "a", "b", "10") + info("2", "b,c", "d", "30") +
				info("4", "c", "", "20"), 2,
			[]string{"b", "c"},
			[]string{"d"},
		},
		{"blanks and nothing between commas", info("4", " a, b c ,,", ",", "1"), 4, []string{"a", "b c "}, nil},
		{"escapes", info("4", `a\"b,c\\d,e\nf`, "}{", "1"), 4, []string{`a"b`, `c\d`, "e\nf"}, []string{"}{"}},
		{"more than there is room for", info("4", strings.Join(many, ","), "", "1"), 4, many[:MaxNames], nil},
		{"two of the same time", info("4", "a", "", "10") + info("2", "b", "", "10"), 2, []string{"b"}, nil},
		{"room for none", info("0", "", "a", "1"), 0, nil, []string{"a"}},
		{"room without end", info("9007199254740992", "a", "", "1"), maxValue, []string{"a"}, nil},
		{
			"newest without time", info("4", "a", "", "10") + info("4", "b", "", "NaN") + info("4", "c", "", "+Inf"), 4,
			[]string{"a"},
			nil,
		},
		{"newest without sense", info("4", "a", "", "10") + info("None", "b", "", "20") + info("-1", "c", "", "30") +
			info("1e300", "d", "", "40"), 4, []string{"a"}, nil},
	} {
		var l Snapshot
		parser(t, VLLM).Parse([]byte(c.text), &l)
		if most, ok := l.Value(MaxAdapters); !ok || most != c.most || l.Loaded.N != len(c.loaded) ||
			l.Waiting.N != len(c.waiting) {
			t.Errorf("%s: %v %v, %d loaded, %d waiting", c.name, most, ok, l.Loaded.N, l.Waiting.N)
		}
		for _, name := range c.loaded {
			if !l.Loaded.Has(AdapterID(name)) {
				t.Errorf("%s: %q is not loaded", c.name, name)
			}
		}
		for _, name := range c.waiting {
			if !l.Waiting.Has(AdapterID(name)) || l.Loaded.Has(AdapterID(name)) {
				t.Errorf("%s: %q does not wait", c.name, name)
			}
		}
		if l.Loaded.Has(AdapterID("")) || l.Loaded.Has(AdapterID("adapter")) {
			t.Errorf("%s: an adapter without a name is loaded", c.name)
		}
	}
}
