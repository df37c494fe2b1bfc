// Package waiters is what a VM knows of its requests that wait in a queue: how much of them is held, when their stores
// are asked for them, and how other VMs wake this one.
package waiters

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
)

// Waiters is the part of a VM that looks after requests that wait in a queue: how much of them is held, when their
// stores are asked for them, and how other VMs wake this one.
//
// The step of a store that frees capacity grants it to a waiting request, of whichever VM. A VM that has granted one of
// another VM wakes that; should the call get lost, that VM finds the grant at its next tick.
type Waiters struct {
	*host.Env
	stores  *stores.Stores
	views   *views.Views
	Held    map[*Waiter]int // requests that are held, and how many bytes of each: see bytes.go
	Bytes   int             // the sum of these
	of      map[holder]int  // and that by tenant
	Beyond  []*Waiter       // held beyond the room there is, until it is known whether they wait in Redis
	Owners  int             // VMs of the gateway that count requests
	Tenants learned.Tenants // that have turns of their own in queues
	listens bool            // this VM is woken
}

// Waiter is what a VM knows of a request that waits.
type Waiter struct {
	holder
	Config    *config.Config
	Cluster   *clusters.Cluster
	Context   uint32        // the gateway's
	Rank      uint8         // of its class
	Since     time.Duration // when it was first reserved
	Until     time.Duration // when its wait is over
	PlannedAt time.Duration
	View      *lb.View // that it was planned by
	Unplanned bool     // it could not be planned by that: it waits for a plan
	Store     lb.Store
	Redis     bool       // that is one in Redis: so it may only wait for an answer
	ID        lb.LeaseID // there
	Stays     bool       // it may not go to another region: it has come from one, or has been there
	Callee    Callee
}

// Callee is what is called of a request that waits, in its context.
type Callee interface {
	PlanAgain()      // its endpoints have changed
	GiveWay()        // another request needs its memory
	GoElsewhere()    // another region may have room
	GrantRecovered() // one of these has panicked
}

// inQueue reports whether the request is in a queue. With Redis it may only wait for an answer.
func (w *Waiter) inQueue() bool { return w.Store.Waits(w.ID) }

const (
	// maxReplans is how many waiting requests are planned again in one tick. With Redis each costs two commands.
	maxReplans = 4
	// maxFirstPlans is the same of those that have had no plan yet, in a store that needs no command, and maxFirstRedis
	// in Redis: once there is something to choose from, they are not to be overtaken.
	maxFirstPlans, maxFirstRedis = 64, 16
	// capsPeriod is how often one of the requests that wait with equal caps brings the latest ones to its queue.
	capsPeriod = time.Second
	// replanAfter is how old the plan of a waiting request is at least before its endpoints are looked up again.
	replanAfter = 2 * process.TickPeriod
)

// New returns what a VM knows of its requests that wait, of which there are none yet.
func New(e *host.Env, s *stores.Stores, from *views.Views) *Waiters {
	w := &Waiters{Env: e, stores: s, views: from, Owners: 1}
	w.Held, w.of = map[*Waiter]int{}, map[holder]int{}
	w.Tenants = learned.NewTenants()
	s.Local.OnGrant = func(owner uint64) { w.wakeOther(owner, nil) }
	s.OnGrant = w.wakeOther
	return w
}

// wakeOther wakes the VM of another owner, with what a store in Redis has granted that, nil in the local store. It is
// called in the middle of a step of the store, which a panic must not break off.
func (w *Waiters) wakeOther(owner uint64, news []byte) {
	message := append(wire.Writer(nil).Uint64(owner), news...)
	w.Guard("a wake-up of another VM", func() {
		if vm := stores.LocalOwner(owner); vm != w.stores.Owner {
			w.GW.Wake(vm, message)
			return
		}
		w.Hear(w.ReadClock(), [][]byte{message}) // another store of this VM
	}, nil)
}

// Hear takes what other VMs have sent. It reports whether the local store has to be polled.
func (w *Waiters) Hear(now time.Duration, messages [][]byte) (local bool) {
	for _, m := range messages {
		in := wire.NewReader(m)
		owner := in.Uint64()
		if owner == w.stores.Owner {
			local = true
		} else if r := w.stores.OfOwner(owner); r != nil {
			r.Remote.Hear(now, in.Rest())
		}
	}
	return local
}

// CountOwners takes over how many VMs the gateway has.
func (w *Waiters) CountOwners(now time.Duration) {
	if n, err := w.stores.Local.Owners(now); err == nil {
		w.Owners = max(1, n)
	}
}

// Poll asks the stores for requests that wait, and returns when to do so again, 0 while none waits.
func (w *Waiters) Poll(now time.Duration) (next time.Duration) {
	next = w.stores.Poll(now)
	w.settle()
	if len(w.Held) > 0 {
		next = stores.Earlier(next, now+lb.PollPeriod)
	}
	return next
}

// Refresh plans requests again that wait for endpoints which have changed since, those that came first before the
// others. Of those that have equal caps one is planned again from time to time anyway: its caps count for all.
func (w *Waiters) Refresh(now time.Duration) {
	stale := w.stale(now)
	order.By(stale, byTurn)
	for _, s := range stale[:min(len(stale), mostPlans(stale))] {
		s.Cluster.CapsAt = now
		w.RunAs(s.Context, "a new plan for a waiting request", s.Callee.PlanAgain, s.Callee.GrantRecovered)
	}
}

func byArrival(a, b **Waiter) bool { return (*a).Since < (*b).Since }

// byTurn has those that have had no plan yet come first: what is open is granted to the first one that is planned. Of
// these, higher classes come first.
func byTurn(a, b **Waiter) bool {
	x, y := *a, *b
	switch {
	case x.Unplanned != y.Unplanned:
		return x.Unplanned
	case x.Unplanned && x.Rank != y.Rank:
		return x.Rank < y.Rank
	}
	return x.Since < y.Since
}

// mostPlans returns how many of those to be planned again, which are in the order of byTurn, are in this tick.
func mostPlans(stale []*Waiter) int {
	first := slices.IndexFunc(stale, func(s *Waiter) bool { return !s.Unplanned })
	if first < 0 {
		first = len(stale)
	}
	most := maxFirstPlans
	if first > 0 && stale[0].Redis {
		most = maxFirstRedis
	}
	return max(maxReplans, min(first, most))
}

// stale returns the requests to be planned again.
func (w *Waiters) stale(now time.Duration) (stale []*Waiter) {
	type source struct {
		scope string
		cfg   *config.Config
	}
	views := map[source]*lb.View{}
	hurry := false
	for s := range w.Held {
		hurry = hurry || s.Unplanned
		if !s.mayReplan(now) {
			continue
		}
		from := source{s.Scope, s.Config}
		view, seen := views[from]
		if !seen {
			w.RunAs(s.Context, "the endpoints of a waiting request", func() {
				view = w.views.Of(now, s.Scope, s.Config)
			}, nil)
			views[from] = view
		}
		// endpoints may be used again that are in the view
		due := s.Unplanned && view != nil && len(view.Endpoints) > 0 && now-s.PlannedAt >= capsPeriod
		if due || view != s.View || !seen && now-s.Cluster.CapsAt >= capsPeriod {
			stale = append(stale, s)
		}
	}
	if hurry {
		w.GW.Hurry(now)
	}
	return stale
}

// mayReplan reports whether the request may be planned again at all. One that only waits for an endpoint to be there
// may at any time, unless that needs commands.
func (w *Waiter) mayReplan(now time.Duration) bool {
	return w.Unplanned && !w.Redis || now-w.PlannedAt >= replanAfter && w.Until-now >= replanAfter
}

// ForwardWaiting has requests that wait go to other regions, those that came first before the others, as long as there
// is room: that is learned of at any time.
func (w *Waiters) ForwardWaiting(isRoom func(c *config.Config) bool) {
	var list []*Waiter
	for s := range w.Held {
		if s.Config.Regions.Forwards() && !s.Stays && s.inQueue() {
			list = append(list, s)
		}
	}
	order.By(list, byArrival)
	full := map[*config.Config]bool{} // no other region has room for its requests
	for _, s := range list {
		if full[s.Config] {
			continue
		}
		w.RunAs(s.Context, "a request for another region", func() {
			if full[s.Config] = !isRoom(s.Config); !full[s.Config] {
				s.Callee.GoElsewhere()
			}
		}, s.Callee.GrantRecovered)
	}
}

// Listen has other VMs wake this one in the name of a new configuration, with the gateway's context, once there was one
// under which requests may wait.
func (w *Waiters) Listen(context uint32, set *config.Set) {
	if w.listens = w.listens || queues(set); !w.listens {
		return
	}
	if err := w.GW.Listen(context, w.stores.Owner); err != nil {
		w.GW.Log(host.Warn, "no wake-ups: "+err.Error())
	}
}

// queues reports whether requests may wait under the configuration.
func queues(set *config.Set) bool {
	return slices.ContainsFunc(set.All(), func(c *config.Config) bool { return c.Queue.Enabled() })
}
