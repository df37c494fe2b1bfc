package streamtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// hub finds every open request by the header that its client sent.
type hub struct {
	mu        sync.Mutex
	exchanges map[string]*exchange
}

// The headers with which a client names its request, and selects the route without retries.
const (
	streamHeader  = "x-stream-id"
	noRetryHeader = "x-no-retry"
)

// exchange is a request as the model servers see it, with all its attempts.
type exchange struct {
	arrivals chan *attempt
	mu       sync.Mutex
	current  *attempt
}

// attempt is a request that has reached a model server, which waits for orders.
type attempt struct {
	server *modelServer
	orders chan order

	mu       sync.Mutex
	received streamtest.Received
}

// order is what a model server does next. done is closed when it has been carried out.
type order struct {
	do   func(*answering) (ended bool)
	done chan struct{}
}

// give has the model server carry out an order, and waits for it.
func (a *attempt) give(do func(*answering) bool) {
	o := order{do, make(chan struct{})}
	select {
	case a.orders <- o:
		<-o.done
	case <-time.After(patience):
	}
}

// answering is the server's side of an attempt.
type answering struct {
	w    http.ResponseWriter
	conn net.Conn
	raw  *bufio.ReadWriter // after an upgrade
}

func (a *answering) head(status int, headers [][2]string) {
	for _, h := range headers {
		a.w.Header().Set(h[0], h[1])
	}
	if status != http.StatusSwitchingProtocols {
		a.w.WriteHeader(status)
		_ = http.NewResponseController(a.w).Flush()
		return
	}
	_, raw, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		panic(err)
	}
	a.raw = raw
	a.data("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n")
}

// data sends a part of the body. It is no error of the server if the client has left.
func (a *answering) data(frame string) {
	if a.raw != nil {
		_, _ = a.raw.WriteString(frame)
		_ = a.raw.Flush()
		return
	}
	_, _ = io.WriteString(a.w, frame)
	_ = http.NewResponseController(a.w).Flush()
}

// reset breaks the connection.
func (a *answering) reset() {
	if tcp, ok := a.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = a.conn.Close()
}

// modelServer holds every request until the test decides how it is answered. Health checks and probes are answered at
// once.
type modelServer struct {
	index int
	addr  string
	hub   *hub
	http  *http.Server
	page  atomic.Pointer[string] // of metrics, nil or "" for none
}

type connKey struct{}

// startModelServer listens on a port that no earlier server of this process has had: the kernel gives each once.
func startModelServer(t *testing.T, h *hub, index int) *modelServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &modelServer{index: index, addr: listener.Addr().String(), hub: h}
	m.http = &http.Server{
		Handler: m,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	go func() { _ = m.http.Serve(listener) }()
	t.Cleanup(m.stop)
	return m
}

// stop refuses connections from now on and breaks those there are.
func (m *modelServer) stop() { _ = m.http.Close() }

// ServeHTTP implements http.Handler.
func (m *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.hub.mu.Lock()
	e := m.hub.exchanges[r.Header.Get(streamHeader)]
	m.hub.mu.Unlock()
	if e == nil {
		m.show(w, r)
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex()
	a := &attempt{server: m, orders: make(chan order), received: streamtest.Received{Headers: map[string]string{}}}
	for name, values := range r.Header {
		a.received.Headers[strings.ToLower(name)] = values[0]
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		a.read(r)
	}()
	e.mu.Lock()
	e.current = a
	e.mu.Unlock()
	e.arrivals <- a
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	side := &answering{w: w, conn: conn}
	for ended := false; !ended; {
		select {
		case o := <-a.orders:
			ended = o.do(side)
			close(o.done)
		case <-r.Context().Done():
			ended = true
		}
	}
	if side.raw != nil {
		_ = conn.Close()
	}
	<-read
}

// show answers requests that are no client's: health checks, probes and scrapes of the plugin.
func (m *modelServer) show(w http.ResponseWriter, r *http.Request) {
	page := m.page.Load()
	switch {
	case r.URL.Path != "/metrics":
		fmt.Fprint(w, m.addr)
	case page == nil || *page == "":
		http.NotFound(w, r)
	default:
		fmt.Fprint(w, *page)
	}
}

// read takes the request's body as it comes.
func (a *attempt) read(r *http.Request) {
	buffer := make([]byte, 64<<10)
	var body strings.Builder
	for {
		n, err := r.Body.Read(buffer)
		a.mu.Lock()
		body.Write(buffer[:n])
		a.received.Body = body.String()
		if err != nil {
			a.received.Ended = err == io.EOF
			a.received.Trailers = map[string]string{}
			for name, values := range r.Trailer {
				a.received.Trailers[strings.ToLower(name)] = values[0]
			}
		}
		a.mu.Unlock()
		if err != nil {
			return
		}
	}
}
