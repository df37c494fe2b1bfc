package core

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

// leaseTTL is how long an owner may send no heartbeat before its leases are returned. A worker that stands still for
// longer does not serve either.
const leaseTTL = 5 * time.Second

// heartbeatPeriod is how often owners send a heartbeat.
const heartbeatPeriod = time.Second

// stores is the part of a VM that knows where requests are counted: in the gateway's memory, or in Redis.
type stores struct {
	*host.Env
	owner  uint64 // that this VM is in the local store: see localOwner
	local  *memstore.Store
	redis  map[redisTarget]*redisStore
	lastID lb.LeaseID
	owners int // that this VM has been in stores in Redis
	// onGrant is called when a store in Redis has granted something to another owner.
	onGrant func(owner uint64, news []byte)
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

// redisStore is a store in Redis, with the local store as its fallback.
type redisStore struct {
	name     string // for the log
	owner    uint64 // that this VM is there
	login    config.Redis
	link     host.RedisLink
	remote   *redisclient.Store
	fallback *lb.FallbackStore
	named    bool          // by a configuration in force
	used     bool          // requests have been counted there
	inflight int           // requests of this VM that are counted there
	neededAt time.Duration // when it was last named or had a request
	failing  bool          // a failure was logged since it last answered
	loggedAt time.Duration // when a failure was last logged
	logged   string        // its cause
	replica  string        // what was logged of a replica
}

func newStores(e *host.Env) *stores {
	owner := newVMOwner(e)
	return &stores{
		Env: e, owner: owner, local: memstore.New(e.GW.KV(), owner, leaseTTL), redis: map[redisTarget]*redisStore{},
		onGrant: func(uint64, []byte) {},
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
	return localOwner(lb.EndpointHash("owners of "+string(secret[:]))&^others | e.GW.Random()&others)
}

// localOwner returns what the VM of any owner is in the local store.
func localOwner(owner uint64) uint64 { return owner&^(ownersOfVM-1) | 1 }

// newOwner returns what this VM is to be in one more store in Redis: what it has not been lately. One that does not
// show which VM it is, if there are so many, is not woken.
func (s *stores) newOwner() uint64 {
	for range ownersOfVM {
		s.owners++
		if n := uint64(s.owners % ownersOfVM); n > 1 && s.inRedis(s.owner-1+n) == nil {
			return s.owner - 1 + n
		}
	}
	return s.GW.Random() | 1
}

// inRedis returns the store in Redis in which this VM is that owner, nil if there is none.
func (s *stores) inRedis(owner uint64) *redisStore {
	for _, r := range s.redis {
		if r.owner == owner {
			return r
		}
	}
	return nil
}

// connect makes the stores in Redis that a configuration names.
func (s *stores) connect(set *config.Set) {
	now := s.ReadClock()
	for _, c := range set.All() {
		if c.UsesRedis() {
			s.connectTo(now, c)
		}
	}
}

// connectTo returns the store in Redis that the configuration names, and makes it unless it is there.
func (s *stores) connectTo(now time.Duration, c *config.Config) *redisStore {
	t := redisTargetOf(c)
	r := s.redis[t]
	if r == nil {
		r = &redisStore{name: c.Redis.String(), owner: s.newOwner(), link: s.GW.RedisLink(c)}
		r.remote = redisclient.New(r.link, redisclient.Options{
			Owner: r.owner, TTL: leaseTTL, Timeout: c.ReserveTimeout, KV: s.GW.KV(),
			Scope: c.Redis.Scope,
		})
		r.remote.OnGrant = func(owner uint64, news []byte) { s.onGrant(owner, news) }
		r.remote.OnFailure = func(why error) { s.countFailure(r, stats.Failures, why) }
		r.fallback = lb.NewFallbackStore(r.remote, s.local)
		r.fallback.OnFallback = func(why error) { s.countFailure(r, stats.Fallbacks, why) }
		s.redis[t] = r
	}
	r.named, r.login = true, c.Redis
	r.link.Connect(now, r.login)
	return r
}

// of returns where the requests of a configuration are counted. The second result is nil for the local store.
func (s *stores) of(c *config.Config) (lb.Store, *redisStore) {
	if !c.UsesRedis() {
		return s.local, nil
	}
	r := s.redis[redisTargetOf(c)]
	if r == nil {
		r = s.connectTo(s.ReadClock(), c) // a request of a configuration that is no longer in force
	}
	r.used = true
	return r.fallback, r
}

// nextID returns the number of a new lease.
func (s *stores) nextID() lb.LeaseID {
	s.lastID++
	return s.lastID
}

// LoadAt returns what is in flight at an endpoint, over all workers. With Redis it is not known here.
func (s *stores) LoadAt(c *config.Config, cluster, addr string) (l lb.Load, known bool) {
	if c.UsesRedis() {
		return lb.Load{}, false
	}
	loads, err := s.local.Loads(cluster, []string{addr}, nil)
	if err != nil {
		return lb.Load{}, false
	}
	return loads[0], true
}

// RemoteLoads asks the store in Redis of a configuration what is in flight at endpoints.
func (s *stores) RemoteLoads(
	now time.Duration, c *config.Config, cluster string, addrs []string, done func([]lb.Load, error),
) {
	_, r := s.of(c)
	r.remote.Loads(now, cluster, addrs, done)
}

// tasks returns where the tasks of a configuration are counted, and whether that is in Redis.
func (s *stores) tasks(c *config.Config) (tasks lb.TaskStore, remote bool) {
	if _, r := s.of(c); r != nil {
		return r.fallback, true
	}
	return s.local, false
}

// countFailure counts a request that the local store had to count, or a failed heartbeat. Now and then, and when a
// person has to do something, it logs why Redis cannot be used.
func (s *stores) countFailure(r *redisStore, stat string, why error) {
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
func (s *stores) replicaText(r *redisStore) string {
	if _, replica := r.remote.OnReplica(s.Clock()); replica {
		return "; its name leads to a read-only replica"
	}
	return ""
}

// noteReplica logs that the name of a Redis also leads to a replica, and what is done about it; once, until it does not
// any more.
func (s *stores) noteReplica(now time.Duration, r *redisStore) {
	master, replica := r.remote.OnReplica(now)
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

// postpone moves all deadlines of the stores in Redis.
func (s *stores) postpone(d time.Duration) {
	if d == 0 {
		return
	}
	for _, r := range s.redis {
		r.link.Postpone(d)
		r.remote.Postpone(d)
	}
}

// expire ends what has waited for too long, and returns the earliest deadline still to come, 0 for none.
func (s *stores) expire(now time.Duration) (next time.Duration) {
	for _, r := range s.redis {
		if r.named {
			r.link.Connect(now, r.login)
		}
		next = earlier(next, earlier(r.link.Expire(now), r.fallback.Expire(now)))
	}
	return next
}

// poll has the stores look what has become of requests that wait, and returns when to do so again, 0 for no time.
func (s *stores) poll(now time.Duration) (next time.Duration) {
	next = s.local.Poll(now)
	for _, r := range s.redis {
		next = earlier(next, r.fallback.Poll(now))
	}
	return next
}

// heartbeat renews this VM as an owner of leases in every store.
func (s *stores) heartbeat(now time.Duration, inForce []*config.Config) {
	if err := s.local.Heartbeat(now); err != nil {
		s.GW.Log(host.Warn, "heartbeat: "+err.Error())
	}
	if len(s.redis) > 0 {
		s.heartbeatRedis(now, inForce)
	}
}

// heartbeatRedis does so in Redis. Stores that no configuration names any more are dropped once their last request has
// ended and Redis knows of it; or once Redis has returned what it has of them.
func (s *stores) heartbeatRedis(now time.Duration, inForce []*config.Config) {
	named := map[redisTarget]bool{}
	for _, c := range inForce {
		if c.UsesRedis() {
			named[redisTargetOf(c)] = true
		}
	}
	up, used := uint64(1), false
	for t, r := range s.redis {
		if r.named = named[t]; r.named || r.inflight > 0 {
			r.neededAt = now
		} else if r.remote.Drained() || now-r.neededAt > leaseTTL {
			delete(s.redis, t)
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
func (s *stores) reachable(now time.Duration, r *redisStore) bool {
	master, replica := r.remote.OnReplica(now)
	if !r.remote.Ready(now) || r.remote.HeartbeatErr() != nil || replica && master == "" {
		return false
	}
	if r.failing && now-r.loggedAt >= heartbeatPeriod { // else that heartbeat may have been an earlier one
		r.failing = false
		s.GW.Log(host.Info, r.name+" available again: using shared counts")
	}
	return true
}

// earlier returns the earlier of two times, of which 0 means none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
