package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// manualTransport is a transport whose replies come from the test, in any order.
type manualTransport struct {
	sent []string // the first word of each command, and the node in front if it is not the configured one
	cmds [][]byte
	done []redisclient.Done
}

func (m *manualTransport) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	m.record("", cmd, done)
}

func (m *manualTransport) record(where string, cmd []byte, done redisclient.Done) {
	v, _, err := redisclient.Parse(cmd)
	if err != nil {
		panic(err)
	}
	m.sent = append(m.sent, where+string(v.Items[0].Str))
	m.cmds = append(m.cmds, bytes.Clone(cmd))
	m.done = append(m.done, done)
}

// answer answers the command that was sent as number i.
func (m *manualTransport) answer(now time.Duration, i int, reply string) {
	m.done[i](now, []byte(reply), nil)
}

func (m *manualTransport) wantSent(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(m.sent, " "); got != want {
		t.Fatalf("sent %q, want %q", got, want)
	}
}

// manualRedirector is a manual transport that reaches other nodes.
type manualRedirector struct{ manualTransport }

func (r *manualRedirector) DoAt(_ time.Duration, node string, asking bool, cmd []byte, done redisclient.Done) {
	if asking {
		node += "?"
	}
	r.record(node+"/", cmd, done)
}

// result is how a reservation ended.
type result struct {
	calls int
	grant lb.Grant
	err   error
}

// set is the callback of a reservation.
func (r *result) set(g lb.Grant, err error) { *r = result{r.calls + 1, g, err} }

func (r *result) String() string {
	switch {
	case r.calls == 0:
		return "waits"
	case r.calls > 1:
		return fmt.Sprintf("answered %d times", r.calls)
	case r.err != nil:
		return redisclient.Cause(r.err)
	}
	return fmt.Sprintf("granted %d", r.grant.Index)
}

func (r *result) want(t *testing.T, want string) {
	t.Helper()
	if got := r.String(); got != want {
		t.Fatalf("the reservation: %s, %v; want %s", got, r.err, want)
	}
}

const manualTimeout = 20 * time.Millisecond

func newManualStore(tr redisclient.Transport, kv lb.KV) *redisclient.Store {
	return redisclient.New(tr, redisclient.Options{Owner: 1, TTL: storetest.TTL, Timeout: manualTimeout, KV: kv})
}

// newStore returns the store of an owner with shared memory of its own.
func newStore(tr redisclient.Transport, owner uint64, timeout time.Duration) *redisclient.Store {
	return redisclient.New(tr, redisclient.Options{
		Owner: owner, TTL: storetest.TTL, Timeout: timeout, KV: newMemory(),
	})
}

var manualPlan = storetest.Even(storetest.Addrs(2))

func reserve(s lb.Store, now time.Duration, id lb.LeaseID) *result {
	r := &result{}
	s.Reserve(now, id, manualPlan, r.set)
	return r
}

// newOpenedStore returns a store that has sent its list of candidates, and clears what the transport has recorded of
// that.
func newOpenedStore(t *testing.T, tr redisclient.Transport, m *manualTransport, kv lb.KV) *redisclient.Store {
	t.Helper()
	s := newManualStore(tr, kv)
	r := reserve(s, 0, 1000)
	m.answer(0, 0, ":1\r\n")
	m.answer(0, 1, grantReply)
	r.want(t, "granted 1")
	*m = manualTransport{}
	return s
}

// promptReply is what reserve.lua answers to a prompt.
func promptReply(candidate uint16, requests uint32, tokens uint64, cached byte, counted uint32) string {
	b := binary.LittleEndian.AppendUint16([]byte("$19\r\n"), candidate)
	b = binary.LittleEndian.AppendUint32(b, requests)
	b = append(binary.LittleEndian.AppendUint64(b, tokens), cached)
	return string(binary.LittleEndian.AppendUint32(b, counted)) + "\r\n"
}

const (
	grantReply  = "$14\r\n\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\r\n"
	noScript    = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	noPerm      = "-NOPERM no\r\n"
	loadedReply = "$3\r\nabc\r\n"
)
