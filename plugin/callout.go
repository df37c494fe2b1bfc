package main

import "github.com/warmgate/warmgate/plugin/core"

// callOut makes a call in the name of the newest configuration: the gateway answers it through that. send receives a
// function in which to handle the answer.
func callOut(what string, send func(run func(f func())) error) error {
	p := theVM.Newest()
	if p == nil {
		return core.ErrNoConfiguration
	}
	var err error
	asPlugin(p.Context(), func() { err = send(p.Answer(what)) })
	if err == nil {
		p.CallSent()
	}
	return err
}
