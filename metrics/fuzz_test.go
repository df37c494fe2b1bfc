package metrics

import (
	"bytes"
	"math"
	"testing"
)

// FuzzParse reads anything. The result must be possible, the same a second time, and the same with meaningless lines in
// between; and if the page does not seem cut off, the same as with one more line.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"vllm-0.32.0.prom", "llamacpp.prom", "dynamo-mocker.prom"} {
		text := sample(f, name)
		f.Add([]byte(text[:min(len(text), 4000)]))
		f.Add([]byte(text[max(0, len(text)-3000):]))
	}
	f.Add([]byte("vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"a,b\"} " +
		"1\nsglang:num_queue_reqs{priority=\"\",tp_rank=\"1\"} 3 # {} 1\n"))
	p := parser(f, AnyEngine, "vllm:kv_cache_usage_perc", "a")
	f.Fuzz(func(t *testing.T, text []byte) {
		var l, again Snapshot
		p.Parse(text, &l)
		for f := range firstTarget {
			v, ok := l.Value(f)
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) || !ok && v != 0 || f == KVUse && v > 1 {
				t.Fatalf("field %d is %v", f, v)
			}
		}
		if (l.Engine == AnyEngine) != (l.found&(1<<Started-1) == 0) {
			t.Fatalf("engine %v, found %b", l.Engine, l.found)
		}
		if cut := len(text) > 0 && text[len(text)-1] != '\n'; l.Cut != cut {
			t.Fatalf("cut: %v", l.Cut)
		}
		again = l
		if p.Parse(text, &again); again != l {
			t.Fatalf("a second time: %+v, first %+v", again, l)
		}
		if p.ParseRanks(text, &again); again != l {
			t.Fatalf("beside its ranks: %+v, first %+v", again, l)
		}
		if l.Cut {
			return
		}
		spoiled := bytes.ReplaceAll(text, []byte("\n"), []byte("\n<html>\nvllm:num_requests_running{ "+
			"3\nvllm:kv_cache_usage_perc NaN\n\n"))
		if p.Parse(spoiled, &again); again != l {
			t.Fatalf("with bad lines between: %+v, without %+v", again, l)
		}
	})
}
