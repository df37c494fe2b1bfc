package vllmsim

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// maxLag is how far the engine may fall behind real time and still catch up. On a loaded machine timers fire late;
// without catching up the simulated server would become slower than it is configured to be.
const maxLag = 50 * time.Millisecond

// runner runs an engine in real time.
type runner struct {
	start time.Time
	fleet *Fleet
	place int // in the fleet
	wake  chan struct{}

	mu     sync.Mutex
	engine *enginesim.Engine
	came   time.Duration // when a request came last that found the engine idle: it is served no earlier
}

// delivery is a request on its way from the engine to its handler.
type delivery struct {
	enginesim.Request
	produced atomic.Int64  // tokens that exist
	ended    atomic.Bool   // there will be no more; produced is final
	bell     chan struct{} // rings when one of these has changed
}

func newRunner(cfg enginesim.Config, times enginesim.Times, fleet *Fleet) *runner {
	r := &runner{start: time.Now(), engine: enginesim.New(cfg, times), fleet: fleet, wake: make(chan struct{}, 1)}
	if fleet != nil {
		r.place = fleet.join()
	}
	return r
}

// now is the engine's clock: time since its start.
func (r *runner) now() time.Duration { return time.Since(r.start) }

// do calls f with the engine, which only f uses then, and reports to the fleet what has become of it.
func (r *runner) do(f func(e *enginesim.Engine, now time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.engine, r.now())
	if e := r.engine; r.fleet != nil {
		r.fleet.report(r.place, fleetState{queueing: e.Queued() > 0, idle: e.Idle(), free: e.HasRoom()})
	}
}

// submit queues a request; the error is enginesim.ErrBusy.
func (r *runner) submit(d *delivery) (err error) {
	d.Owner, d.bell = d, make(chan struct{}, 1)
	r.do(func(e *enginesim.Engine, now time.Duration) {
		if e.Idle() {
			r.came = now
		}
		err = e.Add(&d.Request, now)
	})
	if err == nil {
		ring(r.wake)
	}
	return err
}

// run executes steps until the context ends.
func (r *runner) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due time.Duration // end of the last step
	for ctx.Err() == nil {
		var took, came time.Duration
		r.do(func(e *enginesim.Engine, now time.Duration) { took, came = e.Begin(now), r.came })
		if took == 0 {
			select {
			case <-r.wake:
				due = r.now()
			case <-ctx.Done():
			}
			continue
		}
		due = max(due, came, r.now()-maxLag) + took
		if wait := due - r.now(); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		r.do(func(e *enginesim.Engine, now time.Duration) { deliver(e.Finish(now)) })
	}
}

// deliver passes new tokens on to the handlers.
func deliver(served []*enginesim.Request) {
	for _, q := range served {
		d := q.Owner.(*delivery)
		d.produced.Store(int64(q.Generated()))
		d.ended.Store(q.Done())
		ring(d.bell)
	}
}

// ring rings a bell. It never blocks: one ring that was not heard yet is enough.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// leave takes the engine out of its fleet; what happens later is not reported.
func (r *runner) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fleet != nil {
		r.fleet.report(r.place, fleetState{})
		r.fleet = nil
	}
}
