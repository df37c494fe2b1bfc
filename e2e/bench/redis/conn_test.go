package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/redisclient"
)

// pipe returns a connection whose other end answers each write with the next of the texts, in pieces of the given size.
func pipe(t *testing.T, piece int, answers ...string) (*conn, <-chan string) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	asked := make(chan string, len(answers))
	go func() {
		defer there.Close()
		buf := make([]byte, 1<<16)
		for _, answer := range answers {
			n, err := there.Read(buf)
			if err != nil {
				return
			}
			asked <- string(buf[:n])
			for part := range slices.Chunk([]byte(answer), piece) {
				if _, err := there.Write(part); err != nil {
					return
				}
			}
		}
	}()
	return &conn{tcp: here, started: time.Now(), buffer: make([]byte, 64)}, asked
}

func TestConnHandsOutRepliesInOrder(t *testing.T) {
	for _, piece := range []int{1, 2, 7, 1000} {
		c, asked := pipe(t, piece, "$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n-ERR no\r\n")
		var got []string
		for _, cmd := range []string{"one", "two", "three"} {
			c.Do(0, []byte(cmd), func(_ time.Duration, reply []byte, err error) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, cmd+" "+string(reply))
			})
		}
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		want := []string{"one $3\r\nabc\r\n", "two *2\r\n:1\r\n:2\r\n", "three -ERR no\r\n"}
		if sent := <-asked; sent != "onetwothree" || !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: sent %q, got %q, want %q", piece, sent, got, want)
		}
		if want := (traffic{sent: 11, received: 30, trips: 1}); c.seen() != want {
			t.Errorf("in pieces of %d: %+v, want %+v", piece, c.seen(), want)
		}
	}
}

func TestConnCountsFurtherTrips(t *testing.T) {
	c, _ := pipe(t, 1000, "-NOSCRIPT\r\n", ":1\r\n")
	last := ""
	c.Do(0, []byte("first"), func(now time.Duration, _ []byte, _ error) {
		c.Do(now, []byte("again"), func(_ time.Duration, reply []byte, _ error) { last = string(reply) })
	})
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	if c.seen().trips != 2 || last != ":1\r\n" {
		t.Errorf("%d round trips, last reply %q", c.seen().trips, last)
	}
	if d := c.seen().minus(traffic{sent: 4, received: 5, trips: 1}).plus(traffic{trips: 3}); d != (traffic{sent: 6, received: 10, trips: 4}) {
		t.Errorf("sums of traffic: %+v", d)
	}
}

func TestConnFails(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         func(error) bool
	}{
		{"garbage", "hello\r\n", func(err error) bool { return errors.Is(err, redisclient.ErrGarbage) }},
		{"closed", "$3\r\na", func(err error) bool { return errors.Is(err, io.EOF) }},
		{"too long", "+" + strings.Repeat("x", 100) + "\r\n", func(err error) bool { return err != nil }},
	} {
		conn, _ := pipe(t, 1000, c.answer)
		answered := false
		conn.Do(0, []byte("x"), func(time.Duration, []byte, error) { answered = true })
		if err := conn.flush(); !c.want(err) || answered {
			t.Errorf("%s: %v, answered %v", c.name, err, answered)
		}
	}
	if _, err := dial("127.0.0.1:1"); err == nil {
		t.Error("connected to nobody")
	}
}
