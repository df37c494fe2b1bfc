package faultproxy

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
)

// TestRedis runs with real servers: a reply that is lost or cut does not undo the command.
func TestRedis(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			s := redisserver.StartT(t, redisserver.Options{Version: version})
			p, err := Start(t.Context(), s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stop()
			c := connect(t, p)
			increment := func() { send(t, c, "INCR n\r\n") }
			increment()
			if got := receive(t, c, 4); got != ":1\r\n" {
				t.Errorf("passed: %q", got)
			}
			set(t, p, LoseReplies())
			increment()
			if !silent(t, c) {
				t.Error("a lost reply comes through")
			}
			set(t, p, Garbage([]byte("-LOADING not yet\r\n")))
			increment()
			if got := receive(t, c, 18); !strings.HasPrefix(got, "-LOADING ") {
				t.Errorf("replaced: %q", got)
			}
			set(t, p, CutReply(2))
			increment()
			if got, _ := rest(t, c); got != ":4" {
				t.Errorf("cut: %q", got)
			}
			if reply, err := s.Do("GET", "n"); err != nil || reply.String() != "4" {
				t.Errorf("the counter: %v, %v, want 4", reply, err)
			}
		})
	}
}

// TestRedisDown stops and restarts a server behind the proxy.
func TestRedisDown(t *testing.T) {
	s := redisserver.StartT(t, redisserver.Options{})
	p, err := Start(t.Context(), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	before := connect(t, p)
	send(t, before, "PING\r\n")
	receive(t, before, 7)
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"open": before, "new": connect(t, p)} {
		if got, err := rest(t, c); got != "" || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that is %s does not end: %q, %v", name, got, err)
		}
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := connect(t, p)
	send(t, after, "PING\r\n")
	if got := receive(t, after, 7); got != "+PONG\r\n" {
		t.Errorf("after the restart: %q", got)
	}
}
