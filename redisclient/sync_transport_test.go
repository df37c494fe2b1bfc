package redisclient_test

import (
	"bufio"
	"net"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// tb is what the parameters of tests, benchmarks, fuzz targets and random histories have in common.
type tb interface {
	rapid.TB
	Cleanup(func())
}

// syncTransport is a transport over one connection that waits for each reply: done is called before Do returns.
type syncTransport struct {
	t       tb
	conn    net.Conn
	in      *bufio.Reader
	sent    int                // commands
	bytes   int                // of them
	fate    func([]byte) int   // what happens to a command: one of the constants below
	delayed []func()           // commands that arrive later
	seen    func(reply []byte) // is called for each reply
	ran     func(cmd, reply []byte)
	now     func() time.Duration
	set     int // how often setClock was called
}

// What may happen to a command.
const (
	arrives   = iota
	notSent   // the command is lost
	replyLost // it runs, but its reply is lost
	runsLate  // it runs when deliver is called, and its reply is lost
)

func dial(t tb, s *redisserver.Server) *syncTransport {
	t.Helper()
	conn, err := net.Dial("unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &syncTransport{t: t, conn: conn, in: bufio.NewReader(conn), now: func() time.Duration { return 0 }}
}

// Do implements redisclient.Transport.
func (w *syncTransport) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	fate := arrives
	if w.fate != nil {
		fate = w.fate(cmd)
	}
	switch fate {
	case notSent:
	case replyLost:
		w.roundTrip(cmd)
	case runsLate:
		own := append([]byte(nil), cmd...)
		w.delayed = append(w.delayed, func() { w.roundTrip(own) })
	default:
		done(now, w.roundTrip(cmd), nil)
	}
}

// roundTrip sends a command and returns its raw reply.
func (w *syncTransport) roundTrip(cmd []byte) []byte {
	w.t.Helper()
	w.sent++
	w.bytes += len(cmd)
	if _, err := w.conn.Write(cmd); err != nil {
		w.t.Fatal(err)
	}
	reply := readReply(w.t, w.in)
	if w.seen != nil {
		w.seen(reply)
	}
	if w.ran != nil {
		w.ran(cmd, reply)
	}
	return reply
}

// deliver runs the delayed commands.
func (w *syncTransport) deliver() {
	for _, f := range w.delayed {
		f()
	}
	w.delayed = nil
}

// memory is an lb.KV.
type memory struct {
	vals map[string][]byte
	cas  map[string]uint32
}

func newMemory() *memory { return &memory{vals: map[string][]byte{}, cas: map[string]uint32{}} }

func (m *memory) Get(key string) ([]byte, uint32, error) {
	v, ok := m.vals[key]
	if !ok {
		return nil, 0, lb.ErrNotFound
	}
	return append([]byte(nil), v...), m.cas[key], nil
}

func (m *memory) Set(key string, val []byte, cas uint32) error {
	if cas != 0 && cas != m.cas[key] {
		return lb.ErrMismatch
	}
	m.vals[key] = append([]byte(nil), val...)
	m.cas[key]++
	return nil
}
