package request

import (
	"reflect"
	"testing"

	"github.com/warmgate/warmgate/plugin/host"
)

func TestTraits(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers [][2]string
		want    Traits
	}{
		{"chat", [][2]string{
			{":method", "POST"},
			{":authority", "a:80"},
			{"content-length", "12"},
			{"content-type", "application/json"},
		}, Traits{Authority: "a:80", Length: 12}},
		{"upgrade", [][2]string{{"upgrade", "websocket"}}, Traits{Opaque: true}},
		{"no upgrade", [][2]string{{"upgrade", ""}}, Traits{}},
		{"CONNECT", [][2]string{{":method", "CONNECT"}}, Traits{Opaque: true}},
		{"gRPC", [][2]string{{"content-type", "application/grpc"}}, Traits{Opaque: true, notJSON: true}},
		{"gRPC with JSON", [][2]string{{"content-type", "Application/gRPC+json"}}, Traits{Opaque: true}},
		{
			"multipart",
			[][2]string{{"content-type", "Multipart/form-data; boundary=x"}},
			Traits{Encoded: true, Multipart: true, notJSON: true},
		},
		{"a kind of JSON", [][2]string{{"content-type", "application/x+JSON; charset=utf-8"}}, Traits{}},
		{"gzip", [][2]string{{"content-encoding", "gzip"}}, Traits{Encoded: true}},
		{"identity", [][2]string{{"content-encoding", "Identity"}}, Traits{}},
		{"empty encoding", [][2]string{{"content-encoding", ""}}, Traits{}},
		{
			"two encodings",
			[][2]string{{"content-encoding", "br"}, {"content-encoding", "identity"}},
			Traits{Encoded: true},
		},
		{"100-continue", [][2]string{{"expect", "100-Continue"}}, Traits{Awaits: true}},
		{"another expectation", [][2]string{{"expect", "200-ok"}}, Traits{}},
		{"length of no number", [][2]string{{"content-length", "12a"}}, Traits{}},
		{"length below zero", [][2]string{{"content-length", "-12"}}, Traits{}},
		{"length beyond all", [][2]string{{"content-length", "99999999999999999999"}}, Traits{}},
		{"short type", [][2]string{{"content-type", "app"}}, Traits{notJSON: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &headersOnly{headers: c.headers}
			var got Traits
			got.Read(s)
			got.Read(s)
			if s.reads != 1 {
				t.Errorf("the headers were read %d times", s.reads)
			}
			got.Headers = nil
			if c.want.Known = true; !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// headersOnly is a Stream of which only the headers are read.
type headersOnly struct {
	host.GatewayStream
	headers [][2]string
	reads   int
}

func (h *headersOnly) RequestHeaders() [][2]string {
	h.reads++
	return h.headers
}
