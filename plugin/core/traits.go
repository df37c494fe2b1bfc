package core

import (
	"strconv"
	"strings"
)

// traits is what a request's headers contain. They are read at most once.
type traits struct {
	known     bool
	headers   [][2]string
	authority string
	length    int  // of the body by its header, in bytes, 0 if that is not known
	opaque    bool // the body is no request to inspect: gRPC, or another protocol after an upgrade
	encoded   bool // the body is compressed or multipart
	awaits    bool // the body comes after 100 Continue: a gateway that sends that itself removes the header
}

func (t *traits) read(s GatewayStream) {
	if t.known {
		return
	}
	t.known = true
	t.headers = s.RequestHeaders()
	for _, h := range t.headers {
		switch h[0] {
		case ":authority":
			t.authority = h[1]
		case ":method":
			t.opaque = t.opaque || h[1] == "CONNECT"
		case "upgrade":
			t.opaque = t.opaque || h[1] != ""
		case "expect":
			t.awaits = t.awaits || strings.EqualFold(h[1], "100-continue")
		case "content-length":
			if n, err := strconv.Atoi(h[1]); err == nil && n > 0 {
				t.length = min(n, maxLength)
			}
		case "content-encoding":
			t.encoded = t.encoded || h[1] != "" && !strings.EqualFold(h[1], "identity")
		case "content-type":
			t.opaque = t.opaque || hasPrefixFold(h[1], "application/grpc")
			t.encoded = t.encoded || hasPrefixFold(h[1], "multipart/")
		}
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// header returns the value of a header of the request; those of one that is there several times are joined. The headers
// must have been read.
func (t *traits) header(name string) (value string) {
	for _, h := range t.headers {
		if strings.EqualFold(h[0], name) {
			value += h[1] + ","
		}
	}
	return value
}
