package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// claim is a reservation at a store until that has answered: the embedded store answers at once; Redis, or a queue,
// takes a while, in which the gateway holds the request.
type claim struct {
	id         lb.LeaseID // 0 for none
	inCallback bool       // the request's own callback goes on with the answer
	done       bool       // it has come
	grant      lb.Grant
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
func (c *claim) answer(g lb.Grant, err error) { c.done, c.grant, c.err = true, g, err }

// ask has the store of the lease answer the claim, under its id, with the plan. It reports whether it has at once; else
// finish runs when it does, unless the request is over then, or the claim has another id. One answer of Redis, or the
// end of another request, may serve several requests: a panic in one of them must not keep the others from theirs.
func (pl *placement) ask(now time.Duration, c *claim, plan *lb.Plan, name string, finish func() host.Action) bool {
	id := c.id
	c.done = false
	return c.during(func() {
		pl.lease.store.Reserve(now, id, plan, func(g lb.Grant, err error) {
			if c.id != id {
				return
			}
			if c.answer(g, err); !c.inCallback && pl.phase == phaseReserving {
				pl.plugin.vm.RunAs(pl.context, name, func() { pl.goOn(finish()) }, pl.grantRecovered)
			}
		})
	})
}

// goOn lets a request that was held go on, if it is to be forwarded.
func (pl *placement) goOn(a host.Action) {
	if a == host.Proceed {
		pl.Resume()
	}
}

// grantRecovered ends an answer that panicked. There is no callback of the request to let it continue.
func (pl *placement) grantRecovered() {
	defer pl.Resume()
	pl.recovered()
}
