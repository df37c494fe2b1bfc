package core

import (
	"reflect"
	"runtime"
)

// guard runs one callback. A panic in it would cost the gateway every request of this worker, so it ends here: it is
// counted and logged, and recovered brings the callback to a safe end. The text of a panic may quote a request, so only
// its type is logged unless it is a runtime error.
func (v *VM) guard(callback string, f, recovered func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		v.panicked(callback, p)
		if recovered == nil {
			return
		}
		defer func() {
			if p := recover(); p != nil {
				v.panicked(callback+" (recovering)", p)
			}
		}()
		recovered()
	}()
	f()
}

func (v *VM) panicked(callback string, p any) {
	text := "a value of type " + reflect.TypeOf(p).String()
	if err, ok := p.(runtime.Error); ok {
		text = err.Error()
	}
	v.gw.Log(Error, "caught a panic in "+callback+": "+text)
	v.stats.count(statPanics, 1)
}
