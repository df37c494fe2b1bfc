package gateway

import (
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/waiting"
	"github.com/warmgate/warmgate/e2e/lab"
)

// leaseTTL is how long the plugin waits for an owner of leases before it returns them.
const leaseTTL = 5 * time.Second

// lostVM is the statistic of VMs that were lost.
var lostVM = []string{"wasm.warmgate.vm_reload_success"}

// vmLost ends the VM of one worker in a way that the plugin cannot recover from. Its streams are lost with it; those of
// the other workers go on, the worker gets a new VM, and what the old one had counted comes back within the TTL and a
// second.
func vmLost(how string) lab.Scene {
	return lab.Scene{Name: "VM lost: " + how, Lost: lostVM, Play: func(a *lab.Act) {
		const reloads = `^wasm\.warmgate\.vm_reload_success$`
		before, open := a.Sum(reloads), a.Streams.Len()
		status, at := crash(a, how)
		lab.FailIf(status == http.StatusOK, "the VM has survived the request that ends it")
		lab.Check(a.Site.AwaitReady(a.Ctx))
		a.NoteMS("serving_after_ms", time.Since(at))
		returned := awaitReturn(a, at)
		lab.FailIf(a.MayCut == 0 || a.MayCut >= open, "%d of %d streams were cut, want those of one worker", a.MayCut,
			open)
		// Gauges are up to a second old, and a busy machine may take its time.
		lab.FailIf(returned > leaseTTL+2*time.Second+lab.Busy, "the leases of the lost VM came back after %v", returned)
		more := a.Sum(reloads) - before
		lab.FailIf(more != 1, "%v VMs were reloaded, want 1", more)
		a.Play(lab.Load{Rate: a.Rate, Span: a.Span / 5}, nil)
	}}
}

// crash ends the VM of the worker that gets the request. It returns what that was answered, and when.
func crash(a *lab.Act, how string) (status int, at time.Time) {
	r := lab.Must(audit.Ask(a.Ctx, a.Site.Gateway.URL()+audit.EchoPath, false,
		http.Header{"X-Warmgate-Chaos": {how}}))
	a.Result.Requests++
	a.Result.Excused++
	return r.Status, time.Now()
}

// awaitReturn waits until the streams of the VM that was lost are cut and what it had counted is returned, and returns
// how long after the loss that was.
func awaitReturn(a *lab.Act, lost time.Time) time.Duration {
	// Envoy cuts the streams of a dead VM when their next token comes.
	a.Until(func() { lab.FailIf(a.Streams.Failed("") == 0, "no stream was cut") })
	a.Sleep(10 * audit.Step)
	a.Agreed()
	returned := time.Since(lost)
	a.NoteMS("returned_after_ms", returned)
	a.MayCut = a.Streams.Failed("")
	a.Note("streams_cut", float64(a.MayCut))
	return returned
}

// vmLostWaiting ends the VM of one worker while requests wait. Those of that worker are lost with it, and no others;
// what they were granted is free for the others within the TTL.
func vmLostWaiting(a *lab.Act) {
	var l waiting.Line
	defer l.Leave()
	l.LineUp(a, a.Crowd)
	_, at := crash(a, "fatal")
	lab.Check(a.Site.SetSpeed(1))
	lost := awaitLost(a, &l)
	returned := awaitReturn(a, at)
	lab.FailIf(returned > leaseTTL+2*time.Second+4*lab.Busy, "all was counted right only after %v", returned)
	l.Leave()
	lab.Each(func() { a.Count(l.Tally(), func(audit.Tally) int { return lost }) }, func() { waiting.Emptied(a) })
}

// awaitLost waits until only the requests of the lost VM are left, and returns how many these are. Most of them get no
// answer before their connection has been idle for too long.
func awaitLost(a *lab.Act, l *waiting.Line) int {
	waiting.Await(a, 0, a.Site.Gateway)
	a.Sleep(2 * time.Second) // for answers that are under way
	tally := l.Tally()
	lost := tally.Sent - tally.OK
	a.Note("waiters_lost", float64(lost))
	lab.FailIf(lost == 0 || tally.OK == 0, "%d of %d requests are lost, want those of one worker", lost, tally.Sent)
	return lost
}
