package discovery

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
)

func someReadings(t testing.TB) Readings {
	t.Helper()
	p, err := metrics.New(metrics.AnyEngine, "my_gauge")
	if err != nil {
		t.Fatal(err)
	}
	r := Readings{Targets: []string{"my_gauge"}, By: map[string]lb.EngineSample{}}
	for addr, text := range map[string]string{
		"10.0.0.1:80":   "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\nmy_gauge 0.5\n",
		"[2001::1]:443": `vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters=""} 17` + "\n",
		"10.0.0.2:80":   "",
	} {
		e := lb.EngineSample{
			At: time.Second, FreshAt: 2 * time.Second, Counted: addr != "10.0.0.2:80",
			Inflight: lb.Load{Requests: 4, Tokens: 1 << 40},
		}
		p.Parse([]byte(text), &e.Snapshot)
		r.By[addr] = e
	}
	return r
}

func TestReadings(t *testing.T) {
	for name, want := range map[string]Readings{
		"none": {By: map[string]lb.EngineSample{}}, "some": someReadings(t),
	} {
		got, err := ParseReadings(want.Append(nil))
		if err != nil || !slices.Equal(got.Targets, want.Targets) || !maps.Equal(got.By, want.By) {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, want)
		}
	}
}

func TestReadingsBroken(t *testing.T) {
	one := Readings{By: map[string]lb.EngineSample{}}
	one.By["10.0.0.1:80"] = someReadings(t).By["10.0.0.1:80"]
	whole := one.Append(nil)
	for n := range len(whole) {
		if n == 2 { // readings of no endpoint
			continue
		}
		if got, err := ParseReadings(whole[:n]); err == nil {
			t.Errorf("%d bytes of %d pass as %+v", n, len(whole), got)
		}
	}
	if _, err := ParseReadings([]byte{2, 0}); err == nil {
		t.Error("another version passes as this one")
	}
}

func BenchmarkReadings(b *testing.B) {
	r, some := Readings{By: map[string]lb.EngineSample{}}, someReadings(b)
	for _, e := range ParseClusters(clustersText(b, 1000)) {
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
			if _, err := ParseReadings(all); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzParseReadings(f *testing.F) {
	some := someReadings(f)
	f.Add(some.Append(nil))
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseReadings(b)
		if err != nil {
			return
		}
		again, err := ParseReadings(got.Append(nil))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v becomes %+v, %v", got, again, err)
		}
	})
}
