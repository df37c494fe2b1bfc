package vllmsim

import (
	"context"
	"sync"
	"time"
)

// maxLag is how far the engine may fall behind real time and still catch up. On a loaded
// machine timers fire late; without catching up the simulated server would become slower than
// it is configured to be.
const maxLag = 50 * time.Millisecond

// engine runs a scheduler in real time.
type engine struct {
	start time.Time
	fleet *Fleet
	id    int // in the fleet

	mu     sync.Mutex
	sched  *scheduler
	tuning Tuning
	wake   chan struct{}
}

func newEngine(cfg Config) *engine {
	e := &engine{
		start:  time.Now(),
		fleet:  cfg.Fleet,
		sched:  newScheduler(cfg, newStats(cfg.MaxModelLen, 0)),
		tuning: cfg.Tuning,
		wake:   make(chan struct{}, 1),
	}
	if e.fleet != nil {
		e.id = e.fleet.join(e.start)
	}
	return e
}

// now is the engine's clock: time since its start.
func (e *engine) now() time.Duration { return time.Since(e.start) }

// submit queues a sequence; the error is errBusy.
func (e *engine) submit(q *sequence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.sched.add(q, e.now()); err != nil {
		return err
	}
	e.report()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return nil
}

// abort ends a sequence whose client has left.
func (e *engine) abort(q *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.abort(q, e.now())
	e.report()
}

// report passes the server's current state to the fleet. Called with the lock held.
func (e *engine) report() {
	if e.fleet == nil {
		return
	}
	s := e.sched
	e.fleet.report(e.id, fleetState{
		queueing: s.queued() > 0,
		idle:     s.idle(),
		free:     len(s.running)+len(s.waiting) < s.cfg.MaxNumSeqs && !s.starved,
	}, time.Now())
}

// run executes steps until the context ends.
func (e *engine) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due time.Duration // end of the last step
	for ctx.Err() == nil {
		st, length := e.begin()
		if len(st.work) == 0 {
			select {
			case <-e.wake:
				due = e.now()
			case <-ctx.Done():
			}
			continue
		}
		due = max(due, e.now()-maxLag) + length
		if wait := due - e.now(); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		e.finish(st)
	}
}

func (e *engine) begin() (step, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sched.idle() {
		return step{}, 0
	}
	st := e.sched.begin(e.now())
	e.report()
	return st, e.tuning.stepTime(st)
}

func (e *engine) finish(st step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.finish(st, e.now())
	e.report()
}

// leave takes the engine out of its fleet; what happens later is not reported.
func (e *engine) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fleet != nil {
		e.fleet.report(e.id, fleetState{}, time.Now())
		e.fleet = nil
	}
}

// reset forgets all counts, cached prefixes and loaded adapters. Sequences go on.
func (e *engine) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.stats = newStats(e.sched.cfg.MaxModelLen, e.now())
	e.sched.cache.forget()
	e.sched.adapters.forget()
}

func (e *engine) setTuning(t Tuning) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tuning = t
}
