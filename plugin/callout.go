package main

import (
	"errors"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/warmgate/warmgate/plugin/vm"
)

// callOut makes a call in the name of the newest configuration: the gateway passes its answer to that, also when the
// request has ended since that the call is for. send receives a function in which to handle the answer.
func callOut(what string, send func(run func(f func())) error) error {
	p := theVM.Newest()
	if p == nil {
		return vm.ErrNoConfiguration
	}
	var err error
	asPlugin(p.Context(), func() { err = send(p.Answer(what)) })
	if err == nil {
		p.CallSent()
	}
	return err
}

// errNoCluster says what types.ErrorStatusBadArgument means in answer to a call.
var errNoCluster = errors.New(
	"the gateway answered a host call with status 2: it has no cluster of that name, or not yet")

// httpCall is a request that the plugin makes itself.
type httpCall struct {
	cluster string
	headers [][2]string
	body    []byte
	within  time.Duration
}

// send makes the call. answered is called in the name of the configuration, with the number of headers of the answer, 0
// if there was none in time, and the size of its body.
func (c *httpCall) send(what string, answered func(headers, size int)) error {
	return callOut(what, func(run func(func())) error {
		_, err := proxywasm.DispatchHttpCall(c.cluster, c.headers, c.body, nil, uint32(c.within.Milliseconds()),
			func(headers, size, _ int) { run(func() { answered(headers, size) }) })
		if errors.Is(err, types.ErrorStatusBadArgument) {
			return errNoCluster
		}
		return err
	})
}

// callHeaders returns the headers of the answer to a call, names in lower case: valid until the next host call.
func callHeaders() [][2]string {
	lent = scratch[:]
	headers, _ := proxywasm.GetHttpCallResponseHeaders() // none: the same
	lent = nil
	return headers
}

// callHeader returns one of them, "" if it is not there.
func callHeader(key string) string {
	for _, h := range callHeaders() {
		if h[0] == key {
			return h[1]
		}
	}
	return ""
}

// callText returns the body of the answer to a call, up to max bytes, nil if there is none.
func callText(max int) []byte {
	b, err := proxywasm.GetHttpCallResponseBody(0, max)
	if err != nil {
		return nil
	}
	return b
}
