package metrics

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEncoding decodes the encoding of all sample pages.
func TestEncoding(t *testing.T) {
	files, err := filepath.Glob("testdata/*.prom")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	p, err := New(AnyEngine, "vllm:prompt_tokens", "vllm:kv_cache_usage_perc")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	var loads []Snapshot
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var l Snapshot
		p.Parse(text, &l)
		loads = append(loads, l)
		all = l.Append(all)
	}
	with := Snapshot{}
	p.Parse([]byte(`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"} 1.5`+
		"\n"), &with)
	if with.Loaded.N != 2 || with.Waiting.N != 1 {
		t.Fatalf("adapters %+v", with)
	}
	loads = append(loads, with)
	all = with.Append(all)
	rest := all
	for i := range loads {
		var got Snapshot
		var ok bool
		if rest, ok = got.Read(rest); !ok {
			t.Fatalf("load %d cannot be read", i)
		}
		if got != loads[i] {
			t.Errorf("load %d is %+v, was %+v", i, got, loads[i])
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes are left", len(rest))
	}
	for n := range with.Append(nil) {
		var got Snapshot
		if _, ok := got.Read(with.Append(nil)[:n]); ok {
			t.Errorf("%d bytes of %d pass as complete", n, len(with.Append(nil)))
		}
	}
}

// A list of adapters may be full; one that is longer, and an unknown engine, are refused.
func TestBoundsOfTheEncoding(t *testing.T) {
	full := Snapshot{Engine: engineCount - 1}
	full.set(MaxAdapters, MaxNames)
	for i := range MaxNames {
		full.Loaded.IDs[i] = uint64(i)
	}
	full.Loaded.N = MaxNames
	encoded := full.Append(nil)
	var got Snapshot
	if _, ok := got.Read(encoded); !ok || got != full {
		t.Errorf("%+v becomes %+v", full, got)
	}
	encoded[0]++
	if _, ok := got.Read(encoded); ok {
		t.Errorf("engine %d is accepted", encoded[0])
	}
	encoded = full.Append(nil)
	encoded[2+4+4+8]++
	if _, ok := got.Read(append(encoded, make([]byte, 8)...)); ok {
		t.Errorf("%d adapters are accepted", encoded[2+4+4+8])
	}
}

func FuzzEncoding(f *testing.F) {
	l := Snapshot{Engine: VLLM, Cut: true}
	l.set(Running, 3)
	l.set(MaxAdapters, 2)
	l.Loaded = Adapters{N: 1, IDs: [MaxNames]uint64{7}}
	f.Add(l.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again Snapshot
		rest, ok := got.Read(data)
		if !ok {
			return
		}
		if len(rest) > len(data) {
			t.Fatal("more is left than there was")
		}
		if _, ok := again.Read(got.Append(nil)); !ok || again != got {
			t.Fatalf("%+v becomes %+v", got, again)
		}
	})
}

func TestGrows(t *testing.T) {
	p, err := New(AnyEngine, "vllm:prompt_tokens", "vllm:num_requests_waiting")
	if err != nil {
		t.Fatal(err)
	}
	var l Snapshot
	p.Parse([]byte("vllm:prompt_tokens_total 7\nvllm:num_requests_waiting 2\n"), &l)
	if v, ok := l.Value(Target(0)); !ok || v != 7 || !l.Grows(Target(0)) {
		t.Errorf("the counter is %v %v, grows %v", v, ok, l.Grows(Target(0)))
	}
	if v, ok := l.Value(Target(1)); !ok || v != 2 || l.Grows(Target(1)) {
		t.Errorf("the gauge is %v %v, grows %v", v, ok, l.Grows(Target(1)))
	}
}
