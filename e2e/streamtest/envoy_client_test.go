package streamtest_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// patience is the limit of every wait for the real Envoy.
const patience = harness.Patience

// envoyStream is a request to the real Envoy, on a connection of its own: its client and its model server.
type envoyStream struct {
	driver   *envoy
	conn     net.Conn
	exchange *exchange
	at       *attempt // the latest, once Upstream has seen it
	chunked  bool
	status   int  // of the response, 0 before it
	answered bool // a part of it was sent
	upgraded bool

	done   chan struct{} // closed when the client has all it will get
	mu     sync.Mutex
	result streamtest.Result
}

func (d *envoy) Open(r streamtest.Request) streamtest.Stream {
	if d.settle != nil {
		d.settle()
	}
	r = r.Filled()
	s, id := d.newStream()
	from := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(cmp.Or(r.Client, "127.0.0.1"))}}
	conn, err := from.Dial("tcp", d.gw.Addr())
	if err != nil {
		d.t.Fatal(err)
	}
	s.conn = conn
	d.t.Cleanup(func() { _ = conn.Close() })
	before := 0.0
	if r.Unended {
		before = d.begun()
	}
	go s.read(r.Method)
	s.write(s.head(r, id))
	for i, frame := range r.Frames {
		s.Send(frame, i == len(r.Frames)-1 && len(r.Trailers) == 0 && !r.Unended)
	}
	if len(r.Trailers) > 0 {
		trailers := "0\r\n"
		for _, p := range r.Trailers {
			trailers += p[0] + ": " + p[1] + "\r\n"
		}
		s.write(trailers + "\r\n")
	}
	if r.Unended && !d.Await(func() bool { return d.begun() > before }) {
		d.t.Fatal("Envoy has not begun the request")
	}
	return s
}

// begun returns how many requests Envoy has begun. A worker may be late to do so: what changes before that is in force
// for a request that was sent earlier.
func (d *envoy) begun() float64 { return d.gw.SumT(d.t, `^http\.ingress\.downstream_rq_total$`) }

// newStream returns a stream without a client yet, and the identifier by which the model servers recognise it.
func (d *envoy) newStream() (s *envoyStream, id string) {
	d.sent++
	id = fmt.Sprint(d.sent)
	s = &envoyStream{driver: d, exchange: &exchange{arrivals: make(chan *attempt, 16)}, done: make(chan struct{})}
	d.hub.mu.Lock()
	d.hub.exchanges[id] = s.exchange
	d.hub.mu.Unlock()
	d.streams = append(d.streams, s)
	return s, id
}

// head returns the request's first bytes, and decides how its body is framed.
func (s *envoyStream) head(r streamtest.Request, id string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: %s\r\n%s: %s\r\n", r.Method, r.Path, r.Authority, streamHeader, id)
	hasLength := false
	for _, p := range r.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", p[0], p[1])
		hasLength = hasLength || p[0] == "content-length"
		s.upgraded = s.upgraded || p[0] == "upgrade"
	}
	if r.NoRetry {
		b.WriteString(noRetryHeader + ": 1\r\n")
	}
	if r.Local != 0 {
		fmt.Fprintf(&b, "x-envoy-fault-abort-request: %d\r\n", r.Local)
	}
	switch {
	case s.upgraded || hasLength:
	case len(r.Frames) == 1 && len(r.Trailers) == 0 && !r.Unended:
		fmt.Fprintf(&b, "content-length: %d\r\n", len(r.Frames[0]))
	case len(r.Frames) > 0 || len(r.Trailers) > 0 || r.Unended:
		s.chunked = true
		b.WriteString("transfer-encoding: chunked\r\n")
	}
	return b.String() + "\r\n"
}

// write sends bytes. An Envoy that has answered already may refuse them.
func (s *envoyStream) write(text string) { _, _ = io.WriteString(s.conn, text) }

func (s *envoyStream) Send(frame string, end bool) {
	if s.chunked && frame != "" {
		frame = fmt.Sprintf("%x\r\n%s\r\n", len(frame), frame)
	}
	if s.chunked && end {
		frame += "0\r\n\r\n"
	}
	s.write(frame)
}

// read takes the response as it comes.
func (s *envoyStream) read(method string) {
	defer close(s.done)
	reader := bufio.NewReader(s.conn)
	resp, err := http.ReadResponse(reader, &http.Request{Method: method})
	if !s.tookHead(resp, err) {
		return
	}
	var body io.Reader = resp.Body
	if resp.StatusCode == http.StatusSwitchingProtocols {
		body = reader
	}
	text, err := io.ReadAll(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Body, s.result.Cut = string(text), err != nil
	_ = s.conn.Close()
}

// tookHead records the head of the response, and reports whether there is one.
func (s *envoyStream) tookHead(resp *http.Response, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.result.Cut = true
		return false
	}
	s.result.Status, s.result.Headers = resp.StatusCode, map[string]string{}
	for name, values := range resp.Header {
		s.result.Headers[strings.ToLower(name)] = values[0]
	}
	return true
}

// arrived waits for the next attempt to reach a model server.
func (s *envoyStream) arrived(patience time.Duration) bool {
	select {
	case s.at = <-s.exchange.arrivals:
		return true
	case <-s.done:
	case <-time.After(patience):
	}
	return false
}

func (s *envoyStream) Upstream() int {
	if s.at == nil && !s.arrived(patience) {
		return -1
	}
	return s.at.server.index
}

func (s *envoyStream) Held() bool {
	if s.at != nil || s.arrived(100*time.Millisecond) {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

func (s *envoyStream) Received() streamtest.Received {
	if s.Upstream() < 0 {
		return streamtest.Received{}
	}
	s.at.mu.Lock()
	defer s.at.mu.Unlock()
	return s.at.received
}

func (s *envoyStream) Retry() int {
	s.breakOff()
	if !s.arrived(patience) {
		return -1
	}
	return s.at.server.index
}

func (s *envoyStream) breakOff() {
	if s.Upstream() >= 0 {
		s.at.give(func(a *answering) bool { a.reset(); return true })
	}
}

func (s *envoyStream) Head(status int, headers ...[2]string) {
	s.status = status
	if s.Upstream() >= 0 {
		s.at.give(func(a *answering) bool { a.head(status, headers); return false })
	}
}

func (s *envoyStream) Data(frame string) {
	s.answered = true
	if s.Upstream() >= 0 {
		s.at.give(func(a *answering) bool { a.data(frame); return false })
	}
}

func (s *envoyStream) Finish() {
	if s.status == 0 {
		s.Head(http.StatusOK)
	}
	if s.status == http.StatusOK && !s.answered {
		s.Data(streamtest.Answer)
	}
	if s.Upstream() >= 0 {
		s.at.give(func(*answering) bool { return true })
	}
}

func (s *envoyStream) ResetByUpstream() { s.breakOff() }

func (s *envoyStream) ResetByClient() {
	if tcp, ok := s.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = s.conn.Close()
}

func (s *envoyStream) Result() streamtest.Result {
	select {
	case <-s.done:
	case <-time.After(patience):
		s.driver.t.Errorf("a response does not end")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}
