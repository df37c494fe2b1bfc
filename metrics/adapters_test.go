package metrics

import (
	"maps"
	"testing"
)

// TestPagesUnderLoad reads pages of real engines with running and waiting requests.
func TestPagesUnderLoad(t *testing.T) {
	for _, c := range []struct {
		file   string
		want   values
		loaded []string
		not    []string
	}{
		{"vllm-0.32.0-queue.prom", values{
			Running: 4, Waiting: 8, Deferred: 0, KVUse: 0.19843597262952106, KVBlocks: 1024, BlockTokens: 32,
			PromptTokens: 49536,
			OutputTokens: 4519, PrefixQueries: 49536, PrefixHits: 21824, Intervals: 4465,
			IntervalTime: 59.53844544700405,
			Preemptions:  0, Awake: 1, Started: 1.79530350397e+09, MaxAdapters: 2,
		}, nil, []string{"first", "second", "third", ""}},
		// Eight series list adapters; the newest one is the last. Requests for first wait, and are in neither list.
		{"vllm-0.32.0-adapters.prom", values{
			Running: 4, Waiting: 20, Deferred: 1, KVUse: 0.03128054740957964, KVBlocks: 1024, BlockTokens: 32,
			PromptTokens: 37659,
			OutputTokens: 8374, PrefixQueries: 37659, PrefixHits: 20640, Intervals: 8301,
			IntervalTime: 115.01979280799424,
			Preemptions:  0, Awake: 1, Started: 1.79530350397e+09, MaxAdapters: 2,
		}, []string{"second", "third"}, []string{"first", "tiny", ""}},
	} {
		text := []byte(sample(t, c.file))
		for _, e := range []Engine{AnyEngine, VLLM} {
			p := parser(t, e)
			var l Snapshot
			p.Parse(text, &l)
			if got := found(&l); l.Engine != VLLM || l.Cut || !maps.Equal(got, c.want) {
				t.Errorf("%s, %v looked for: %v, cut %v, got  %v\nwant %v", c.file, e, l.Engine, l.Cut, got, c.want)
			}
			if missing := p.Missing(&l, Running, Waiting, Deferred, KVUse, KVBlocks, PrefixHits, Awake,
				MaxAdapters); len(missing) > 0 {
				t.Errorf("%s, %v looked for: %q are missing", c.file, e, missing)
			}
			if l.Loaded.N != len(c.loaded) {
				t.Errorf("%s: %d adapters, want %q", c.file, l.Loaded.N, c.loaded)
			}
			for _, name := range c.loaded {
				if !l.Loaded.Has(AdapterID(name)) {
					t.Errorf("%s: %q is not there", c.file, name)
				}
			}
			for _, name := range c.not {
				if l.Loaded.Has(AdapterID(name)) || l.Waiting.Has(AdapterID(name)) {
					t.Errorf("%s: %q is there", c.file, name)
				}
			}
		}
	}
}

// TestVLLMReports reads load reports of a real vLLM, as they are in its answers.
func TestVLLMReports(t *testing.T) {
	for _, c := range []struct {
		header string
		want   values
	}{
		{
			"TEXT named_metrics.num_requests_waiting=0.0, named_metrics.kv_cache_usage_perc=0.0",
			values{Waiting: 0, KVUse: 0},
		},
		{
			"TEXT named_metrics.num_requests_waiting=4.0, named_metrics.kv_cache_usage_perc=0.0009775171065493637",
			values{Waiting: 4, KVUse: 0.0009775171065493637},
		},
		{
			`JSON {"named_metrics": {"num_requests_waiting": 1.0, "kv_cache_usage_perc": 0.012024048096192397}}`,
			values{Waiting: 1, KVUse: 0.012024048096192397},
		},
	} {
		var l Snapshot
		if !ParseORCA([]byte(c.header), &l) || !maps.Equal(found(&l), c.want) {
			t.Errorf("%s: %v, want %v", c.header, found(&l), c.want)
		}
	}
}
