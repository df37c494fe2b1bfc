package layouts

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// protocolLayouts are what clients and servers speak.
var protocolLayouts = []layout{
	{name: "HTTP1"},
	{name: "HTTP2", check: func(t *testing.T, l *lab, name string) { l.balances(t, name, size, query{client: l.h2}) }},
	{name: "400 streams", check: manyStreams},
	{name: "rapid resets", check: rapidResets},
	{name: "GOAWAY", cluster: overHTTP2, check: goAway},
	{name: "gRPC", cluster: overHTTP2, check: callsGRPC},
	{name: "WebSocket", check: opensWebSocket},
	{name: tunnelled, cluster: func(f *fleet) string { return static(f.echo) }, check: opensTunnel},
	{name: "trailers", cluster: overHTTP2, check: trailers},
	{name: "early hints", check: earlyHints},
}

const (
	tunnelled  = "CONNECT"         // the layout of tunnels
	tunnelHost = "connect.test:80" // that clients name
)

// manyStreams keeps 400 requests of one connection in flight.
func manyStreams(t *testing.T, l *lab, name string) {
	const streams = 400
	client := l.newH2()
	q := query{client: client}
	l.known(t, name, byRequests, q)
	settled(t, l, name)
	dials := l.dials.Load()
	answers, spread := l.crowd(t, name, streams, q)
	for _, a := range answers {
		if a.status != http.StatusOK || a.reason() != "chosen" {
			t.Fatalf("%d, reason %q", a.status, a.reason())
		}
	}
	for _, n := range spread {
		if n < streams/size || n > streams/size+1 {
			t.Errorf("%v of %d streams by server, want an even spread", spread, streams)
		}
	}
	if n := l.dials.Load() - dials; n != 0 {
		t.Errorf("%d more connections for %d streams", n, streams)
	}
	settled(t, l, name)
}

// goAway has servers that end their connection with each answer, while other requests are on it.
func goAway(t *testing.T, l *lab, name string) {
	l.known(t, name, byRequests, query{})
	const requests = 12
	id, e := l.fleet.begin(func(w http.ResponseWriter, _ *http.Request, _, attempt int) {
		if attempt%2 == 0 {
			w.Header().Set("Connection", "close") // Go's server makes a GOAWAY of it
		}
		time.Sleep(10 * time.Millisecond) // so that others come in that time
		_, _ = io.WriteString(w, "hello")
	})
	for range 5 {
		answers := make(chan error, requests)
		for range requests {
			go func() {
				a, err := l.send(name, query{exchange: id})
				if err == nil && (a.status != http.StatusOK || a.body != "hello" || a.reason() != "chosen") {
					err = fmt.Errorf("%d, %q, reason %q", a.status, a.body, a.reason())
				}
				answers <- err
			}()
		}
		for range requests {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
	}
	for server, n := range e.spread() {
		if n == 0 {
			t.Errorf("server %d got nothing", server)
		}
	}
	settled(t, l, name)
}

// callsGRPC makes a call whose two sides are open at the same time, and that ends with a status in a trailer.
func callsGRPC(t *testing.T, l *lab, name string) {
	q := query{client: l.h2, header: []string{"content-type", "application/grpc", "te", "trailers"}}
	id, _ := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		message := make([]byte, 10)
		for {
			if _, err := io.ReadFull(r.Body, message); err != nil {
				break
			}
			_, _ = w.Write(message)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	})
	for _, q.host = range []string{byRequests, byTokens, native} {
		if q.host != native {
			l.known(t, name, q.host, q)
		}
		q.exchange = id
		r, err := l.request(name, q)
		if err != nil {
			t.Fatal(err)
		}
		body, feed := io.Pipe()
		r.Body, r.ContentLength = body, -1
		message := []byte("\x00\x00\x00\x00\x05hello")
		go func() { _, _ = feed.Write(message) }()
		resp, err := l.h2.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		echo := make([]byte, len(message))
		if _, err := io.ReadFull(resp.Body, echo); err != nil || !bytes.Equal(echo, message) {
			t.Fatalf("%s: echo %q, %v", q.host, echo, err)
		}
		_ = feed.Close()
		rest, err := io.ReadAll(resp.Body)
		if err != nil || len(rest) != 0 || resp.Trailer.Get("grpc-status") != "0" {
			t.Errorf("%s: %q more, %v, trailers %v", q.host, rest, err, resp.Trailer)
		}
		if got := resp.Header.Get("x-warmgate-reason"); q.host != native && got != "chosen" {
			t.Errorf("%s: reason %q", q.host, got)
		}
	}
	settled(t, l, name)
}

// dial opens a connection to the gateway.
func (l *lab) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.g.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// opens makes a request by hand that turns its connection into a stream of bytes, sends some and expects them back.
func (l *lab) opens(t *testing.T, head string, status int) (conn net.Conn, header http.Header) {
	t.Helper()
	conn = l.dial(t)
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, &http.Request{Method: head[:bytes.IndexByte([]byte(head), ' ')]})
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%v, %+v", err, resp)
	}
	for range 3 {
		echo := make([]byte, 5)
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(reader, echo); err != nil || string(echo) != "hello" {
			t.Fatalf("echo %q, %v", echo, err)
		}
	}
	return conn, resp.Header
}

// opensWebSocket upgrades connections. As long as they are open they count.
func opensWebSocket(t *testing.T, l *lab, name string) {
	id, _ := l.fleet.begin(func(w http.ResponseWriter, _ *http.Request, _, _ int) {
		conn, raw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: "+
			"Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, raw)
	})
	for _, host := range []string{byRequests, byTokens, native} {
		if host != native {
			l.known(t, name, host, query{})
		}
		settled(t, l, name)
		head := "GET " + prefixOf(name) + " HTTP/1.1\r\nhost: " + host + "\r\nupgrade: " +
			"websocket\r\nconnection: Upgrade\r\n" +
			exchangeHeader + ": " + id + "\r\nsec-websocket-version: 13\r\nsec-websocket-key: " +
			"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		l.counts(t, host, func() (net.Conn, http.Header) { return l.opens(t, head, http.StatusSwitchingProtocols) })
	}
	settled(t, l, name)
}

// tick is how often the plugin writes its collected releases.
const tick = 100 * time.Millisecond

// counts opens a connection for each server and one more, and expects the plugin to count them while they are open.
func (l *lab) counts(t *testing.T, host string, open func() (net.Conn, http.Header)) {
	t.Helper()
	time.Sleep(2 * tick) // by then what has ended is returned
	for i := range size + 1 {
		want := fmt.Sprint(i/size + 1)
		conn, header := open()
		defer conn.Close()
		if host == native {
			continue
		}
		l.sent.Add(1)
		if got := header.Get("x-warmgate-reason") + header.Get("x-warmgate-load"); got != "chosen"+want {
			t.Errorf("%s: connection %d: reason and load are %q, want load %s", host, i, got, want)
		}
	}
}

// opensTunnel has Envoy end CONNECT and pass on what is inside.
func opensTunnel(t *testing.T, l *lab, _ string) {
	const head = "CONNECT " + tunnelHost + " HTTP/1.1\r\nhost: " + tunnelHost + "\r\n\r\n"
	open := func() (net.Conn, http.Header) { return l.opens(t, head, http.StatusOK) }
	harness.Await(t, func() error {
		conn, header := open()
		_ = conn.Close()
		if got := header.Get("x-warmgate-reason") + header.Get("x-warmgate-load"); got != "chosen1" {
			return fmt.Errorf("reason and load are %q", got)
		}
		return nil
	})
	// The probe's lease comes back once Envoy has noticed the end of its connection.
	harness.Await(t, func() error {
		for range size {
			conn, header := open()
			_ = conn.Close()
			if got := header.Get("x-warmgate-load"); got != "1" {
				return fmt.Errorf("load %q where no tunnel is open", got)
			}
		}
		return nil
	})
}

// trailers are sent by both sides.
func trailers(t *testing.T, l *lab, name string) {
	id, _ := l.fleet.begin(func(w http.ResponseWriter, r *http.Request, _, _ int) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Check"))
	})
	for _, host := range []string{byRequests, byTokens, native} {
		if host != native {
			l.known(t, name, host, query{client: l.h2})
		}
		r, err := l.request(name, query{host: host, exchange: id})
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = -1
		r.Trailer = http.Header{"X-Check": {"seven"}}
		resp, err := l.h2.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(body) != prompt || resp.Trailer.Get("X-Sum") != "seven" {
			t.Errorf("%s: %q, %v, trailers %v", host, body, err, resp.Trailer)
		}
		if got := resp.Header.Get("x-warmgate-reason"); host != native && got != "chosen" {
			t.Errorf("%s: reason %q", host, got)
		}
	}
	settled(t, l, name)
}

// earlyHints are sent before the answer.
func earlyHints(t *testing.T, l *lab, name string) {
	id, _ := l.fleet.begin(func(w http.ResponseWriter, _ *http.Request, _, _ int) {
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "hello")
	})
	hints := map[string]int{}
	for _, host := range []string{byRequests, byTokens, native} {
		if host != native {
			l.known(t, name, host, query{})
		}
		r, err := l.request(name, query{host: host, exchange: id})
		if err != nil {
			t.Fatal(err)
		}
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			hints[host]++
			return nil
		}}
		resp, err := l.h1.Do(r.WithContext(httptrace.WithClientTrace(context.Background(), trace)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(body) != "hello" {
			t.Errorf("%s: %s, %q, %v", host, resp.Status, body, err)
		}
	}
	if hints[byRequests] != hints[native] || hints[byTokens] != hints[native] {
		t.Errorf("early answers by host: %v", hints)
	}
	settled(t, l, name)
}
