package redisclient_test

import (
	"bytes"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/redisclient"
)

// faultyTransport is a transport that loses, delays, reorders and repeats commands and replies. Delayed things happen
// when step or heal is called.
type faultyTransport struct {
	conn    *syncTransport
	rt      *rapid.T
	percent int      // of the commands that have a fault
	kinds   []string // of faults that happen, nil for all
	delayed []func(now time.Duration)
	sent    func(cmd []byte) // is called for each command, whatever happens to it
}

// faults are what may happen to a command.
var faults = []string{
	"command lost",
	"reply lost",
	"command delayed, reply lost",
	"reply delayed",
	"command delayed",
	"run twice, answered once",
	"run and answered, and run again later",
	"connection refused",
	"connection broken after the command",
}

// Do implements redisclient.Transport.
func (f *faultyTransport) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	cmd = slices.Clone(cmd)
	if f.sent != nil {
		f.sent(cmd)
	}
	if f.percent == 0 || rapid.IntRange(0, 99).Draw(f.rt, "luck") < 100-f.percent {
		done(now, f.conn.roundTrip(cmd), nil)
		return
	}
	kinds := f.kinds
	if kinds == nil {
		kinds = faults
	}
	f.fail(now, rapid.SampledFrom(kinds).Draw(f.rt, "fault"), cmd, done)
}

// fail has the fault happen to a command.
func (f *faultyTransport) fail(now time.Duration, fault string, cmd []byte, done redisclient.Done) {
	switch fault {
	case "command lost":
	case "reply lost":
		f.conn.roundTrip(cmd)
	case "command delayed, reply lost":
		f.delay(func(time.Duration) { f.conn.roundTrip(cmd) })
	case "reply delayed":
		reply := f.conn.roundTrip(cmd)
		f.delay(func(now time.Duration) { done(now, reply, nil) })
	case "command delayed":
		f.delay(func(now time.Duration) { done(now, f.conn.roundTrip(cmd), nil) })
	case "run twice, answered once":
		done(now, f.runTwice(cmd), nil)
	case "run and answered, and run again later":
		done(now, f.conn.roundTrip(cmd), nil)
		f.delay(func(time.Duration) { f.conn.roundTrip(cmd) })
	case "connection refused":
		done(now, nil, redisclient.ErrUnreachable)
	case "connection broken after the command":
		f.conn.roundTrip(cmd)
		done(now, nil, redisclient.ErrUnreachable)
	}
}

// runTwice runs a command twice and returns the second reply. That of a reservation, or a task, must be the
// same both times.
func (f *faultyTransport) runTwice(cmd []byte) []byte {
	first, second := f.conn.roundTrip(cmd), f.conn.roundTrip(cmd)
	if isGrant(first) && !bytes.Equal(first, second) {
		f.rt.Fatalf("a repeated reservation is answered with %q and then %q", first, second)
	}
	return second
}

// isGrant reports whether the reply is that of a reservation, or a task, that was granted: its length is not one of
// other replies.
func isGrant(reply []byte) bool {
	v, _, err := redisclient.Parse(reply)
	return err == nil && v.Kind == redisclient.Bulk && slices.Contains([]int{14, 19, 46}, len(v.Str))
}

func (f *faultyTransport) delay(run func(now time.Duration)) { f.delayed = append(f.delayed, run) }

// step has some of the delayed things happen, in any order.
func (f *faultyTransport) step(now time.Duration) {
	if len(f.delayed) == 0 {
		return
	}
	for range min(rapid.IntRange(0, 2).Draw(f.rt, "delayed things that happen"), len(f.delayed)) {
		f.happen(now)
	}
}

// heal ends the faults. All delayed things happen now, in any order.
func (f *faultyTransport) heal(now time.Duration) {
	f.percent = 0
	for len(f.delayed) > 0 {
		f.happen(now)
	}
}

func (f *faultyTransport) happen(now time.Duration) {
	i := rapid.IntRange(0, len(f.delayed)-1).Draw(f.rt, "delayed thing")
	run := f.delayed[i]
	f.delayed = slices.Delete(f.delayed, i, i+1)
	run(now)
}
