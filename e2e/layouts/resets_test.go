package layouts

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
)

// Frames of HTTP/2, RFC 9113.
const (
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHead  = 1
	frameReset = 3
	frameSet   = 4
	framePing  = 6
	ackFlag    = 1
	wholeFlags = 5 // END_STREAM and END_HEADERS
	cancelCode = 8
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// literal is a header in HPACK, RFC 7541, without compression and index: its name by its place in the static table, or
// spelled when that is 0.
func literal(b []byte, index byte, name, value string) []byte {
	b = append(b, index)
	if index == 0 {
		b = append(append(b, byte(len(name))), name...)
	}
	return append(append(b, byte(len(value))), value...)
}

// rapidResets opens streams and resets each at once (CVE-2023-44487), 3,000 in all. Other requests are served during
// that time, and no lease is left.
func rapidResets(t *testing.T, l *lab, name string) {
	const connections, streams = 15, 200 // Envoy ends a connection that has reset 250
	l.known(t, name, byRequests, query{})
	id, _ := l.fleet.begin(func(_ http.ResponseWriter, r *http.Request, _, _ int) { <-r.Context().Done() })
	decided := l.g.SumT(t, `^wasmcustom\.warmgate_decisions_total`)
	for range connections {
		l.resetAll(t, name, id, streams)
		if a := l.must(t, name, query{}); a.status != http.StatusOK || a.reason() != "chosen" {
			t.Errorf("another client: %d, reason %q", a.status, a.reason())
		}
	}
	if n := l.g.SumT(t, `^wasmcustom\.warmgate_decisions_total`) - decided; n != connections*(streams+1) {
		t.Errorf("%v requests were decided, want %d", n, connections*(streams+1))
	}
	settled(t, l, name)
}

// resetAll opens and resets streams on a connection of its own, and returns when Envoy has seen all of it.
func (l *lab) resetAll(t *testing.T, name, id string, streams int) {
	t.Helper()
	head := []byte{0x83, 0x86} // :method POST, :scheme http
	head = literal(head, 4, ":path", prefixOf(name))
	head = literal(head, 1, ":authority", byRequests)
	head = literal(head, 0, exchangeHeader, id)
	out := append([]byte(preface), frame(frameSet, 0, 0, nil)...)
	for i := range streams {
		stream := uint32(2*i + 1)
		out = append(out, frame(frameHead, wholeFlags, stream, head)...)
		out = append(out, frame(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, cancelCode))...)
	}
	out = append(out, frame(framePing, 0, 0, []byte("all sent"))...)
	conn := l.dial(t)
	defer conn.Close()
	go func() { _, _ = conn.Write(out) }()
	awaitPong(t, conn)
}

// awaitPong reads frames until the answer to the ping.
func awaitPong(t *testing.T, conn net.Conn) {
	t.Helper()
	in := bufio.NewReader(conn)
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(in, head); err != nil {
			t.Fatalf("Envoy does not answer the ping: %v", err)
		}
		size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		if _, err := in.Discard(size); err != nil {
			t.Fatal(err)
		}
		if head[3] == framePing && head[4]&ackFlag != 0 {
			return
		}
	}
}
