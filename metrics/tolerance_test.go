package metrics

import (
	"bytes"
	"compress/gzip"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

var lines = []struct {
	line string
	want float64 // of the field Running, NaN for none
}{
	{`vllm:num_requests_running 3`, 3},
	{`vllm:num_requests_running 3.0`, 3},
	{`vllm:num_requests_running 3e0`, 3},
	{`vllm:num_requests_running +3`, 3},
	{`vllm:num_requests_running 0.1`, 0.1},
	{`vllm:num_requests_running .5`, 0.5},
	{`vllm:num_requests_running 5.`, 5},
	{`vllm:num_requests_running 123456789012345`, 123456789012345},
	{`vllm:num_requests_running 1234567.12345678`, 1234567.12345678},
	{`vllm:num_requests_running 4503599627370497.5`, 4503599627370497.5}, // 17 digits
	{`vllm:num_requests_running 0`, 0},
	{`vllm:num_requests_running 9007199254740992`, maxValue},
	{`vllm:num_requests_running ` + strings.Repeat("0", 63) + `3`, 3},
	{"vllm:num_requests_running 3\r", 3},
	{`vllm:num_requests_running{} 3`, 3},
	{`vllm:num_requests_running{engine="0"} 3`, 3},
	{`vllm:num_requests_running{engine="0",} 3`, 3},
	{`vllm:num_requests_running{engine="0"}3`, 3},
	{" \tvllm:num_requests_running \t{ engine = \"0\" , model_name=\"m\" } \t 3 ", 3},
	{`vllm:num_requests_running{model_name="a } b # \" \\"} 3`, 3},
	{`vllm:num_requests_running{engine="0"} 3 1395066363000`, 3},
	{`vllm:num_requests_running 3 # {trace_id="a"} 0.5 1.5`, 3},
	{`vllm:num_requests_running{engine="0"} 3 # {trace_id="}"} 0.5`, 3},

	{`vllm:num_requests_running`, math.NaN()},
	{`vllm:num_requests_running `, math.NaN()},
	{`vllm:num_requests_running{`, math.NaN()},
	{`vllm:num_requests_running{engine="0`, math.NaN()},
	{`vllm:num_requests_running{engine="0\`, math.NaN()},
	{`vllm:num_requests_running{engine="0" 3`, math.NaN()},
	{`vllm:num_requests_running{engine="0"}`, math.NaN()},
	{`vllm:num_requests_running -1`, math.NaN()},
	{`vllm:num_requests_running NaN`, math.NaN()},
	{`vllm:num_requests_running +Inf`, math.NaN()},
	{`vllm:num_requests_running -Inf`, math.NaN()},
	{`vllm:num_requests_running 1e999`, math.NaN()},
	{`vllm:num_requests_running 1e16`, math.NaN()},
	{`vllm:num_requests_running 0x10p1`, math.NaN()},
	{`vllm:num_requests_running 1_000`, math.NaN()},
	{`vllm:num_requests_running 1.2.3`, math.NaN()},
	{`vllm:num_requests_running .`, math.NaN()},
	{`vllm:num_requests_running ..5`, math.NaN()},
	{`vllm:num_requests_running 9007199254740994`, math.NaN()},
	{`vllm:num_requests_running three`, math.NaN()},
	{`vllm:num_requests_running ` + strings.Repeat("0", 64) + `3`, math.NaN()},
	{`vllm:num_requests_running=3`, math.NaN()},
	{`"vllm:num_requests_running" 3`, math.NaN()},
	{`vllm:num_requests_running_total 3`, math.NaN()},
	{`vllm:num_requests_runnin 3`, math.NaN()},
	{`# vllm:num_requests_running 3`, math.NaN()},
	{`<p>vllm:num_requests_running 3</p>`, math.NaN()},
	{"\x00vllm:num_requests_running 3", math.NaN()},
	{``, math.NaN()},
	{`{`, math.NaN()},
	{` `, math.NaN()},
}

// TestLines reads one line between two correct ones, of which the second must not be lost.
func TestLines(t *testing.T) {
	const before, after = "vllm:num_requests_waiting 5\n", "vllm:num_preemptions_total 7\n"
	p := parser(t, AnyEngine, "gauge")
	for _, c := range lines {
		want := values{Waiting: 5, Preemptions: 7}
		if !math.IsNaN(c.want) {
			want[Running] = c.want
		}
		var l Snapshot
		p.Parse([]byte(before+c.line+"\n"+after), &l)
		if got := found(&l); !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", c.line, got, want)
		}
	}
}

func TestValuesOfTargets(t *testing.T) {
	p := parser(t, TGI, "gauge", "requests", "vllm:gpu_cache_usage_perc", "sglang:num_queue_reqs",
		"vllm:num_preemptions",
		"huge")
	var l Snapshot
	p.Parse([]byte(`
gauge{a="1"} -2.5
gauge{a="2"} 1
gauge{a="3"} NaN
requests_total 7
requests_created 1.7e9
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
sglang:num_queue_reqs{priority="",tp_rank="0"} 3
sglang:num_queue_reqs{priority="1",tp_rank="0"} 2
sglang:num_queue_reqs{priority="",tp_rank="1"} 3
sglang:num_grammar_queue_reqs{priority="",tp_rank="0"} 50
vllm:num_preemptions_total 4
huge 1e308
huge 1e308
`), &l)
	want := values{Target(0): -1.5, Target(1): 7, Target(2): 0.5, Target(3): 3, Target(4): 4}
	if got := found(&l); !maps.Equal(got, want) || l.Engine != AnyEngine {
		t.Errorf("got %v of %v, want %v", got, l.Engine, want)
	}
}

// A family that is added to another does not replace it, nor the other way round.
func TestTargetsOfParts(t *testing.T) {
	p := parser(t, AnyEngine, "sglang:num_grammar_queue_reqs", "sglang:num_queue_reqs")
	for text, want := range map[string]values{
		"sglang:num_grammar_queue_reqs 5\n": {Waiting: 5, Target(0): 5},
		"sglang:num_queue_reqs 6\n":         {Waiting: 6, Target(1): 6},
	} {
		var l Snapshot
		if p.Parse([]byte(text), &l); !maps.Equal(found(&l), want) {
			t.Errorf("%q: got %v, want %v", text, found(&l), want)
		}
	}
}

func TestShareOfTheCacheIsOneAtMost(t *testing.T) {
	var l Snapshot
	for _, text := range []string{
		"vllm:kv_cache_usage_perc 1.0000001\n",
		"trtllm_kv_cache_used_blocks 11\ntrtllm_kv_cache_max_blocks 10\n",
	} {
		parser(t, AnyEngine).Parse([]byte(text), &l)
		if v, ok := l.Value(KVUse); !ok || v != 1 {
			t.Errorf("%q: %v %v", text, v, ok)
		}
	}
	parser(t, AnyEngine).Parse([]byte("trtllm_kv_cache_used_blocks 0\ntrtllm_kv_cache_max_blocks 0\n"), &l)
	if v, ok := l.Value(KVUse); ok {
		t.Errorf("%v of no cache is in use", v)
	}
}

// A page that is cut off anywhere has fewer fields, and none with another value.
func TestCutAnywhere(t *testing.T) {
	text := sample(t, "vllm-0.32.0.prom")
	copies := strings.Join([]string{
		`vllm:num_requests_running{engine="0"} 31`, `vllm:num_requests_running{engine="1"} 52`,
		`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a",waiting_lora_adapters=""} 123`,
		`vllm:lora_requests_info{max_lora="3",running_lora_adapters="b",waiting_lora_adapters=""} 456`,
		`# TYPE vllm:num_requests_waiting gauge`,
		`vllm:num_requests_waiting{engine="0"} 12`, `vllm:num_requests_waiting{engine="1"} 34`, `x 1`, `vllm:kv 3`, ``,
	}, "\n")
	p := parser(t, AnyEngine, "vllm:request_success", "vllm:time_to_first_token_seconds_count")
	for name, text := range map[string]string{"sample": text, "copies": copies} {
		var whole, l Snapshot
		p.Parse([]byte(text), &whole)
		want := found(&whole)
		for i := range text {
			p.Parse([]byte(text[:i]), &l)
			atEnd := i == 0 || text[i-1] == '\n'
			if l.Cut == atEnd {
				t.Fatalf("%s, %d bytes: cut %v", name, i, l.Cut)
			}
			if atEnd {
				continue // nothing shows that it was cut off
			}
			for f, v := range found(&l) {
				if v != want[f] {
					t.Fatalf("%s, %d bytes, up to %q: field %d is %v, not %v", name, i, text[max(0, i-40):i],
						f, v, want[f])
				}
			}
			if _, ok := l.Value(MaxAdapters); ok && !l.Loaded.Has(AdapterID("b")) || !ok && l.Loaded.N > 0 {
				t.Fatalf("%s, %d bytes: old adapters", name, i)
			}
		}
	}
}

// The fields of the last line stay if the rest cannot belong to its family.
func TestCutAfterAFamily(t *testing.T) {
	for _, c := range []struct {
		tail string
		kept bool
	}{
		{"vllm:num_requests_running", false},
		{"vllm:num_requests_running{engine=", false},
		{"vllm:num_requests_running 1", false},
		{"vllm:", false},
		{"#", true},
		{"vllm:num_requests_w", true},
		{"vllm:num_requests_running_", true},
		{"x 1\nvllm:num_requests_running", true},
		{"# TYPE\nvllm:", true},
	} {
		var l Snapshot
		parser(t, AnyEngine).Parse([]byte("vllm:num_requests_running 3\n"+c.tail), &l)
		if v, ok := l.Value(Running); ok != c.kept || ok && v != 3 || !l.Cut {
			t.Errorf("%q: %v %v, want it kept: %v", c.tail, v, ok, c.kept)
		}
	}
}

func TestOtherTexts(t *testing.T) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write([]byte(sample(t, "vllm-0.32.0.prom"))); err != nil || zip.Close() != nil {
		t.Fatal("gzip", err)
	}
	p := parser(t, AnyEngine)
	for name, text := range map[string]string{
		"nothing":     "",
		"HTML":        "<!DOCTYPE html>\n<html><body>\nvllm: not found\n</body></html>\n",
		"JSON":        `{"error": {"message": "vllm:num_requests_running 3"}}` + "\n",
		"gzip":        packed.String(),
		"only HELP":   "# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n",
		"zeros":       strings.Repeat("\x00", 1000),
		"one line":    strings.Repeat("vllm:num_requests_running{", 1000),
		"line ends":   strings.Repeat("\n", 1000),
		"OpenMetrics": "# TYPE a counter\na_total 1\n# EOF\n",
	} {
		l := Snapshot{Engine: VLLM, Loaded: Adapters{N: 3}}
		l.set(Running, 3)
		p.Parse([]byte(text), &l)
		if got := found(&l); len(got) != 0 || l.Engine != AnyEngine || l.Loaded.N != 0 {
			t.Errorf("%s: %v of %v", name, got, l.Engine)
		}
		if got := p.Missing(&l, Waiting); !slices.Contains(got, "vllm:num_requests_waiting") ||
			!slices.Contains(got, "tgi_queue_size") {
			t.Errorf("%s: %q is missing, want the names of all engines", name, got)
		}
	}
}

func TestSize(t *testing.T) {
	line := "x" + strings.Repeat(" ", 1022) + "\n"
	text := "tgi_queue_size 3\n" + strings.Repeat(line, MaxBytes/len(line)-1) + "tgi_batch_current_size 4\n"
	end := len(text)
	var l Snapshot
	parser(t, AnyEngine).Parse([]byte(text), &l)
	if want := (values{Running: 4, Waiting: 3}); l.Cut || !maps.Equal(found(&l), want) {
		t.Errorf("of %d bytes: %v, want %v", end, found(&l), want)
	}
	text = "tgi_queue_size 3\n" + strings.Repeat(line, MaxBytes/len(line)) + "tgi_batch_current_size 4\n"
	parser(t, AnyEngine).Parse([]byte(text), &l)
	if want := (values{Waiting: 3}); !l.Cut || !maps.Equal(found(&l), want) {
		t.Errorf("of %d bytes: %v, want %v", len(text), found(&l), want)
	}
}

// In a page that is too long, the last series that was read may not be the last of its family.
func TestSizeEndsWithALine(t *testing.T) {
	const first = "vllm:num_requests_waiting 3\nvllm:num_requests_running 1\n"
	text := strings.Repeat("\n", MaxBytes-len(first)) + first
	for behind, want := range map[string]values{
		"":                              {Running: 1, Waiting: 3},
		"vllm:num_requests_running 2\n": {Waiting: 3},
		"v":                             {Waiting: 3},
	} {
		var l Snapshot
		parser(t, AnyEngine).Parse([]byte(text+behind), &l)
		if l.Cut != (behind != "") || !maps.Equal(found(&l), want) {
			t.Errorf("with %q behind what is read: %v, cut %v; want %v", behind, found(&l), l.Cut, want)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := parser(t, AnyEngine, "vllm:prompt_tokens")
	for _, text := range []string{
		sample(t, "vllm-0.32.0.prom"), sample(t, "llamacpp.prom"), sample(t, "dynamo-mocker.prom"),
		"vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"a\"} " +
			"1.7952478152460895e+09\nvllm:prompt_tokens_total " +
			strings.Repeat("9", 60) + "x\n",
	} {
		var l Snapshot
		bytes := []byte(text)
		if n := testing.AllocsPerRun(10, func() { p.Parse(bytes, &l) }); n != 0 {
			t.Errorf("%.40q…: %v allocations", text, n)
		}
	}
}
