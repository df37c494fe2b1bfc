package discovery

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
)

func someSamples(t testing.TB) EngineSamples {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine, "my_gauge")
	if err != nil {
		t.Fatal(err)
	}
	r := NewEngineSamples()
	r.Targets = []string{"my_gauge"}
	for addr, text := range map[string]string{
		"10.0.0.1:80":   "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nmy_gauge 0.5\n",
		"[2001::1]:443": `vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 17` + "\n",
		"10.0.0.2:80":   "",
	} {
		e := engines.Sample{
			At: time.Second, FreshAt: 2 * time.Second, Counted: addr != "10.0.0.2:80", Frozen: addr != "10.0.0.1:80",
			Inflight: lb.Load{Requests: 4, Tokens: 1 << 40},
		}
		p.Parse([]byte(text), &e.Snapshot)
		r.By[addr] = e
		e.LostAt, e.ShownAt = 3*time.Second, 4*time.Second
		r.Gone["gone from "+addr] = e
	}
	return r
}

func TestEngineSamples(t *testing.T) {
	for name, want := range map[string]EngineSamples{
		"none": NewEngineSamples(), "some": someSamples(t),
	} {
		got, err := ParseEngineSamples(want.Append(nil))
		if err != nil || !slices.Equal(got.Targets, want.Targets) || !maps.Equal(got.By, want.By) ||
			!maps.Equal(got.Gone, want.Gone) {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, want)
		}
	}
}

func TestEngineSamplesBroken(t *testing.T) {
	one := NewEngineSamples()
	one.By["10.0.0.1:80"] = someSamples(t).By["10.0.0.1:80"]
	whole := one.Append(nil)
	for n := range len(whole) {
		if n == 2 { // samples of no endpoint
			continue
		}
		if got, err := ParseEngineSamples(whole[:n]); err == nil {
			t.Errorf("%d bytes of %d pass as %+v", n, len(whole), got)
		}
	}
	if _, err := ParseEngineSamples([]byte{1, 0}); err == nil {
		t.Error("another version passes as this one")
	}
}

func BenchmarkEngineSamples(b *testing.B) {
	r, some := NewEngineSamples(), someSamples(b)
	clusters, _ := ParseClusters(clustersText(b, 1000))
	for _, e := range clusters {
		for _, endpoint := range e {
			r.By[endpoint.Addr] = some.By["10.0.0.1:80"]
		}
	}
	all := r.Append(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			all = r.Append(all[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseEngineSamples(all); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzParseEngineSamples(f *testing.F) {
	some := someSamples(f)
	f.Add(some.Append(nil))
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseEngineSamples(b)
		if err != nil {
			return
		}
		again, err := ParseEngineSamples(got.Append(nil))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v becomes %+v, %v", got, again, err)
		}
	})
}
