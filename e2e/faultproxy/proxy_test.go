package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/freeport"
)

// patience bounds every wait for something that must happen; moment is how long a test watches that something does not.
const (
	patience = 5 * time.Minute
	moment   = 50 * time.Millisecond
)

// echo runs a server that answers each line with itself in upper case, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var buffer [1 << 16]byte
				for {
					n, err := c.Read(buffer[:])
					if err != nil {
						return
					}
					c.Write(bytes.ToUpper(buffer[:n]))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// start runs a proxy in front of an echo server.
func start(t *testing.T) *Proxy {
	t.Helper()
	p, err := Start(t.Context(), echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// set puts a mode in force.
func set(t *testing.T, p *Proxy, m Mode) {
	t.Helper()
	if err := p.Set(m); err != nil {
		t.Fatal(err)
	}
}

// dial connects to the proxy and has made one exchange, so that the connection is known to be through.
func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c := connect(t, p)
	if got := exchange(t, c, "hello"); got != "HELLO" {
		t.Fatalf("through a proxy that passes: %q", got)
	}
	return c
}

func connect(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// receive reads n bytes.
func receive(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	buffer := make([]byte, n)
	c.SetReadDeadline(time.Now().Add(patience))
	n, err := io.ReadFull(c, buffer)
	if err != nil {
		t.Fatalf("got %q, %v", buffer[:n], err)
	}
	return string(buffer)
}

func exchange(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	send(t, c, text)
	return receive(t, c, len(text))
}

// silent reports whether nothing comes for a moment, not even an end.
func silent(t *testing.T, c net.Conn) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(moment))
	n, err := c.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// rest reads to the end and returns how that came.
func rest(t *testing.T, c net.Conn) (string, error) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestPass(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	large := strings.Repeat("x", 1<<20)
	go c.Write([]byte(large))
	if got := receive(t, c, len(large)); got != strings.ToUpper(large) {
		t.Error("a large exchange has changed on its way")
	}
	other := dial(t, p)
	if n := forwarded(p); n != 2 {
		t.Errorf("%d connections are open, want 2", n)
	}
	// One direction may end before the other.
	send(t, other, "last")
	other.CloseWrite()
	if got, err := rest(t, other); got != "LAST" || err != nil {
		t.Errorf("after the client's half close: %q, %v", got, err)
	}
	c.Close()
	await(t, func() bool { return forwarded(p) == 0 })
}

// forwarded returns how many connections the proxy forwards.
func forwarded(p *Proxy) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// await waits for what must happen.
func await(t *testing.T, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

func TestDelay(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	const d, n = 20 * time.Millisecond, 50
	set(t, p, Delay(d, d))
	begin := time.Now()
	for i := range n {
		send(t, c, string(rune('a'+i%26)))
		time.Sleep(time.Millisecond) // pieces of their own
	}
	got := receive(t, c, n)
	if took := time.Since(begin); took < d {
		t.Errorf("all replies after %v", took)
	}
	for i := range n {
		if got[i] != byte('A'+i%26) {
			t.Fatalf("jitter changes the order: %s", got)
		}
	}
	// A round trip takes at least the delay; benchmarks check that it takes no more than the jitter above.
	for range 3 {
		begin := time.Now()
		exchange(t, c, "x")
		if took := time.Since(begin); took < d {
			t.Errorf("a reply after %v", took)
		}
	}
}

// TestWire delays requests as long as replies, and keeps both in their order.
func TestWire(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	const d = 20 * time.Millisecond
	set(t, p, Wire(d))
	begin := time.Now()
	for i := range 26 {
		send(t, c, string(rune('a'+i)))
		time.Sleep(time.Millisecond) // pieces of their own
	}
	if got := receive(t, c, 26); got != "ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		t.Errorf("got %s", got)
	}
	if took := time.Since(begin); took < 2*d {
		t.Errorf("a round trip takes %v", took)
	}
}

func TestStall(t *testing.T) {
	p := start(t)
	before := dial(t, p)
	set(t, p, Stall())
	during := connect(t, p)
	send(t, before, "before")
	send(t, during, "during")
	if !silent(t, before) || !silent(t, during) {
		t.Error("something comes through")
	}
	gone := connect(t, p)
	gone.CloseWrite()
	if !silent(t, gone) {
		t.Error("an end comes through")
	}
	set(t, p, Pass())
	if a, b := receive(t, before, 6), receive(t, during, 6); a != "BEFORE" || b != "DURING" {
		t.Errorf("after the stall: %q, %q", a, b)
	}
	if got, err := rest(t, gone); got != "" || err != nil {
		t.Errorf("after the stall, the client's end: %q, %v", got, err)
	}
	// A stalled connection can be closed from here.
	set(t, p, Stall())
	send(t, before, "x")
	set(t, p, Reset())
	if got, _ := rest(t, before); got != "" {
		t.Errorf("after the end: %q", got)
	}
}

func TestStallReplies(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	set(t, p, StallReplies())
	send(t, c, "x")
	if !silent(t, c) {
		t.Error("a reply comes through")
	}
	set(t, p, Pass())
	if got := receive(t, c, 1); got != "X" {
		t.Errorf("after the stall: %q", got)
	}
}

// TestEnds covers the modes in which no connection lasts.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  Mode
		reset bool // the client sees a reset
	}{
		{"reset", Reset(), true},
		{"refuse", Refuse(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			before := dial(t, p)
			set(t, p, c.mode)
			if _, err := rest(t, before); errors.Is(err, syscall.ECONNRESET) != c.reset {
				t.Errorf("an open connection ends with %v", err)
			}
			during, err := net.Dial("tcp", p.Addr())
			if c.name == "refuse" {
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("a new connection: %v", err)
				}
			} else if err == nil { // a reset may come while the client connects
				if got, err := rest(t, during); got != "" || errors.Is(err, syscall.ECONNRESET) != c.reset {
					t.Errorf("a new connection: %q, %v", got, err)
				}
				during.Close()
			}
			await(t, func() bool { return forwarded(p) == 0 })
			set(t, p, Pass())
			dial(t, p)
		})
	}
}

func TestCutReply(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	set(t, p, CutReply(7))
	if got := exchange(t, c, "abcd"); got != "ABCD" {
		t.Errorf("below the cut: %q", got)
	}
	send(t, c, "efghij")
	if got, _ := rest(t, c); got != "EFG" {
		t.Errorf("after 4 of 7 bytes: %q", got)
	}
	other := connect(t, p)
	send(t, other, "0123456789")
	if got, _ := rest(t, other); got != "0123456" {
		t.Errorf("each connection has a count of its own: %q", got)
	}
}

func TestDrip(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	const pause = 5 * time.Millisecond
	set(t, p, Drip(pause))
	begin := time.Now()
	if got := exchange(t, c, "abcdefghij"); got != "ABCDEFGHIJ" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(begin); took < 9*pause {
		t.Errorf("10 bytes came in %v", took)
	}
	// The connection ends in the middle of a reply.
	set(t, p, Drip(time.Hour))
	send(t, c, "xyz")
	if got := receive(t, c, 1); got != "X" {
		t.Errorf("the first byte: %q", got)
	}
	set(t, p, Reset())
	if got, _ := rest(t, c); got != "" {
		t.Errorf("after the end: %q", got)
	}
}

func TestFalseReplies(t *testing.T) {
	p := start(t)
	c := dial(t, p)

	set(t, p, Garbage([]byte("<html>")))
	for range 2 {
		send(t, c, "x")
		if got := receive(t, c, 6); got != "<html>" {
			t.Errorf("garbage: %q", got)
		}
	}

	set(t, p, LoseReplies())
	send(t, c, "lost") // that the server has answered is what TestRedis shows
	if !silent(t, c) {
		t.Error("a lost reply comes through")
	}
	set(t, p, Pass())
	if got := exchange(t, c, "x"); got != "X" {
		t.Errorf("after lost replies: %q", got)
	}
}

func TestNoServer(t *testing.T) {
	port, err := freeport.Get()
	if err != nil {
		t.Fatal(err)
	}
	gone, err := Start(t.Context(), "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Stop()
	if got, _ := rest(t, connect(t, gone)); got != "" {
		t.Errorf("without a server: %q", got)
	}
}

func TestStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, echo(t))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p)
	cancel()
	if got, _ := rest(t, c); got != "" {
		t.Errorf("a connection of a proxy that stops: %q", got)
	}
	p.Stop()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a stopped proxy: %v", err)
	}
	if err := p.Set(Pass()); err == nil {
		t.Error("a stopped proxy takes a mode")
	}
}
