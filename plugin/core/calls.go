package core

import (
	"errors"
	"time"
)

// Calls out are made in the name of a configuration: the gateway answers them through it, and drops those whose
// configuration it has dropped.

// maxLinger is how long a configuration that is done may be kept for the answers to its calls.
const maxLinger = 10 * time.Second

// ErrNoConfiguration reports that there is no configuration in whose name a call could be made.
var ErrNoConfiguration = errors.New("no configuration is in force")

// Newest returns the configuration that came last, nil when none is in force.
func (v *VM) Newest() *Plugin {
	if len(v.inForce) == 0 {
		return nil
	}
	return v.inForce[len(v.inForce)-1]
}

// Context returns the gateway's context of the configuration.
func (p *Plugin) Context() uint32 { return p.context }

// Answer returns the function in which to handle the answer to a call that is made in the name of the configuration.
func (p *Plugin) Answer(what string) func(f func()) {
	return func(f func()) {
		p.vm.callback(p.context, what, func() { p.handleAnswer(f) }, nil)
	}
}

// CallSent notes that such a call was sent.
func (p *Plugin) CallSent() { p.calls++ }

// handleAnswer handles the answer to a call of the configuration.
func (p *Plugin) handleAnswer(f func()) {
	p.calls--
	defer p.vm.dropIfDone(p)
	f()
}

// done is called when the gateway is done with a configuration. It returns false when the gateway must keep it for a
// while.
func (v *VM) done(p *Plugin) bool {
	v.retire(p)
	if p.calls == 0 {
		return true
	}
	p.doneAt = v.ReadClock()
	return false
}

// dropIfDone lets the gateway drop a configuration that was kept for the answers to its calls.
func (v *VM) dropIfDone(p *Plugin) {
	if p.doneAt == 0 || p.calls > 0 && v.clock-p.doneAt < maxLinger {
		return
	}
	p.doneAt = 0
	v.gw.PluginDone(p.context)
}
