package faultproxy

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing is acknowledged while the network swallows all: neither what is sent on a connection, which the kernel would
// acknowledge if the proxy just did not read it, nor a new connection.
func TestVanish(t *testing.T) {
	p := start(t)
	before := dial(t, p)
	set(t, p, Vanish())
	send(t, before, "before")
	if !silent(t, before) {
		t.Error("something comes through")
	}
	if n := unacknowledged(t, before); n != len("before") {
		t.Errorf("%d bytes are not acknowledged, want all", n)
	}
	if c, err := net.DialTimeout("tcp", p.Addr(), 2*moment); !os.IsTimeout(err) {
		t.Errorf("a new connection: %v, %v", c, err)
	}
	set(t, p, Pass())
	if got := receive(t, before, 6); got != "BEFORE" {
		t.Errorf("after that: %q", got)
	}
	dial(t, p)
}

// unacknowledged returns how many bytes the kernel holds that the other side has not acknowledged.
func unacknowledged(t *testing.T, c *net.TCPConn) (n int) {
	t.Helper()
	var failed error
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		n, failed = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return n
}
