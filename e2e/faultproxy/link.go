package faultproxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// halfCloser is a TCP connection: one direction can end before the other.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// link is a client's connection and its counterpart at the server.
type link struct {
	proxy          *Proxy
	client, server halfCloser

	once sync.Once
	done chan struct{} // closed with the connections
}

const (
	pieceSize = 32 << 10
	pieces    = 1024 // at most that many wait in each direction
)

// piece is what one read returned.
type piece struct {
	data []byte
	due  time.Time // when it may be forwarded
}

// close ends both connections, optionally with a reset.
func (l *link) close(reset bool) {
	l.once.Do(func() {
		abort(l.client, reset)
		abort(l.server, reset)
		close(l.done)
	})
}

// abort closes a connection, optionally with a reset.
func abort(c net.Conn, reset bool) {
	if tcp, ok := c.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) // a failure leaves an orderly end, which the client takes for the same
	}
	c.Close()
}

// pump forwards one direction until it ends.
func (l *link) pump(dst, src halfCloser, replies bool) {
	queue := make(chan piece, pieces)
	var failed atomic.Bool
	go func() {
		defer close(queue)
		failed.Store(l.read(queue, src, replies) != io.EOF)
	}()
	var cut cutter
	for p := range queue {
		if !l.wait(p.due) || !l.forward(dst, p.data, replies, &cut) {
			l.close(false)
			return
		}
	}
	l.passable(replies)
	if failed.Load() {
		l.close(false)
		return
	}
	dst.CloseWrite() // a failure shows in the other direction
}

// read queues what a peer sends and returns why that has ended.
func (l *link) read(queue chan<- piece, src net.Conn, replies bool) error {
	var due time.Time
	buffer := make([]byte, pieceSize)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			if m := l.proxy.current(); replies || m.bothWays {
				due = latest(due, arrival(m.delay, m.jitter))
			}
			select {
			case queue <- piece{bytes.Clone(buffer[:n]), due}:
			case <-l.done:
				return net.ErrClosed
			}
		}
		if err != nil {
			return err
		}
	}
}

// arrival returns the time d from now plus a random time of up to jitter.
func arrival(d, jitter time.Duration) time.Time {
	if jitter > 0 {
		d += rand.N(jitter)
	}
	return time.Now().Add(d)
}

// latest keeps pieces in their order under any jitter.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait returns true at the given time, or false as soon as the link is closed.
func (l *link) wait(until time.Time) bool {
	d := time.Until(until)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}

// passable waits while a direction is stalled and returns the mode that follows, or nil when the link is closed.
func (l *link) passable(replies bool) *state {
	for {
		s := l.proxy.current()
		if s.gate == open || s.gate == mute && !replies {
			return s
		}
		select {
		case <-s.over:
		case <-l.done:
			return nil
		}
	}
}

// cutter counts the bytes that a connection got in one mode.
type cutter struct {
	mode *state
	sent int
}

// forward sends one piece in the mode in force and reports whether the connection may continue.
func (l *link) forward(dst net.Conn, data []byte, replies bool, cut *cutter) bool {
	s := l.passable(replies)
	if s == nil {
		return false
	}
	if !replies {
		_, err := dst.Write(data)
		return err == nil
	}
	if s.replace {
		data = s.text
	}
	if cut.mode != s {
		*cut = cutter{mode: s}
	}
	last := s.cut > 0 && cut.sent+len(data) >= s.cut
	if last {
		data = data[:s.cut-cut.sent]
	}
	cut.sent += len(data)
	step := len(data)
	if s.drip > 0 {
		step = 1
	}
	for len(data) > 0 {
		n := min(step, len(data))
		if _, err := dst.Write(data[:n]); err != nil {
			return false
		}
		data = data[n:]
		if s.drip > 0 && !l.wait(time.Now().Add(s.drip)) {
			return false
		}
	}
	return !last
}
