package higresshost

import (
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// HTTPCall is one http_call of a plugin. It belongs to the plugin context, not to the stream that made it.
type HTTPCall struct {
	Cluster string
	Headers fakehost.Headers
	Body    []byte
	Timeout time.Duration // 0 = none

	gw           *Gateway
	root         *root
	token        uint32
	timeout      *fakehost.Timer
	done         bool
	replyHeaders fakehost.Headers
	replyBody    []byte
}

// dispatchHTTP starts a call. A cluster that the gateway does not know and missing pseudo headers are bad arguments.
// The cluster's endpoints play no part: the test answers.
func (g *Gateway) dispatchHTTP(c *HTTPCall) status {
	if g.host.Clusters[c.Cluster] == nil || !c.Headers.Has(":path") || !c.Headers.Has(":method") ||
		!c.Headers.Has(":authority") {
		return statusBadArgument
	}
	g.nextCall++
	c.token = g.nextCall
	if c.Timeout > 0 {
		c.timeout = g.clock.After(c.Timeout, func() { c.Fail() })
	}
	g.httpCalls = append(g.httpCalls, c)
	if g.OnHTTPCall != nil {
		g.post(func() { g.OnHTTPCall(c) })
	}
	return statusOK
}

// HTTPCalls returns the calls that have no answer yet, oldest first.
func (g *Gateway) HTTPCalls() []*HTTPCall { return append([]*HTTPCall(nil), g.httpCalls...) }

// Respond answers the call. It reports false if the call is over: answered, timed out, or its context is gone.
func (c *HTTPCall) Respond(code int, body []byte, headers ...string) bool {
	h := append(fakehost.H(":status", strconv.Itoa(code)), fakehost.H(headers...)...)
	return c.deliver(h, body)
}

// Fail breaks the call: the callback runs without headers and body, as after a reset or a timeout.
func (c *HTTPCall) Fail() bool { return c.deliver(nil, nil) }

func (c *HTTPCall) deliver(h fakehost.Headers, body []byte) bool {
	if c.done {
		return false
	}
	c.done = true
	c.timeout.Stop()
	for i, other := range c.gw.httpCalls {
		if other == c {
			c.gw.httpCalls = append(c.gw.httpCalls[:i:i], c.gw.httpCalls[i+1:]...)
			break
		}
	}
	if !c.root.alive() {
		return false
	}
	c.gw.drive(func() {
		c.replyHeaders, c.replyBody = h, body
		c.root.httpReply = c
		c.root.vm.callback(c.root.ctx, "proxy_on_http_call_response", uint64(c.token), uint64(len(h)),
			uint64(len(body)), 0)
		c.root.httpReply = nil
	})
	return true
}
