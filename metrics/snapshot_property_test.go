package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawSnapshot draws a snapshot as a page can give it.
func drawSnapshot(rt *rapid.T) (s Snapshot) {
	s.Engine = Engine(rapid.IntRange(0, int(engineCount)-1).Draw(rt, "engine"))
	s.Cut = rapid.Bool().Draw(rt, "cut")
	for f := range fieldCount {
		if rapid.Bool().Draw(rt, "found") {
			s.set(f, rapid.Float64Range(-maxValue, maxValue).Draw(rt, "value"))
		}
	}
	for i := range MaxTargets {
		if _, ok := s.Value(Target(i)); ok && rapid.Bool().Draw(rt, "counter") {
			s.counters |= 1 << Target(i)
		}
	}
	if _, ok := s.Value(MaxAdapters); ok {
		for _, list := range []*Adapters{&s.Loaded, &s.Waiting} {
			list.N = rapid.IntRange(0, MaxNames).Draw(rt, "adapters")
			for i := range list.N {
				list.IDs[i] = rapid.Uint64().Draw(rt, "id")
			}
		}
	}
	return s
}

// Each snapshot is read as it was written, with other bytes behind it, and no part of it is taken for the whole.
func TestSnapshotsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSnapshot(rt)
		behind := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(rt, "behind")
		raw := s.Append(nil)
		var got Snapshot
		rest, ok := got.Read(append(raw, behind...))
		if !ok || got != s || string(rest) != string(behind) {
			rt.Fatalf("%+v is read as %+v, %v, with %d bytes left", s, got, ok, len(rest))
		}
		if _, ok := got.Read(raw[:rapid.IntRange(0, len(raw)-1).Draw(rt, "cut")]); ok {
			rt.Fatal("a part is taken for the whole")
		}
	})
}

// Damaged bytes are refused or read as a snapshot of finite values.
func TestDamagedSnapshots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSnapshot(rt)
		raw := s.Append(nil)
		for range rapid.IntRange(1, 4).Draw(rt, "damages") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(rt, "place")] = rapid.Byte().Draw(rt, "byte")
		}
		var got Snapshot
		if _, ok := got.Read(raw); !ok {
			return
		}
		_ = got.Engine.String()
		for f, v := range found(&got) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				rt.Fatalf("field %d is %v", f, v)
			}
		}
		if got.Loaded.N > MaxNames || got.Waiting.N > MaxNames || got.Loaded.Has(1) && got.Loaded.N == 0 {
			rt.Fatalf("%d and %d adapters", got.Loaded.N, got.Waiting.N)
		}
	})
}

// A value that is no finite number is refused, in whichever field it is.
func TestSnapshotsWithoutFiniteValues(t *testing.T) {
	for f := range fieldCount {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			var s, got Snapshot
			s.set(f, v)
			if _, ok := got.Read(s.Append(nil)); ok {
				t.Errorf("field %d is read as %v", f, v)
			}
		}
	}
}

// Update gives each field the newer value if there is one; UpdateReport only those fields that load reports have.
func TestUpdatesOfFields(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		old, newer := drawSnapshot(rt), drawSnapshot(rt)
		want, reported := found(&old), found(&old)
		for f, v := range found(&newer) {
			want[f] = v
			if f == Waiting || f == KVUse {
				reported[f] = v
			}
		}
		updated, report := old, old
		updated.Update(&newer)
		report.UpdateReport(&newer)
		if !maps.Equal(found(&updated), want) || !maps.Equal(found(&report), reported) {
			rt.Fatalf("%v and %v: %v, by a report %v", found(&old), found(&newer), found(&updated), found(&report))
		}
		_, listed := newer.Value(MaxAdapters)
		if listed && updated.Loaded != newer.Loaded || !listed && updated.Loaded != old.Loaded {
			rt.Fatalf("adapters %v of %v and %v", updated.Loaded, old.Loaded, newer.Loaded)
		}
		if newer.Engine != AnyEngine && updated.Engine != newer.Engine ||
			newer.Engine == AnyEngine && updated.Engine != old.Engine || report.Engine != old.Engine {
			rt.Fatalf("engine %v of %v and %v", updated.Engine, old.Engine, newer.Engine)
		}
	})
}

// A load report means the same in both formats, and its fields are those of its entries: requests are added up, the use
// of the cache is averaged.
func TestReportFormats(t *testing.T) {
	names := map[string]Field{
		"named_metrics.num_requests_waiting": Waiting, "named_metrics.num_requests_running": Running,
		"named_metrics.kv_cache_usage_perc": KVUse, "gpu_cache_usage_perc": KVUse,
		"cpu_utilization": fieldCount, "named_metrics.other": fieldCount, "num_requests_waiting_total": fieldCount,
	}
	rapid.Check(t, func(rt *rapid.T) {
		type entry struct {
			name  string
			value float64
		}
		entries := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) entry {
			return entry{
				rapid.SampledFrom([]string{
					"named_metrics.num_requests_waiting", "named_metrics.num_requests_running",
					"named_metrics.kv_cache_usage_perc", "gpu_cache_usage_perc", "cpu_utilization",
					"named_metrics.other", "num_requests_waiting_total",
				}).Draw(rt, "name"),
				float64(rapid.IntRange(-1, 8).Draw(rt, "value")) / 4,
			}
		}), 0, 6).Draw(rt, "entries")
		want, n := values{}, 0.0
		var texts, members []string
		for _, e := range entries {
			texts = append(texts, e.name+"="+strconv.FormatFloat(e.value, 'f', -1, 64))
			member, err := json.Marshal(e.value)
			if err != nil {
				rt.Fatal(err)
			}
			members = append(members, fmt.Sprintf("%q: %s", e.name[strings.LastIndexByte(e.name, '.')+1:], member))
			field := names[e.name]
			if field == fieldCount || e.value < 0 {
				continue
			}
			if field == KVUse {
				e.value = min(e.value, 1)
				n++
			}
			want[field] += e.value
		}
		if n > 0 {
			want[KVUse] /= n
		}
		var text, object Snapshot
		ok := ParseORCA([]byte("TEXT "+strings.Join(texts, ", ")), &text)
		ok2 := ParseORCA([]byte(`JSON {"named_metrics": {`+strings.Join(members, ", ")+`}}`), &object)
		if ok != (len(want) > 0) || ok2 != ok || !maps.Equal(found(&text), want) || !maps.Equal(found(&object), want) {
			rt.Fatalf("%v: as TEXT %v, as JSON %v, want %v", entries, found(&text), found(&object), want)
		}
	})
}
