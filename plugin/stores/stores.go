// Package stores is where the requests of a VM are counted: in the gateway's memory, or in Redis with that as the
// fallback.
package stores

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/redisclient"
)

// LeaseTTL is how long an owner may send no heartbeat before its leases are returned. A worker that stands still for
// longer does not serve either.
const LeaseTTL = 5 * time.Second

// HeartbeatPeriod is how often owners send a heartbeat.
const HeartbeatPeriod = time.Second

// Stores is the part of a VM that knows where requests are counted: in the gateway's memory, or in Redis.
type Stores struct {
	*host.Env
	Owner   uint64 // that this VM is in the local store: see LocalOwner
	Local   *memstore.Store
	InRedis map[redisTarget]*Redis
	lastID  lb.LeaseID
	owners  int // that this VM has been in stores in Redis
	// OnGrant is called when a store in Redis has granted something to another owner.
	OnGrant func(owner uint64, news []byte)
}

// redisTarget is a Redis, a user and a time limit. Configurations that name the same share a store in this VM.
type redisTarget struct {
	redis  config.Redis // without the password, which may change
	within time.Duration
}

func redisTargetOf(c *config.Config) redisTarget {
	r := c.Redis
	r.Password, r.Timeout = "", 0
	return redisTarget{r, c.ReserveTimeout}
}

// Redis is a store in Redis, with the local store as its fallback.
type Redis struct {
	name     string // for the log
	Owner    uint64 // that this VM is there
	login    config.Redis
	link     host.RedisLink
	Remote   *redisclient.Store
	fallback *lb.FallbackStore
	named    bool          // by a configuration in force
	used     bool          // requests have been counted there
	Inflight int           // requests of this VM that are counted there
	neededAt time.Duration // when it was last named or had a request
	failing  bool          // a failure was logged since it last answered
	loggedAt time.Duration // when a failure was last logged
	logged   string        // its cause
	replica  string        // what was logged of a replica
}

// New returns the stores of a VM.
func New(e *host.Env) *Stores {
	owner := newVMOwner(e)
	return &Stores{
		Env: e, Owner: owner, Local: memstore.New(e.GW.KV(), owner, LeaseTTL), InRedis: map[redisTarget]*Redis{},
		OnGrant: func(uint64, []byte) {},
	}
}

// ownersOfVM is how many owners a VM may be: its numbers differ in the lowest byte, in which that of the local store
// has a 1.
const ownersOfVM = 1 << 8

// newVMOwner returns what a new VM is in the local store: a random number whose highest bits are those of all VMs of
// the gateway. By these, stores in Redis know whom a VM can tell what it has granted.
func newVMOwner(e *host.Env) uint64 {
	const others = 1<<(64-redisclient.GatewayBits) - 1
	secret := process.OwnSecret(e.GW.KV(), e.GW.Random)
	return LocalOwner(lb.EndpointHash("owners of "+string(secret[:]))&^others | e.GW.Random()&others)
}

// LocalOwner returns what the VM of any owner is in the local store.
func LocalOwner(owner uint64) uint64 { return owner&^(ownersOfVM-1) | 1 }

// newOwner returns what this VM is to be in one more store in Redis: what it has not been lately. One that does not
// show which VM it is, if there are so many, is not woken.
func (s *Stores) newOwner() uint64 {
	for range ownersOfVM {
		s.owners++
		if n := uint64(s.owners % ownersOfVM); n > 1 && s.OfOwner(s.Owner-1+n) == nil {
			return s.Owner - 1 + n
		}
	}
	return s.GW.Random() | 1
}

// OfOwner returns the store in Redis in which this VM is that owner, nil if there is none.
func (s *Stores) OfOwner(owner uint64) *Redis {
	for _, r := range s.InRedis {
		if r.Owner == owner {
			return r
		}
	}
	return nil
}

// Connect makes the stores in Redis that a configuration names.
func (s *Stores) Connect(set *config.Set) {
	now := s.ReadClock()
	for _, c := range set.All() {
		if c.UsesRedis() {
			s.connectTo(now, c)
		}
	}
}

// connectTo returns the store in Redis that the configuration names, and makes it unless it is there.
func (s *Stores) connectTo(now time.Duration, c *config.Config) *Redis {
	t := redisTargetOf(c)
	r := s.InRedis[t]
	if r == nil {
		r = &Redis{name: c.Redis.String(), Owner: s.newOwner(), link: s.GW.RedisLink(c)}
		r.Remote = redisclient.New(r.link, redisclient.Options{
			Owner: r.Owner, TTL: LeaseTTL, Timeout: c.ReserveTimeout, KV: s.GW.KV(),
			Scope: c.Redis.Scope,
		})
		r.Remote.OnGrant = func(owner uint64, news []byte) { s.OnGrant(owner, news) }
		r.Remote.OnFailure = func(why error) { s.countFailure(r, stats.Failures, why) }
		r.fallback = lb.NewFallbackStore(r.Remote, s.Local)
		r.fallback.OnFallback = func(why error) { s.countFailure(r, stats.Fallbacks, why) }
		s.InRedis[t] = r
	}
	r.named, r.login = true, c.Redis
	r.link.Connect(now, r.login)
	return r
}

// Of returns where the requests of a configuration are counted. The second result is nil for the local store.
func (s *Stores) Of(c *config.Config) (lb.Store, *Redis) {
	if !c.UsesRedis() {
		return s.Local, nil
	}
	r := s.InRedis[redisTargetOf(c)]
	if r == nil {
		r = s.connectTo(s.ReadClock(), c) // a request of a configuration that is no longer in force
	}
	r.used = true
	return r.fallback, r
}

// NextID returns the number of a new lease.
func (s *Stores) NextID() lb.LeaseID {
	s.lastID++
	return s.lastID
}

// LoadAt returns what is in flight at an endpoint, over all workers. With Redis it is not known here.
func (s *Stores) LoadAt(c *config.Config, cluster, addr string) (l lb.Load, known bool) {
	if c.UsesRedis() {
		return lb.Load{}, false
	}
	loads, err := s.Local.Loads(cluster, []string{addr}, nil)
	if err != nil {
		return lb.Load{}, false
	}
	return loads[0], true
}

// RemoteLoads asks the store in Redis of a configuration what is in flight at endpoints.
func (s *Stores) RemoteLoads(
	now time.Duration, c *config.Config, cluster string, addrs []string, done func([]lb.Load, error),
) {
	_, r := s.Of(c)
	r.Remote.Loads(now, cluster, addrs, done)
}

// Tasks returns where the tasks of a configuration are counted, and whether that is in Redis.
func (s *Stores) Tasks(c *config.Config) (tasks lb.TaskStore, remote bool) {
	if _, r := s.Of(c); r != nil {
		return r.fallback, true
	}
	return s.Local, false
}

// countFailure counts a request that the local store had to count, or a failed heartbeat. Now and then, and when a
// person has to do something, it logs why Redis cannot be used.
func (s *Stores) countFailure(r *Redis, stat string, why error) {
	cause := redisclient.Cause(why)
	s.Stats.Count(statname.With(stat, "cause", cause), 1)
	detail, remedy := redisclient.Detail(why), ""
	switch cause {
	case redisclient.BreakerOpen: // heartbeats say why
		return
	case "auth":
		remedy = "; nothing is sent there until it accepts lb_config.username, password and database"
	case "denied":
		remedy = "; compare the user's rights with redis-user.acl"
	}
	if r.loggedAt > 0 && s.Clock()-r.loggedAt < endpoints.LogEvery && (remedy == "" || cause == r.logged) {
		return
	}
	if detail != "" {
		detail = ": " + detail
	}
	r.loggedAt, r.logged, r.failing = s.Clock(), cause, true
	s.GW.Log(host.Warn, r.name+" unavailable ("+cause+detail+s.replicaText(r)+"): using local counts"+remedy)
}

// replicaText returns what is wrong where the name of a Redis also leads to a replica, "" elsewhere.
func (s *Stores) replicaText(r *Redis) string {
	if _, replica := r.Remote.OnReplica(s.Clock()); replica {
		return "; its name leads to a read-only replica"
	}
	return ""
}

// noteReplica logs that the name of a Redis also leads to a replica, and what is done about it; once, until it does not
// any more.
func (s *Stores) noteReplica(now time.Duration, r *Redis) {
	master, replica := r.Remote.OnReplica(now)
	text := "read-only replica, and no address of its master is known: have the name lead to the master alone"
	switch {
	case !replica:
		text = ""
	case master != "":
		text = "read-only replica: going on with its master " + master
	}
	if text != "" && text != r.replica {
		s.GW.Log(host.Warn, r.name+" leads to a "+text)
	}
	r.replica = text
}

// Postpone moves all deadlines of the stores in Redis.
func (s *Stores) Postpone(d time.Duration) {
	if d == 0 {
		return
	}
	for _, r := range s.InRedis {
		r.link.Postpone(d)
		r.Remote.Postpone(d)
	}
}

// Expire ends what has waited for too long, and returns the earliest deadline still to come, 0 for none.
func (s *Stores) Expire(now time.Duration) (next time.Duration) {
	for _, r := range s.InRedis {
		if r.named {
			r.link.Connect(now, r.login)
		}
		next = Earlier(next, Earlier(r.link.Expire(now), r.fallback.Expire(now)))
	}
	return next
}

// Poll has the stores look what has become of requests that wait, and returns when to do so again, 0 for no time.
func (s *Stores) Poll(now time.Duration) (next time.Duration) {
	next = s.Local.Poll(now)
	for _, r := range s.InRedis {
		next = Earlier(next, r.fallback.Poll(now))
	}
	return next
}

// Heartbeat renews this VM as an owner of leases in every store.
func (s *Stores) Heartbeat(now time.Duration, inForce []*config.Config) {
	if err := s.Local.Heartbeat(now); err != nil {
		s.GW.Log(host.Warn, "heartbeat: "+err.Error())
	}
	if len(s.InRedis) > 0 {
		s.heartbeatRedis(now, inForce)
	}
}

// heartbeatRedis does so in Redis. Stores that no configuration names any more are dropped once their last request has
// ended and Redis knows of it; or once Redis has returned what it has of them.
func (s *Stores) heartbeatRedis(now time.Duration, inForce []*config.Config) {
	named := map[redisTarget]bool{}
	for _, c := range inForce {
		if c.UsesRedis() {
			named[redisTargetOf(c)] = true
		}
	}
	up, used := uint64(1), false
	for t, r := range s.InRedis {
		if r.named = named[t]; r.named || r.Inflight > 0 {
			r.neededAt = now
		} else if r.Remote.Drained() || now-r.neededAt > LeaseTTL {
			delete(s.InRedis, t)
			continue
		}
		if err := r.fallback.Heartbeat(now); err != nil {
			s.GW.Log(host.Warn, "heartbeat: "+err.Error())
		}
		used = used || r.used
		s.noteReplica(now, r)
		if !s.reachable(now, r) {
			up = 0
		}
	}
	if used {
		s.Stats.Set(stats.RedisUp, up)
	}
}

// reachable reports whether Redis answered the last heartbeat, and logs it when it answers again.
func (s *Stores) reachable(now time.Duration, r *Redis) bool {
	master, replica := r.Remote.OnReplica(now)
	if !r.Remote.Ready(now) || r.Remote.HeartbeatErr() != nil || replica && master == "" {
		return false
	}
	if r.failing && now-r.loggedAt >= HeartbeatPeriod { // else that heartbeat may have been an earlier one
		r.failing = false
		s.GW.Log(host.Info, r.name+" available again: using shared counts")
	}
	return true
}

// Earlier returns the earlier of two times, of which 0 means none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
