package core

import "time"

// The gateway ticks each configuration by a timer of its own. A tick usually comes every 100 ms; while a request waits for
// a shared store, the timer of the newest configuration is set to the earliest deadline.

// maxLate is how late a tick may be without a reason. Later than that the worker was busy with other requests, and answers
// that have come meanwhile are read only after this tick: as long again is left for that.
const maxLate = 4 * time.Millisecond

// postponeLate moves the deadlines when the tick is late, but not twice in a row: a worker that is always busy must give up, too.
func (v *VM) postponeLate(p *Plugin, now time.Duration) {
	if p != v.Newest() || p.due == 0 {
		return
	}
	late := now - p.due
	if v.postponed = late > maxLate && !v.postponed; v.postponed {
		v.postpone(late + maxLate)
	}
}

// wakeAt sees to it that a tick comes soon after the given time.
func (v *VM) wakeAt(now, at time.Duration) {
	if p := v.Newest(); p != nil && at < p.due {
		v.setTick(p, now, at-now)
	}
}

// rearm sets the timer of the configuration whose tick this is: to the next deadline, 0 for none, if it is the newest.
func (v *VM) rearm(p *Plugin, now, next time.Duration) {
	p.due = now + p.period
	wait := tickPeriod
	if next > 0 && p == v.Newest() {
		wait = min(wait, next-now)
	}
	if wait = wholeMillis(wait); wait != p.period {
		v.setTick(p, now, wait)
	}
}

// setTick has the configuration ticked after the given time, and as often.
func (v *VM) setTick(p *Plugin, now, wait time.Duration) {
	wait = wholeMillis(wait)
	if err := v.gw.SetTick(p.context, wait); err != nil {
		v.gw.Log(Warn, "no ticks: "+err.Error())
		return
	}
	p.period, p.due = wait, now+wait
}

// wholeMillis rounds up to what a timer can be set to.
func wholeMillis(d time.Duration) time.Duration {
	return max(time.Millisecond, (d+time.Millisecond-1)/time.Millisecond*time.Millisecond)
}
