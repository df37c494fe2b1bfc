package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// RedisLink is a gateway's way to one Redis.
type RedisLink interface {
	redisclient.Transport
	// Connect sees to it that the way is open, with the login as it is now. It is called at each tick while a
	// configuration in force names this Redis.
	Connect(now time.Duration, r config.Redis)
	// Expire gives up what has got no answer in time, and returns the earliest deadline still to come, 0 for none.
	Expire(now time.Duration) time.Duration
	// Postpone moves all deadlines: for so long nobody could have seen an answer.
	Postpone(d time.Duration)
}

// redisTarget is a Redis, a user and a time limit. Configurations that name the same share what this VM keeps for it.
type redisTarget struct {
	redis  config.Redis // without the password, which may change
	within time.Duration
}

func redisTargetOf(c *config.Config) redisTarget {
	r := c.Redis
	r.Password, r.Timeout = "", 0
	return redisTarget{r, c.ReserveTimeout}
}

// redisStore is a store that several gateways share, with what this VM keeps for it.
type redisStore struct {
	name     string // for the log
	login    config.Redis
	link     RedisLink
	remote   *redisclient.Store
	fallback *lb.FallbackStore
	named    bool          // by a configuration in force
	used     bool          // requests have been counted there, so that there is something to tell
	inflight int           // requests of this VM that are counted there
	neededAt time.Duration // when it was last named or had a request
	failing  bool          // it has been said in the log that it does not answer
	loggedAt time.Duration // when something was last said
}

// logEvery is how long a Redis, or an admin interface, that keeps failing is not mentioned again.
const logEvery = 30 * time.Second

// connect makes the stores that a configuration names.
func (v *VM) connect(set *config.Set) {
	now := v.ReadClock()
	for _, c := range set.All() {
		if c.UsesRedis() {
			v.connectRedis(now, c)
		}
	}
}

// connectRedis returns the store that the configuration names, and makes it unless it is there.
func (v *VM) connectRedis(now time.Duration, c *config.Config) *redisStore {
	t := redisTargetOf(c)
	sh := v.redis[t]
	if sh == nil {
		sh = &redisStore{name: c.Redis.String(), link: v.gw.RedisLink(c)}
		sh.remote = redisclient.New(sh.link, redisclient.Options{
			Owner: v.gw.Random() | 1, TTL: leaseTTL, Timeout: c.ReserveTimeout, KV: v.gw.KV(),
			Scope: c.Redis.Scope,
		})
		sh.fallback = lb.NewFallbackStore(sh.remote, v.store)
		sh.fallback.OnFallback = func(why error) { v.countFallback(sh, why) }
		v.redis[t] = sh
	}
	sh.named, sh.login = true, c.Redis
	sh.link.Connect(now, sh.login)
	return sh
}

// storeOf returns where the requests of a configuration are counted. The second result is nil for the embedded store.
func (v *VM) storeOf(c *config.Config) (lb.Store, *redisStore) {
	if !c.UsesRedis() {
		return v.store, nil
	}
	sh := v.redis[redisTargetOf(c)]
	if sh == nil {
		sh = v.connectRedis(v.ReadClock(), c) // a request of a configuration that has gone
	}
	sh.used = true
	return sh.fallback, sh
}

// countFallback notes that the embedded store had to count a request.
func (v *VM) countFallback(sh *redisStore, why error) {
	cause := redisclient.Cause(why)
	v.stats.count(statFallbacks+";cause="+cause, 1)
	if sh.loggedAt == 0 || v.clock-sh.loggedAt >= logEvery {
		sh.loggedAt, sh.failing = v.clock, true
		v.gw.Log(Warn, sh.name+" is of no use ("+cause+"): the gateway counts by itself meanwhile")
	}
}

// postpone moves all deadlines of the shared stores.
func (v *VM) postpone(d time.Duration) {
	for _, sh := range v.redis {
		sh.link.Postpone(d)
		sh.remote.Postpone(d)
	}
}

// expireCalls ends what has waited for too long, and returns the earliest deadline still to come, 0 for none.
func (v *VM) expireCalls(now time.Duration) (next time.Duration) {
	for _, sh := range v.redis {
		if sh.named {
			sh.link.Connect(now, sh.login)
		}
		for _, at := range [2]time.Duration{sh.link.Expire(now), sh.fallback.Expire(now)} {
			if at > 0 && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

// heartbeatRedis renews the owner in every shared store. Those that no configuration names any more are dropped once their
// last request has ended and Redis knows of it; or once Redis has returned what it has of them by itself.
func (v *VM) heartbeatRedis(now time.Duration) {
	if len(v.redis) == 0 {
		return
	}
	named := map[redisTarget]bool{}
	for _, p := range v.inForce {
		for _, c := range p.set.All() {
			if c.UsesRedis() {
				named[redisTargetOf(c)] = true
			}
		}
	}
	up, asked := uint64(1), false
	for t, sh := range v.redis {
		if sh.named = named[t]; sh.named || sh.inflight > 0 {
			sh.neededAt = now
		} else if sh.remote.Settled() || now-sh.neededAt > leaseTTL {
			delete(v.redis, t)
			continue
		}
		if err := sh.fallback.Heartbeat(now); err != nil {
			v.gw.Log(Warn, "beat: "+err.Error())
		}
		asked = asked || sh.used
		if !v.reachable(now, sh) {
			up = 0
		}
	}
	if asked {
		v.stats.set(statRedisUp, up)
	}
}

// reachable says whether the store was reached at its last beat, and tells when that has changed for the better.
func (v *VM) reachable(now time.Duration, sh *redisStore) bool {
	if !sh.remote.Ready(now) || sh.remote.Err() != nil {
		return false
	}
	if sh.failing {
		sh.failing = false
		v.gw.Log(Info, sh.name+" answers again")
	}
	return true
}
