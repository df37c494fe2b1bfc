package metrics

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, problem string }{
		{"vllm:num_requests_running", ""},
		{"_a9:", ""},
		{"A", ""},
		{"AZaz", ""},
		{"a09", ""},
		{"", `metrics: "" is no name of a metric`},
		{"9a", `metrics: "9a" is no name of a metric`},
		{"a b", `metrics: "a b" is no name of a metric`},
		{`a{b="c"}`, `metrics: "a{b=\"c\"}" is no name of a metric`},
		{"größe", `metrics: "größe" is no name of a metric`},
	} {
		_, err := New(AnyEngine, "ok", c.name)
		if (err == nil) != (c.problem == "") || err != nil && err.Error() != c.problem {
			t.Errorf("%q: %v, want %q", c.name, err, c.problem)
		}
	}
	names := strings.Split(strings.Repeat("a ", MaxTargets)+"b", " ")
	if _, err := New(AnyEngine, names[1:]...); err != nil {
		t.Error(err)
	}
	if _, err := New(AnyEngine, names...); err == nil {
		t.Errorf("%d names were taken", len(names))
	}
}

func TestEngineNames(t *testing.T) {
	for e := range engineCount {
		if got, ok := EngineOf(e.String()); !ok || got != e {
			t.Errorf("%v: %v %v", e, got, ok)
		}
	}
	if e, ok := EngineOf("vLLM"); ok || e != AnyEngine {
		t.Errorf("vLLM is %v", e)
	}
}

func TestMissing(t *testing.T) {
	wanted := []Field{Running, Waiting, KVUse, Awake, Target(0)}
	for _, c := range []struct {
		name   string
		engine Engine
		text   string
		want   []string
	}{
		{
			"nothing", VLLM,
			"vllm:num_requests_running 1\nvllm:num_requests_waiting 1\nvllm:gpu_cache_usage_perc 0\ntarget 1\n",
			nil,
		},
		{"a renamed family", AnyEngine, "vllm:num_requests_running 1\nvllm:requests_waiting 1\n", []string{
			"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "target",
		}},
		{"a value that cannot be", AnyEngine, "vllm:num_requests_running 1\nvllm:num_requests_waiting " +
			"1\nvllm:kv_cache_usage_perc NaN\n", []string{
			"vllm:kv_cache_usage_perc", "target",
		}},
		{
			"what the engine does not report", AnyEngine, "tgi_queue_size 1\n",
			[]string{"tgi_batch_current_size", "target"},
		},
		{"by label", AnyEngine, "nv_trt_llm_request_metrics{request_type=\"waiting\"} 1\n", []string{
			`nv_trt_llm_request_metrics{request_type="scheduled"}`,
			`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}`, "target",
		}},
		{"another engine", TGI, "vllm:num_requests_running 1\n", []string{
			"tgi_batch_current_size", "tgi_queue_size",
			"target",
		}},
	} {
		p := parser(t, c.engine, "target")
		var l Snapshot
		p.Parse([]byte(c.text), &l)
		if got := p.Missing(&l, wanted...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	var l Snapshot
	parser(t, AnyEngine).Parse([]byte("tgi_queue_size 1\n"), &l)
	if got := parser(t, VLLM).Missing(&l, Running); !slices.Equal(got, []string{"vllm:num_requests_running"}) {
		t.Errorf("one engine wanted, with the page of another: %q", got)
	}
}

// The table must be grouped by engine: of a page with two engines, one is read.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for i, f := range families {
		if i > 0 && f.engine < families[i-1].engine {
			t.Errorf("%s follows names of %v", f.name, families[i-1].engine)
		}
		if f.adds && (families[i-1].field != f.field || families[i-1].engine != f.engine) {
			t.Errorf("%s is added to %s", f.name, families[i-1].name)
		}
		if f.engine == AnyEngine && f.field != Started || f.engine >= engineCount || f.field >= firstTarget ||
			!validName(f.name) {
			t.Errorf("%+v", f)
		}
		key := f.String() + f.valueLabel + string(rune('a'+f.field))
		if seen[key] {
			t.Errorf("%s is there twice for one field", f.String())
		}
		seen[key] = true
	}
}
