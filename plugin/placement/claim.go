package placement

import "github.com/warmgate/warmgate/lb"

// claim is a reservation at a store until that has answered: the embedded store answers at once; Redis, or a queue,
// takes a while, in which the gateway holds the request.
type claim struct {
	id         lb.LeaseID // 0 for none
	inCallback bool       // the request's own callback goes on with the answer
	done       bool       // it has come
	Grant      lb.Grant
	err        error
}

// during runs f in the request's own callback, and reports whether the answer has come, then or before.
func (c *claim) during(f func()) (answered bool) {
	c.inCallback = true
	f()
	c.inCallback = false
	return c.done
}

// answer takes over what the store has answered.
func (c *claim) answer(g lb.Grant, err error) { c.done, c.Grant, c.err = true, g, err }
