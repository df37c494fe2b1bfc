package main

import (
	"errors"
	"time"
	"unsafe"

	"github.com/warmgate/warmgate/plugin/core"
)

// calls are those that wait for an answer, by the gateway's number of the call.
type calls[F any] map[uint32]callBy[F]

// callBy is a call in the name of a configuration, and what is to be done with its answer.
type callBy[F any] struct {
	context  uint32
	answered F
}

// take removes a call, and returns what is to be done with its answer.
func (c calls[F]) take(call uint32) (answered F, known bool) {
	by, known := c[call]
	delete(c, call)
	return by.answered, known
}

// drop forgets the calls of a context.
func (c calls[F]) drop(context uint32) {
	for call, by := range c {
		if by.context == context {
			delete(c, call)
		}
	}
}

var (
	httpCalls  = calls[func(headers, size int)]{}
	redisCalls = calls[func(status, size int)]{}
)

// callID is where the host writes the number of a call.
var callID uint32

// callOut makes a call in the name of the newest configuration: the gateway passes its answer to that, also when the
// request has ended since that the call is for. send receives a function in which to handle the answer.
func callOut(what string, send func(context uint32, run func(f func())) error) error {
	p := theVM.Newest()
	if p == nil {
		return core.ErrNoConfiguration
	}
	var err error
	asPlugin(p.Context(), func() { err = send(p.Context(), p.Answer(what)) })
	if err == nil {
		p.CallSent()
	}
	return err
}

// errNoCluster says what statusBadArgument means in answer to a call.
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
	return callOut(what, func(context uint32, run func(func())) error {
		noTrailers := packPairs(nil)
		st := proxyHTTPCall(c.cluster, packPairs(c.headers), text(c.body), noTrailers, uint32(c.within.Milliseconds()),
			unsafe.Pointer(&callID))
		switch st {
		case statusOK:
		case statusBadArgument:
			return errNoCluster
		default:
			return st
		}
		httpCalls[callID] = callBy[func(int, int)]{context, func(headers, size int) {
			run(func() { answered(headers, size) })
		}}
		return nil
	})
}

//go:wasmexport proxy_on_http_call_response
func onHTTPCallResponse(_, call, headers, size, _ uint32) {
	if answered, known := httpCalls.take(call); known {
		answered(int(headers), int(size))
	}
}

//go:wasmexport proxy_on_redis_call_response
func onRedisCallResponse(_, call, status, size uint32) {
	if answered, known := redisCalls.take(call); known {
		answered(int(status), int(size))
	}
}

// callHeader returns a header of the answer to a call, "" if there is none.
func callHeader(key string) string { return name(header(callHeaders, key)) }

// callText returns the body of the answer to a call, up to max bytes.
func callText(max int) []byte { return buffer(callBody, 0, max, nil) }
