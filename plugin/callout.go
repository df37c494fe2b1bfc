package main

import (
	"errors"
	"time"
)

// Calls out are made in the name of a configuration: the gateway answers them through it, and forgets those whose
// configuration it has dropped.

// farewell is how long a configuration that is done may be kept for the answers to its calls.
const farewell = 10 * time.Second

var errNoConfiguration = errors.New("no configuration is in force")

// callOut makes a call in the name of the newest configuration. send gets a function in which to handle the answer.
func callOut(what string, send func(run func(f func())) error) error {
	p := theVM.newest()
	if p == nil {
		return errNoConfiguration
	}
	var err error
	asPlugin(p.context, func() {
		err = send(func(f func()) {
			callback(p.context, what, func() { p.answered(f) }, nil)
		})
	})
	if err == nil {
		p.calls++
	}
	return err
}

// answered handles the answer to a call of the configuration.
func (p *plugin) answered(f func()) {
	p.calls--
	defer p.vm.depart(p)
	f()
}

// leave is called when the gateway is done with a configuration. It returns false when that is to be kept for a while.
func (v *vm) leave(p *plugin) bool {
	v.retire(p)
	if p.calls == 0 {
		return true
	}
	p.left = v.read()
	return false
}

// depart lets the gateway drop a configuration that was kept for the answers to its calls.
func (v *vm) depart(p *plugin) {
	if p.left == 0 || p.calls > 0 && v.clock-p.left < farewell {
		return
	}
	p.left = 0
	v.gw.Leave(p.context)
}
