package core

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

// waiters is the part of a VM that looks after requests that wait in a queue: how much of them is held, when their
// stores are asked for them, and how other VMs wake this one.
//
// The step of a store that frees capacity grants it to a waiting request, of whichever VM. A VM that has granted one of
// another VM wakes that; should the call get lost, that VM finds the grant at its next tick.
type waiters struct {
	*host.Env
	stores  *stores.Stores
	views   *views.Views
	held    map[*waiter]int // and how many bytes of each: see waiterbytes.go
	bytes   int             // the sum of these
	of      map[holder]int  // and that by tenant
	beyond  []*waiter       // held beyond the room there is, until it is known whether they wait in Redis
	owners  int             // VMs of the gateway that count requests
	tenants learned.Tenants // that have turns of their own in queues
	listens bool            // this VM is woken
}

// waiter is what a VM knows of a request that waits.
type waiter struct {
	holder
	config    *config.Config
	cluster   *clusters.Cluster
	context   uint32        // the gateway's
	rank      uint8         // of its class
	since     time.Duration // when it was first reserved
	until     time.Duration // when its wait is over
	plannedAt time.Duration
	view      *lb.View // that it was planned by
	store     lb.Store
	redis     bool       // that is one in Redis: so it may only wait for an answer
	id        lb.LeaseID // there
	over      bool       // its wait has ended, in a callback that goes on with that
	request   waitingRequest
}

// waitingRequest is what is called of a request that waits, in its context.
type waitingRequest interface {
	planAgain()      // its endpoints have changed
	giveWay()        // another request needs its memory
	goElsewhere()    // another region may have room
	grantRecovered() // one of these has panicked
}

// isQueued reports whether the request is in a queue. With Redis it may only wait for an answer.
func (w *waiter) isQueued() bool { return w.store.Waits(w.id) }

const (
	// maxReplans is how many waiting requests are planned again in one tick. With Redis each costs two commands.
	maxReplans = 4
	// capsPeriod is how often one of the requests that wait with equal caps brings the latest ones to its queue.
	capsPeriod = time.Second
	// replanAfter is how old the plan of a waiting request is at least before its endpoints are looked up again.
	replanAfter = 2 * process.TickPeriod
)

func newWaiters(e *host.Env, s *stores.Stores, from *views.Views) *waiters {
	w := &waiters{Env: e, stores: s, views: from, owners: 1}
	w.held, w.of = map[*waiter]int{}, map[holder]int{}
	w.tenants = learned.NewTenants()
	s.Local.OnGrant = func(owner uint64) { w.wakeOther(owner, nil) }
	s.OnGrant = w.wakeOther
	return w
}

// wakeOther wakes the VM of another owner, with what a store in Redis has granted that, nil in the local store. It is
// called in the middle of a step of the store, which a panic must not break off.
func (w *waiters) wakeOther(owner uint64, news []byte) {
	message := append(wire.Writer(nil).Uint64(owner), news...)
	w.Guard("a wake-up of another VM", func() {
		if vm := stores.LocalOwner(owner); vm != w.stores.Owner {
			w.GW.Wake(vm, message)
			return
		}
		w.hear(w.ReadClock(), [][]byte{message}) // another store of this VM
	}, nil)
}

// hear takes what other VMs have sent. It reports whether the local store has to be polled.
func (w *waiters) hear(now time.Duration, messages [][]byte) (local bool) {
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

// countOwners takes over how many VMs the gateway has.
func (w *waiters) countOwners(now time.Duration) {
	if n, err := w.stores.Local.Owners(now); err == nil {
		w.owners = max(1, n)
	}
}

// poll asks the stores for requests that wait, and returns when to do so again, 0 while none waits.
func (w *waiters) poll(now time.Duration) (next time.Duration) {
	next = w.stores.Poll(now)
	w.settle()
	if len(w.held) > 0 {
		next = stores.Earlier(next, now+lb.PollPeriod)
	}
	return next
}

// refresh plans requests again that wait for endpoints which have changed since, those that came first before the
// others. Of those that have equal caps one is planned again from time to time anyway: its caps count for all.
func (w *waiters) refresh(now time.Duration) {
	stale := w.stale(now)
	order.By(stale, byArrival)
	for _, s := range stale[:min(len(stale), maxReplans)] {
		s.cluster.CapsAt = now
		w.RunAs(s.context, "a new plan for a waiting request", s.request.planAgain, s.request.grantRecovered)
	}
}

func byArrival(a, b **waiter) bool { return (*a).since < (*b).since }

// stale returns the requests to be planned again.
func (w *waiters) stale(now time.Duration) (stale []*waiter) {
	type source struct {
		scope string
		cfg   *config.Config
	}
	views := map[source]*lb.View{}
	for s := range w.held {
		if now-s.plannedAt < replanAfter || s.until-now < replanAfter {
			continue
		}
		from := source{s.scope, s.config}
		view, seen := views[from]
		if !seen {
			w.RunAs(s.context, "the endpoints of a waiting request", func() {
				view = w.views.Of(now, s.scope, s.config)
			}, nil)
			views[from] = view
		}
		if view != s.view || !seen && now-s.cluster.CapsAt >= capsPeriod {
			stale = append(stale, s)
		}
	}
	return stale
}

// forwardWaiting has requests that wait go to other regions, those that came first before the others, as long as there
// is room: that is learned of at any time.
func (w *waiters) forwardWaiting(isRoom func(c *config.Config) bool) {
	var list []*waiter
	for s := range w.held {
		if s.config.Regions.Forwards() && s.isQueued() {
			list = append(list, s)
		}
	}
	order.By(list, byArrival)
	full := map[*config.Config]bool{} // no other region has room for its requests
	for _, s := range list {
		if full[s.config] {
			continue
		}
		w.RunAs(s.context, "a request for another region", func() {
			if full[s.config] = !isRoom(s.config); !full[s.config] {
				s.request.goElsewhere()
			}
		}, s.request.grantRecovered)
	}
}

// listen has other VMs wake this one in the name of a new configuration, with the gateway's context, once there was one
// under which requests may wait.
func (w *waiters) listen(context uint32, set *config.Set) {
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
