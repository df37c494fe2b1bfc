package pipe

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

// piped returns a connection whose other end answers each write with the next of the texts, in pieces of the given
// size.
func piped(t *testing.T, piece int, answers ...string) (*Conn, <-chan string) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	sent := make(chan string, len(answers))
	go func() {
		defer there.Close()
		buf := make([]byte, 1<<16)
		for _, answer := range answers {
			n, err := there.Read(buf)
			if err != nil {
				return
			}
			sent <- string(buf[:n])
			for part := range slices.Chunk([]byte(answer), piece) {
				if _, err := there.Write(part); err != nil {
					return
				}
			}
		}
	}()
	return &Conn{tcp: here, started: time.Now(), buffer: make([]byte, 64)}, sent
}

func TestConnHandsOutRepliesInOrder(t *testing.T) {
	for _, piece := range []int{1, 2, 7, 1000} {
		c, sent := piped(t, piece, "$3\r\nabc\r\n*2\r\n:1\r\n:2\r\n-ERR no\r\n")
		var got []string
		for _, cmd := range []string{"one", "two", "three"} {
			c.Do(0, []byte(cmd), func(_ time.Duration, reply []byte, err error) {
				if err != nil {
					t.Error(err)
				}
				got = append(got, cmd+" "+string(reply))
			})
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		want := []string{"one $3\r\nabc\r\n", "two *2\r\n:1\r\n:2\r\n", "three -ERR no\r\n"}
		if text := <-sent; text != "onetwothree" || !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: sent %q, got %q, want %q", piece, text, got, want)
		}
		if want := (Traffic{Sent: 11, Received: 30, Trips: 1}); c.Seen() != want {
			t.Errorf("in pieces of %d: %+v, want %+v", piece, c.Seen(), want)
		}
	}
}

func TestConnCountsFurtherTrips(t *testing.T) {
	c, _ := piped(t, 1000, "-NOSCRIPT\r\n", ":1\r\n")
	last := ""
	c.Do(0, []byte("first"), func(now time.Duration, _ []byte, _ error) {
		c.Do(now, []byte("again"), func(_ time.Duration, reply []byte, _ error) { last = string(reply) })
	})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if c.Seen().Trips != 2 || last != ":1\r\n" {
		t.Errorf("%d round trips, last reply %q", c.Seen().Trips, last)
	}
	if d := c.Seen().Minus(Traffic{Sent: 4, Received: 5, Trips: 1}).Plus(Traffic{Trips: 3}); d !=
		(Traffic{Sent: 6, Received: 10, Trips: 4}) {
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
		conn, _ := piped(t, 1000, c.answer)
		answered := false
		conn.Do(0, []byte("x"), func(time.Duration, []byte, error) { answered = true })
		if err := conn.Flush(); !c.want(err) || answered {
			t.Errorf("%s: %v, answered %v", c.name, err, answered)
		}
	}
	if _, err := Dial("127.0.0.1:1"); err == nil {
		t.Error("connected without a server")
	}
}
