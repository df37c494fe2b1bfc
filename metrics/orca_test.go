package metrics

import (
	"maps"
	"testing"
)

func TestParseORCA(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        map[Field]float64
	}{
		{
			"vLLM, TEXT", "TEXT named_metrics.num_requests_waiting=3.0, named_metrics.kv_cache_usage_perc=0.25",
			map[Field]float64{Waiting: 3, KVUse: 0.25},
		},
		{
			"vLLM, JSON", `JSON {"named_metrics": {"num_requests_waiting": 3.0, "kv_cache_usage_perc": 0.25}}`,
			map[Field]float64{Waiting: 3, KVUse: 0.25},
		},
		{"JSON without blanks", `JSON {"named_metrics":{"kv_cache_usage_perc":1e-3}}`, map[Field]float64{KVUse: 1e-3}},
		{
			"beside others", "TEXT cpu_utilization=0.5,named_metrics.num_requests_running=2,rps_fractional=7",
			map[Field]float64{Running: 2},
		},
		{
			"the highest value", "TEXT named_metrics.num_requests_waiting=9007199254740992",
			map[Field]float64{Waiting: maxValue},
		},
		{"above the highest value", "TEXT named_metrics.num_requests_waiting=9007199254740994", nil},
		{"more than all of it", "TEXT named_metrics.kv_cache_usage_perc=1.5", map[Field]float64{KVUse: 1}},
		{
			"several copies", "TEXT a.num_requests_waiting=1.0, a.num_requests_waiting=3.0, " +
				"a.kv_cache_usage_perc=.25, " +
				"a.kv_cache_usage_perc=.75",
			map[Field]float64{Waiting: 4, KVUse: 0.5},
		},
		{"negative", "TEXT named_metrics.num_requests_waiting=-1", nil},
		{"no number", "TEXT named_metrics.num_requests_waiting=NaN, named_metrics.kv_cache_usage_perc=x", nil},
		{"binary", "BIN CAESBwoDZm9vEAE=", nil},
		{"unknown names", "TEXT named_metrics.queue=3", nil},
		{"empty", "", nil},
		{"only the format", "JSON", nil},
		{"broken off", `JSON {"named_metrics": {"num_requests_waiting": 3.0, "kv_cache_us`, map[Field]float64{Waiting: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := Snapshot{Engine: VLLM}
			if ok := ParseORCA([]byte(c.value), &l); ok != (len(c.want) > 0) {
				t.Errorf("ok is %v", ok)
			}
			got := map[Field]float64{}
			for f := range fieldCount {
				if v, ok := l.Value(f); ok {
					got[f] = v
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzParseORCA(f *testing.F) {
	f.Add([]byte("TEXT named_metrics.num_requests_waiting=3.0"))
	f.Add([]byte(`JSON {"named_metrics": {"kv_cache_usage_perc": 0.25}}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		var l Snapshot
		if ok := ParseORCA(value, &l); ok != (l.found != 0) {
			t.Fatal("is neither empty nor found")
		}
		if v, ok := l.Value(KVUse); ok && !(v >= 0 && v <= 1) {
			t.Fatalf("KV use %v", v)
		}
	})
}

func TestUpdate(t *testing.T) {
	var l, newer Snapshot
	l.Engine = VLLM
	l.set(Running, 4)
	l.set(Waiting, 9)
	newer.set(Waiting, 0)
	l.Update(&newer)
	if r, _ := l.Value(Running); r != 4 {
		t.Errorf("running %v, want what was known", r)
	}
	if w, ok := l.Value(Waiting); w != 0 || !ok {
		t.Errorf("waiting %v, want what is newer", w)
	}
	if l.Engine != VLLM {
		t.Errorf("engine %v", l.Engine)
	}
}
