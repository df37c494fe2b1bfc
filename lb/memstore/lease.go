package memstore

import "github.com/warmgate/warmgate/lb"

type lease struct {
	scope   *scope
	row     int
	tokens  int64
	grant   lb.Grant
	charged bool // by this store: see Settle
	turn    turn
}

// turn is what a request that has waited was counted for in the queue.
type turn struct {
	class     uint16
	tenant    uint64
	tokens    int64 // 0: it has not waited
	corrected int64 // to be added to what its class and tenant were served: see NoteServed
}

// turnOf returns the turn of a request that was counted for so many tokens. One that was granted an endpoint as soon as
// it entered the queue has none: it has taken nothing from those that wait.
func turnOf(w *waiter, tokens int64) turn {
	if !w.waited {
		return turn{}
	}
	return turn{class: w.plan.Wait.Class.ID, tenant: w.plan.Wait.Tenant, tokens: max(tokens, 1)}
}
