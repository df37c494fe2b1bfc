package host

import (
	"reflect"
	"runtime"
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Env is what every part of a VM needs: the gateway, its clock and its statistics.
type Env struct {
	GW       Gateway
	Kind     config.Host // of that gateway
	Stats    *stats.Registry
	LastTick time.Duration // when what is due at every tick was done last
	clock    time.Duration // when it was last read, 0 for never: see Clock
	current  uint32        // the gateway's context that the running callback is for
	Serves   bool          // it has had requests: it is a worker's
}

// Clock returns a time that is at most a tick old. Health and leases need no better, and reading the gateway's clock
// costs a request as much as any other call.
func (e *Env) Clock() time.Duration {
	if e.clock == 0 {
		e.clock = e.GW.Now()
	}
	return e.clock
}

// ReadClock reads the gateway's clock.
func (e *Env) ReadClock() time.Duration {
	e.clock = e.GW.Now()
	return e.clock
}

// Context returns the gateway's context that the running callback is for.
func (e *Env) Context() uint32 { return e.current }

// Callback runs one of the gateway's callbacks in the context that it is for.
func (e *Env) Callback(context uint32, name string, f, recovered func()) {
	e.current = context
	e.Guard(name, f, recovered)
}

// RunAs runs f in the context of a request from outside its callbacks, and returns to that of the running callback.
func (e *Env) RunAs(context uint32, name string, f, recovered func()) {
	outside := e.current
	e.current = context
	e.GW.Enter(context)
	e.Guard(name, f, recovered)
	e.current = outside
	e.GW.Enter(outside)
}

// Guard runs f. A panic that leaves a callback costs the gateway every request of this worker, so it ends here: it is
// counted and logged, and recovered, unless nil, brings the callback to a safe end. The text of a panic may quote a
// request, so only its type is logged unless it is a runtime error.
func (e *Env) Guard(callback string, f, recovered func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		e.panicked(callback, p)
		if recovered == nil {
			return
		}
		defer func() {
			if p := recover(); p != nil {
				e.panicked(callback+" (recovering)", p)
			}
		}()
		recovered()
	}()
	f()
}

func (e *Env) panicked(callback string, p any) {
	text := "a value of type " + reflect.TypeOf(p).String()
	if err, ok := p.(runtime.Error); ok {
		text = err.Error()
	}
	e.GW.Log(Error, "caught a panic in "+callback+": "+text)
	e.Stats.Count(stats.Panics, 1)
}
