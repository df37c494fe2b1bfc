package bench

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// completion is the shortest that a client would accept, with the usage that follows.
const completion = `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",` +
	`"content":"ok"},"finish_reason":"stop"}],"usage":`

// Upstream is many endpoints on ports of 127.0.0.1 that answer as cheaply as possible, so that the machine's cores are
// left to the gateway.
type Upstream struct {
	listeners []net.Listener
	served    atomic.Int64
	answer    atomic.Pointer[[]byte]

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// StartUpstream opens the ports of n endpoints.
func StartUpstream(n int) (*Upstream, error) {
	u := &Upstream{conns: map[net.Conn]struct{}{}}
	u.Answer(`{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`)
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, u.Close())
		}
		u.listeners = append(u.listeners, ln)
		go u.accept(ln)
	}
	return u, nil
}

// Answer sets the usage, JSON, in the answers to all requests from now on.
func (u *Upstream) Answer(usage string) {
	body := completion + usage + "}"
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	u.answer.Store(&answer)
}

// Served returns how many requests were answered.
func (u *Upstream) Served() int64 { return u.served.Load() }

// Addrs returns the addresses of the first n endpoints.
func (u *Upstream) Addrs(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = u.listeners[i].Addr().String()
	}
	return out
}

// Close closes the ports and every connection.
func (u *Upstream) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	var errs []error
	for _, ln := range u.listeners {
		errs = append(errs, ln.Close())
	}
	for c := range u.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func (u *Upstream) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return // closed
		}
		if u.track(conn) {
			go u.serve(conn)
		}
	}
}

// track remembers the connection for Close, or closes it at once if Close was first.
func (u *Upstream) track(conn net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		_ = conn.Close()
		return false
	}
	u.conns[conn] = struct{}{}
	return true
}

func (u *Upstream) serve(conn net.Conn) {
	defer func() {
		u.mu.Lock()
		delete(u.conns, conn)
		u.mu.Unlock()
		_ = conn.Close()
	}()
	in := bufio.NewReaderSize(conn, 4096)
	for {
		if err := skipRequest(in); err != nil {
			return
		}
		u.served.Add(1)
		if _, err := conn.Write(*u.answer.Load()); err != nil {
			return
		}
	}
}

// skipRequest reads one request with its body.
func skipRequest(in *bufio.Reader) error {
	if _, err := in.ReadSlice('\n'); err != nil {
		return err
	}
	return loadgen.DiscardMessage(in)
}
