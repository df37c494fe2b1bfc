package metrics

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// enginePage returns a real page as it is of an engine with that number.
func enginePage(t testing.TB, file string, engine int) string {
	return strings.ReplaceAll(sample(t, file), `engine="0"`, fmt.Sprintf("engine=%q", fmt.Sprint(engine)))
}

// What a page has of each engine is what a page of that engine alone has: real pages in one. The label counts over the
// servers of a deployment, the header's number from 0 at each.
func TestRanksOfRealPages(t *testing.T) {
	p := parser(t, AnyEngine, "vllm:kv_cache_usage_perc")
	for _, first := range []int{0, 4} {
		text := enginePage(t, "vllm-0.32.0-queue.prom", first) + enginePage(t, "vllm-0.32.0-second.prom", first+1)
		var whole, alone Snapshot
		ranks := p.ParseRanks([]byte(text), &whole)
		if len(ranks) != 2 {
			t.Fatalf("%d ranks", len(ranks))
		}
		for i, file := range []string{"vllm-0.32.0-queue.prom", "vllm-0.32.0-second.prom"} {
			p.Parse([]byte(sample(t, file)), &alone)
			got, want := found(&ranks[i]), found(&alone)
			for _, f := range []Field{MaxAdapters, Started} { // one of the pages has them for both, without a label
				delete(got, f)
				delete(want, f)
			}
			if !maps.Equal(got, want) {
				t.Errorf("rank %d from engine %d: %v, want %v", i, first, got, want)
			}
		}
		if p.Parse([]byte(text), &alone); whole != alone {
			t.Errorf("the whole page: %+v, want %+v", whole, alone)
		}
	}
}

func TestRanksOfSGLang(t *testing.T) {
	page := func(ranks ...int) (text string) {
		for _, dp := range ranks {
			for tp := range 2 {
				labels := fmt.Sprintf("dp_rank=\"%d\",engine_type=\"unified\",tp_rank=\"%d\"", dp, tp)
				text += fmt.Sprintf("sglang:num_running_reqs{%s} %d\nsglang:token_usage{%s} 0.%d\n", labels, dp+1,
					labels, dp+1)
			}
		}
		return text
	}
	var whole Snapshot
	p := parser(t, SGLang)
	got := p.ParseRanks([]byte(page(0, 2)), &whole)
	if len(got) != 3 || !maps.Equal(found(&got[0]), values{Running: 1, KVUse: 0.1}) || len(found(&got[1])) != 0 ||
		!maps.Equal(found(&got[2]), values{Running: 3, KVUse: 0.3}) {
		t.Errorf("ranks 0 and 2 of three, of two GPUs each: %+v", got)
	}
	for name, text := range map[string]string{
		"one rank": page(0), "no label": "sglang:num_running_reqs 1\n",
		"another engine": page(0, 2) + "vllm:num_requests_running 1\n",
		"no numbers":     strings.ReplaceAll(page(0, 2), `dp_rank="`, `dp_rank="a`), "too high": page(64, 65),
	} {
		if got := parser(t, AnyEngine).ParseRanks([]byte(text), &whole); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// However many ranks a page names, there are no more than may be.
func TestRanksAreBounded(t *testing.T) {
	var text strings.Builder
	for i := 200; i > 0; i-- {
		fmt.Fprintf(&text, "vllm:num_requests_running{engine=\"%d\"} 1\n", i)
	}
	var whole Snapshot
	got := parser(t, AnyEngine).ParseRanks([]byte(text.String()), &whole)
	if running, _ := whole.Value(Running); len(got) != MaxRanks || running != 200 {
		t.Errorf("%d ranks, %v run in all", len(got), running)
	}
}

// Of each rank there is what its own lines alone say, in whatever order they come.
func TestRanksAreTheirLines(t *testing.T) {
	p := parser(t, AnyEngine, "vllm:preemptions")
	names := []string{
		"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
		"vllm:prompt_tokens_total", "vllm:preemptions_total", "vllm:gpu_cache_usage_perc",
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "ranks")
		lines, of := "vllm:num_requests_running 1\n", make([]string, n)
		for range rapid.IntRange(n, 40).Draw(t, "lines") {
			rank := rapid.IntRange(0, n-1).Draw(t, "rank")
			name, value := rapid.SampledFrom(names).Draw(t, "name"), rapid.Float64Range(0, 100).Draw(t, "value")
			line := fmt.Sprintf("%s{engine=\"%d\",model_name=\"m\"} %v\n", name, rank, value)
			lines, of[rank] = lines+line, of[rank]+line
		}
		for i := range of {
			line := fmt.Sprintf("vllm:num_requests_waiting{engine=\"%d\"} 1\n", i)
			lines, of[i] = lines+line, of[i]+line
		}
		var whole, alone Snapshot
		got := p.ParseRanks([]byte(lines), &whole)
		if len(got) != n {
			t.Fatalf("%d ranks, want %d", len(got), n)
		}
		for i := range of {
			if p.Parse([]byte(of[i]), &alone); got[i] != alone {
				t.Fatalf("rank %d: %v, want %v", i, found(&got[i]), found(&alone))
			}
		}
		if p.Parse([]byte(lines), &alone); whole != alone {
			t.Fatalf("the whole page: %v, want %v", found(&whole), found(&alone))
		}
	})
}

// A page that breaks off lacks the same of its ranks as of the whole.
func TestRanksOfACutPage(t *testing.T) {
	text := "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\n" +
		"vllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"1\"} 4\nvllm:num_requests_wai"
	var whole Snapshot
	for i, rank := range parser(t, AnyEngine).ParseRanks([]byte(text), &whole) {
		if !rank.Cut || !maps.Equal(found(&rank), values{Running: float64(i + 1)}) {
			t.Errorf("rank %d: %v, cut %v", i, found(&rank), rank.Cut)
		}
	}
	if !maps.Equal(found(&whole), values{Running: 3}) {
		t.Errorf("the whole: %v", found(&whole))
	}
}

// What is said of all ranks together, each has: the size of its cache, and adapters.
func TestWhatRanksHaveInCommon(t *testing.T) {
	text := "vllm:cache_config_info{engine=\"\",block_size=\"16\",num_gpu_blocks=\"100\"} 1\n" +
		"vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"sql\",waiting_lora_adapters=\"\"} 5\n" +
		"vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\n" +
		"vllm:num_requests_waiting 7\nprocess_start_time_seconds 5000\n"
	var whole Snapshot
	got := parser(t, AnyEngine).ParseRanks([]byte(text), &whole)
	if len(got) != 2 {
		t.Fatalf("%d ranks", len(got))
	}
	for i := range got {
		want := values{Running: float64(i + 1), KVBlocks: 100, BlockTokens: 16, MaxAdapters: 2, Started: 5000}
		if !maps.Equal(found(&got[i]), want) || !got[i].Loaded.Has(AdapterID("sql")) {
			t.Errorf("rank %d: %v, adapters %+v", i, found(&got[i]), got[i].Loaded)
		}
	}
}
