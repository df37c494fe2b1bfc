package placement

import "github.com/warmgate/warmgate/lb"

// pending is a reservation at a store until that has answered: the embedded store answers at once; Redis, or a queue,
// takes a while, in which the gateway holds the request.
type pending struct {
	id         lb.LeaseID // 0 for none
	inCallback bool       // the request's own callback goes on with the answer
	done       bool       // it has come
	Grant      lb.Grant
	err        error
}

// during runs f in the request's own callback, and reports whether the answer has come, then or before.
func (p *pending) during(f func()) (answered bool) {
	p.inCallback = true
	f()
	p.inCallback = false
	return p.done
}

// answer takes over what the store has answered.
func (p *pending) answer(g lb.Grant, err error) { p.done, p.Grant, p.err = true, g, err }
