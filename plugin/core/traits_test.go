package core

import (
	"reflect"
	"testing"

	"github.com/warmgate/warmgate/plugin/host"
)

func TestTraits(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers [][2]string
		want    traits
	}{
		{"chat", [][2]string{
			{":method", "POST"},
			{":authority", "a:80"},
			{"content-length", "12"},
			{"content-type", "application/json"},
		}, traits{authority: "a:80", length: 12}},
		{"upgrade", [][2]string{{"upgrade", "websocket"}}, traits{opaque: true}},
		{"no upgrade", [][2]string{{"upgrade", ""}}, traits{}},
		{"CONNECT", [][2]string{{":method", "CONNECT"}}, traits{opaque: true}},
		{"gRPC", [][2]string{{"content-type", "application/grpc"}}, traits{opaque: true, notJSON: true}},
		{"gRPC with JSON", [][2]string{{"content-type", "Application/gRPC+json"}}, traits{opaque: true}},
		{
			"multipart",
			[][2]string{{"content-type", "Multipart/form-data; boundary=x"}},
			traits{encoded: true, parts: true, notJSON: true},
		},
		{"a kind of JSON", [][2]string{{"content-type", "application/x+JSON; charset=utf-8"}}, traits{}},
		{"gzip", [][2]string{{"content-encoding", "gzip"}}, traits{encoded: true}},
		{"identity", [][2]string{{"content-encoding", "Identity"}}, traits{}},
		{"empty encoding", [][2]string{{"content-encoding", ""}}, traits{}},
		{
			"two encodings",
			[][2]string{{"content-encoding", "br"}, {"content-encoding", "identity"}},
			traits{encoded: true},
		},
		{"100-continue", [][2]string{{"expect", "100-Continue"}}, traits{awaits: true}},
		{"another expectation", [][2]string{{"expect", "200-ok"}}, traits{}},
		{"length of no number", [][2]string{{"content-length", "12a"}}, traits{}},
		{"length below zero", [][2]string{{"content-length", "-12"}}, traits{}},
		{"length beyond all", [][2]string{{"content-length", "99999999999999999999"}}, traits{}},
		{"short type", [][2]string{{"content-type", "app"}}, traits{notJSON: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &headersOnly{headers: c.headers}
			var got traits
			got.read(s)
			got.read(s)
			if s.reads != 1 {
				t.Errorf("the headers were read %d times", s.reads)
			}
			got.headers = nil
			if c.want.known = true; !reflect.DeepEqual(got, c.want) {
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
