// Package pipe is a connection to a Redis server, for benchmarks and for the gateways of tests: it sends commands
// together and counts its traffic.
package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// replyTimeout bounds every wait for the server.
const replyTimeout = 30 * time.Second

// Traffic counts what went over connections.
type Traffic struct {
	Sent, Received int64 // bytes of commands and of replies
	Trips          int64 // times that commands were sent and their replies awaited
}

// Plus returns the sum of both.
func (t Traffic) Plus(o Traffic) Traffic {
	return Traffic{t.Sent + o.Sent, t.Received + o.Received, t.Trips + o.Trips}
}

// Minus returns t without what o has.
func (t Traffic) Minus(o Traffic) Traffic {
	return Traffic{t.Sent - o.Sent, t.Received - o.Received, t.Trips - o.Trips}
}

// Conn is one pipelined connection: commands wait for flush, which sends them together and hands out the replies. It is
// a redisclient.Transport for use from one goroutine.
type Conn struct {
	tcp     net.Conn
	started time.Time
	out     []byte
	in      []byte // received and not yet handed out
	buffer  []byte
	waiting []redisclient.Done
	traffic Traffic
}

// Dial connects to the server at ip:port.
func Dial(addr string) (*Conn, error) {
	tcp, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	return &Conn{tcp: tcp, started: time.Now(), buffer: make([]byte, 64<<10)}, nil
}

// Seen returns the traffic so far.
func (c *Conn) Seen() Traffic { return c.traffic }

// Close closes the connection.
func (c *Conn) Close() error { return c.tcp.Close() }

// Now returns the time since the connection was made.
func (c *Conn) Now() time.Duration { return time.Since(c.started) }

// Do implements redisclient.Transport.
func (c *Conn) Do(_ time.Duration, cmd []byte, done redisclient.Done) {
	c.out = append(c.out, cmd...)
	c.waiting = append(c.waiting, done)
}

// Carry sends a command when nothing else waits, and returns a copy of the reply.
func (c *Conn) Carry(cmd []byte) (reply []byte, err error) {
	c.Do(0, cmd, func(_ time.Duration, got []byte, _ error) { reply = bytes.Clone(got) })
	return reply, c.Flush()
}

// Flush sends what waits and hands out the replies, until nothing is left to send.
func (c *Conn) Flush() error {
	if err := c.tcp.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	for i := 0; i < len(c.waiting); i++ { // a reply may cause further commands
		if len(c.out) > 0 {
			if _, err := c.tcp.Write(c.out); err != nil {
				return err
			}
			c.traffic.Sent += int64(len(c.out))
			c.traffic.Trips++
			c.out = c.out[:0]
		}
		reply, err := c.read()
		if err != nil {
			return err
		}
		c.waiting[i](c.Now(), reply, nil)
	}
	c.waiting = c.waiting[:0]
	return nil
}

// read returns one reply, which is valid until the next read.
func (c *Conn) read() ([]byte, error) {
	for {
		_, rest, err := redisclient.Parse(c.in)
		if err == nil {
			reply := c.in[:len(c.in)-len(rest)]
			c.in = rest
			c.traffic.Received += int64(len(reply))
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

// NoKV is the shared memory of a gateway with one worker, an lb.KV: there is no other worker to share with.
type NoKV struct{}

// Get finds nothing.
func (NoKV) Get(string) ([]byte, uint32, error) { return nil, 0, lb.ErrNotFound }

// Set forgets the value.
func (NoKV) Set(string, []byte, uint32) error { return nil }
