package vm

import (
	"time"

	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stores"
)

// The gateway ticks each configuration by a timer of its own, typically every 100 ms. While a request waits for Redis,
// the timer of the newest configuration is set to the earliest deadline. What happens then is described in
// redisclient/late.go.

const (
	// firstTick is when the first tick of a configuration comes: until the endpoints are known, requests are balanced
	// natively and no cap applies.
	firstTick = 10 * time.Millisecond
	// maxLate is how late a tick may be without deadlines being moved. A later tick shows that the worker was busy with
	// other requests. Then deadlines move by the delay plus maxLate, because answers that have arrived in that time are
	// read only after this tick.
	maxLate = 4 * time.Millisecond
)

// ticks is the part of a VM that decides when it is ticked and what is due then.
type ticks struct {
	*host.Env
	newest        func() *Ticker // that of the configuration that came last, nil when none is in force
	moved         bool           // deadlines were moved because the last tick was late
	lastHeartbeat time.Duration
}

// Ticker is the timer of one configuration.
type Ticker struct {
	context uint32 // the gateway's, of the configuration
	period  time.Duration
	due     time.Duration // when its next tick comes, 0 before it is set
}

// late returns by how much deadlines have to be moved because the tick is late, 0 for not at all. They are not moved
// twice in a row: a worker that is always busy must give up, too.
func (t *ticks) late(of *Ticker, now time.Duration) time.Duration {
	if of != t.newest() || of.due == 0 {
		return 0
	}
	late := now - of.due
	if t.moved = late > maxLate && !t.moved; t.moved {
		return late + maxLate
	}
	return 0
}

// wakeAt has a tick come soon after the given time.
func (t *ticks) wakeAt(now, at time.Duration) {
	if of := t.newest(); of != nil && at < of.due {
		t.Set(of, now, at-now)
	}
}

// rearm sets the timer whose tick this is: to the next deadline, 0 for none, if it is that of the newest configuration.
func (t *ticks) rearm(of *Ticker, now, next time.Duration) {
	of.due = now + of.period
	wait := process.TickPeriod
	if next > 0 && of == t.newest() {
		wait = min(wait, next-now)
	}
	if wait = wholeMillis(wait); wait != of.period {
		t.Set(of, now, wait)
	}
}

// Set has the configuration ticked after the given time, and from then on as often.
func (t *ticks) Set(of *Ticker, now, wait time.Duration) {
	wait = wholeMillis(wait)
	if err := t.GW.SetTick(of.context, wait); err != nil {
		t.GW.Log(host.Warn, "no ticks: "+err.Error())
		return
	}
	of.period, of.due = wait, now+wait
}

// due reports whether what is done at every tick is due. Several configurations tick a VM more often than needed.
func (t *ticks) due(now time.Duration) bool {
	if now-t.LastTick < process.TickPeriod/2 {
		return false
	}
	t.LastTick = now
	return true
}

// heartbeatDue reports whether what is done at every heartbeat is due.
func (t *ticks) heartbeatDue(now time.Duration) bool {
	if now-t.lastHeartbeat < stores.HeartbeatPeriod {
		return false
	}
	t.lastHeartbeat = now
	return true
}

// wholeMillis rounds up to what a timer can be set to.
func wholeMillis(d time.Duration) time.Duration {
	return max(time.Millisecond, (d+time.Millisecond-1)/time.Millisecond*time.Millisecond)
}
