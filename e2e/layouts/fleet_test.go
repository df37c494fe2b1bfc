package layouts

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// exchangeHeader names the exchange that a request belongs to.
const exchangeHeader = "x-exchange"

// size is how many model servers a cluster has.
const size = 3

// fleet is the model servers of all layouts, listed by how they are reached.
type fleet struct {
	plain  []string // HTTP/1.1, and HTTP/2 without TLS
	six    []string // the same by IPv6
	secure []string // TLS with HTTP/1.1 or HTTP/2
	echo   []string // TCP: what comes goes back
	socket string   // of another server, HTTP/1.1
	cert   string   // that the secure ones show, PEM

	mu        sync.Mutex
	exchanges map[string]*exchange
}

// serve answers one attempt of a request: the first is attempt 0.
type serve func(w http.ResponseWriter, r *http.Request, server, attempt int)

// exchange is a group of requests that are answered in the same way.
type exchange struct {
	serve serve

	mu      sync.Mutex
	served  [size]int // attempts by server
	arrived int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{exchanges: map[string]*exchange{}}
	for i := range size {
		f.plain = append(f.plain, f.listen(t, "tcp", "127.0.0.1:0", i))
		f.six = append(f.six, f.listen(t, "tcp", "[::1]:0", i))
		secure := httptest.NewUnstartedServer(f.handler(i))
		secure.EnableHTTP2 = true
		secure.StartTLS()
		t.Cleanup(secure.Close)
		f.secure = append(f.secure, secure.Listener.Addr().String())
		f.cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
		f.echo = append(f.echo, listenEcho(t))
	}
	dir, err := os.MkdirTemp("", "layouts-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f.socket = f.listen(t, "unix", filepath.Join(dir, "s"), 0)
	return f
}

// listen starts a server that speaks HTTP/1.1 and HTTP/2, and returns its address.
func (f *fleet) listen(t *testing.T, network, addr string, server int) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: f.handler(server), Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// listenEcho starts a server that sends back what it gets.
func listenEcho(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

// begin registers an exchange. The server plays it when it gets requests with the header.
func (f *fleet) begin(s serve) (id string, e *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id = fmt.Sprint(len(f.exchanges) + 1)
	e = &exchange{serve: s}
	f.exchanges[id] = e
	return id, e
}

func (f *fleet) handler(server int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		e := f.exchanges[r.Header.Get(exchangeHeader)]
		f.mu.Unlock()
		if e == nil {
			_, _ = io.WriteString(w, "ok")
			return
		}
		e.mu.Lock()
		attempt := e.arrived
		e.arrived++
		e.served[server]++
		e.mu.Unlock()
		e.serve(w, r, server, attempt)
	})
}

// spread returns how many attempts each server had.
func (e *exchange) spread() [size]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.served
}
