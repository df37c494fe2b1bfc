package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/warmgate/warmgate/redisclient"
)

// replyTimeout bounds every wait for the server.
const replyTimeout = 10 * time.Second

// traffic counts what went over connections.
type traffic struct {
	sent, received int64 // bytes of commands and of replies
	trips          int64 // times that commands were sent and their replies awaited
}

func (t traffic) plus(o traffic) traffic {
	return traffic{t.sent + o.sent, t.received + o.received, t.trips + o.trips}
}

func (t traffic) minus(o traffic) traffic {
	return traffic{t.sent - o.sent, t.received - o.received, t.trips - o.trips}
}

// conn is one pipelined connection: commands wait for flush, which sends them together and hands out the replies. It is a
// redisclient.Transport for use from one goroutine.
type conn struct {
	tcp     net.Conn
	started time.Time
	out     []byte
	in      []byte // received and not yet handed out
	buffer  []byte
	waiting []redisclient.Done
	traffic traffic
}

func dial(addr string) (*conn, error) {
	tcp, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{tcp: tcp, started: time.Now(), buffer: make([]byte, 64<<10)}, nil
}

func (c *conn) seen() traffic { return c.traffic }

func (c *conn) close() error { return c.tcp.Close() }

func (c *conn) now() time.Duration { return time.Since(c.started) }

// Do implements redisclient.Transport.
func (c *conn) Do(_ time.Duration, cmd []byte, done redisclient.Done) {
	c.out = append(c.out, cmd...)
	c.waiting = append(c.waiting, done)
}

// flush sends what waits and hands out the replies, until nothing is left to send.
func (c *conn) flush() error {
	if err := c.tcp.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	for i := 0; i < len(c.waiting); i++ { // a reply may cause further commands
		if len(c.out) > 0 {
			if _, err := c.tcp.Write(c.out); err != nil {
				return err
			}
			c.traffic.sent += int64(len(c.out))
			c.traffic.trips++
			c.out = c.out[:0]
		}
		reply, err := c.read()
		if err != nil {
			return err
		}
		c.waiting[i](c.now(), reply, nil)
	}
	c.waiting = c.waiting[:0]
	return nil
}

// read returns one reply, which is valid until the next read.
func (c *conn) read() ([]byte, error) {
	for {
		_, rest, err := redisclient.Parse(c.in)
		if err == nil {
			reply := c.in[:len(c.in)-len(rest)]
			c.in = rest
			c.traffic.received += int64(len(reply))
			return reply, nil
		}
		if !errors.Is(err, redisclient.ErrIncomplete) {
			return nil, err
		}
		kept := copy(c.buffer, c.in)
		if kept == len(c.buffer) {
			return nil, fmt.Errorf("a reply of more than %d bytes", kept)
		}
		n, err := c.tcp.Read(c.buffer[kept:])
		if err != nil {
			return nil, err
		}
		c.in = c.buffer[:kept+n]
	}
}
