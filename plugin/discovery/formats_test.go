package discovery

import (
	"maps"
	"reflect"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
)

// The values in shared memory are byte for byte as documented: VMs with another version of the plugin read them.
func TestFormats(t *testing.T) {
	clusters := map[string][]lb.Endpoint{
		"llm": {
			{Addr: "10.0.0.1:80", Weight: 1},
			{Addr: "[::1]:80", Weight: 2.5, State: lb.Ejected, Priority: 2, Zone: lb.Zone{Region: "r", Name: "zone"}},
		},
		"": {},
	}
	const digest = "\x02\x02" + "\x00\x00" + "\x03llm\x02" +
		"\x0b10.0.0.1:80" + "\x00\x00\x00\x00\x00\x00\xf0\x3f" + "\x00\x00\x00\x00" +
		"\x08[::1]:80" + "\x00\x00\x00\x00\x00\x00\x04\x40" + "\x04\x02\x01r\x04zone"
	if got := string(AppendDigest(nil, clusters)); got != digest {
		t.Errorf("digest\n got %q\nwant %q", got, digest)
	}
	if got, err := ParseDigest([]byte(digest)); err != nil || !reflect.DeepEqual(got, clusters) {
		t.Errorf("digest: %v, %v", got, err)
	}

	p, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		t.Fatal(err)
	}
	sample := engines.Sample{
		At: 0x0102030405060708, ScrapedAt: 1, FreshAt: 2, Counted: true, Frozen: true, Page: 0x1112131415161718,
		LostAt: 5, ShownAt: 6,
		Inflight: lb.Load{Requests: 3, Tokens: 4},
	}
	p.Parse([]byte("vllm:num_requests_running 3\n"+
		`vllm:lora_requests_info{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"} 17`+"\n"),
		&sample.Snapshot)
	want := EngineSamples{Targets: []string{"gauge"}, By: map[string]engines.Sample{"10.0.0.1:80": sample}}
	const samples = "\x03\x01\x05gauge" + "\x0b10.0.0.1:80" + "\x08\x07\x06\x05\x04\x03\x02\x01" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" +
		"\x05\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00\x00\x00\x00\x00" + "\x03" +
		"\x18\x17\x16\x15\x14\x13\x12\x11" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\x04\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00" + "\x01\x80\x00\x00" + "\x00\x00\x00\x00" + // a snapshot of vLLM
		"\x00\x00\x00\x00\x00\x00\x08\x40" + "\x00\x00\x00\x00\x00\x00\x00\x40" +
		"\x02\x8c\xec\x01\x86\x4c\xdc\x63\xaf" + "\xa5\xf1\x01\x86\x4c\xdf\x63\xaf" +
		"\x01\xf2\xef\x01\x86\x4c\xde\x63\xaf"
	if got := string(want.Append(nil)); got != samples {
		t.Errorf("samples\n got %q\nwant %q", got, samples)
	}
	if got, err := ParseEngineSamples([]byte(samples)); err != nil || !maps.Equal(got.By, want.By) {
		t.Errorf("samples: %+v, %v", got, err)
	}
}
