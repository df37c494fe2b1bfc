package redisclient_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// batchTransport is a transport over one connection that collects commands until flush sends all of them at once. If
// several stores share it, Redis receives their commands in the order in which they were sent.
type batchTransport struct {
	t    tb
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	done []redisclient.Done
	next [][]byte // what is to be flushed, command by command
	sent [][]byte // what was flushed last, to look at
	all  [][]byte // what was ever flushed
}

func newBatchTransport(t tb, s *redisserver.Server) *batchTransport {
	t.Helper()
	conn, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &batchTransport{t: t, conn: conn, in: bufio.NewReaderSize(conn, 1<<16)}
}

// Do implements redisclient.Transport.
func (p *batchTransport) Do(_ time.Duration, cmd []byte, done redisclient.Done) {
	p.out = append(p.out, cmd...)
	p.done = append(p.done, done)
	p.next = append(p.next, bytes.Clone(cmd))
}

// flush sends the collected commands and distributes the replies, until no reply leads to another command.
func (p *batchTransport) flush(now time.Duration) {
	p.t.Helper()
	for p.sent = nil; len(p.done) > 0; {
		p.sent, p.all, p.next = append(p.sent, p.next...), append(p.all, p.next...), nil
		out, done := p.out, p.done
		p.out, p.done = nil, nil
		broken := make(chan error, 1)
		go func() {
			_, err := p.conn.Write(out)
			broken <- err
		}()
		for _, d := range done {
			d(now, readReply(p.t, p.in), nil)
		}
		if err := <-broken; err != nil {
			p.t.Fatal(err)
		}
	}
}

// readReply reads exactly one reply.
func readReply(t tb, in *bufio.Reader) []byte {
	t.Helper()
	reply, err := in.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(reply[1:])))
	switch {
	case reply[0] == '$' && err == nil && n >= 0:
		bulk := make([]byte, n+2)
		if _, err := io.ReadFull(in, bulk); err != nil {
			t.Fatal(err)
		}
		reply = append(reply, bulk...)
	case reply[0] == '*' && err == nil:
		for range n {
			reply = append(reply, readReply(t, in)...)
		}
	}
	return reply
}
