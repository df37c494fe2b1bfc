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

	token        uint32
	timeout      *fakehost.Timer
	done         bool
	over         func() bool // delivers the reply, unless the context is gone
	replyHeaders fakehost.Headers
	replyBody    []byte
}

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
	c.replyHeaders, c.replyBody = h, body
	return c.over()
}
