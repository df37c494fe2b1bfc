package main

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// Link is a gateway's way to one Redis.
type Link interface {
	redisclient.Transport
	// Keep sees to it that the way is open, with the login as it is now. It is called at each tick while a
	// configuration in force names this Redis.
	Keep(now time.Duration, r config.Redis)
	// Expire gives up what has got no answer in time, and returns the earliest deadline still to come, 0 for none.
	Expire(now time.Duration) time.Duration
	// Postpone moves all deadlines: for so long nobody could have seen an answer.
	Postpone(d time.Duration)
}

// target is a Redis, a user and a time limit. Configurations that name the same share what this VM keeps for it.
type target struct {
	redis  config.Redis // without the password, which may change
	within time.Duration
}

func targetOf(c *config.Config) target {
	r := c.Redis
	r.Password, r.Timeout = "", 0
	return target{r, c.ReserveTimeout}
}

// sharedStore is a store that several gateways share, with what this VM keeps for it.
type sharedStore struct {
	name     string // for the log
	login    config.Redis
	link     Link
	remote   *redisclient.Store
	fallback *lb.FallbackStore
	named    bool          // by a configuration in force
	asked    bool          // requests have been counted there, so that there is something to tell
	open     int           // requests of this VM that are counted there
	needed   time.Duration // when it was last named or had a request
	failed   bool          // it has been said in the log that it does not answer
	told     time.Duration // when something was last said
}

// silence is how long a Redis, or an admin interface, that keeps failing is not mentioned again.
const silence = 30 * time.Second

// connect makes the stores that a configuration names.
func (v *vm) connect(set *config.Set) {
	now := v.read()
	for _, c := range set.All() {
		if c.UsesRedis() {
			v.share(now, c)
		}
	}
}

// share returns the store that the configuration names, and makes it unless it is there.
func (v *vm) share(now time.Duration, c *config.Config) *sharedStore {
	t := targetOf(c)
	sh := v.shared[t]
	if sh == nil {
		sh = &sharedStore{name: c.Redis.String(), link: v.gw.Redis(c)}
		sh.remote = redisclient.New(sh.link, redisclient.Options{
			Owner: v.gw.Random() | 1, TTL: leaseTTL, Timeout: c.ReserveTimeout, KV: v.gw.KV(),
			Scope: c.Redis.Scope,
		})
		sh.fallback = lb.NewFallbackStore(sh.remote, v.store)
		sh.fallback.Fell = func(why error) { v.fell(sh, why) }
		v.shared[t] = sh
	}
	sh.named, sh.login = true, c.Redis
	sh.link.Keep(now, sh.login)
	return sh
}

// storeOf returns where the requests of a configuration are counted. The second result is nil for the embedded store.
func (v *vm) storeOf(c *config.Config) (lb.Store, *sharedStore) {
	if !c.UsesRedis() {
		return v.store, nil
	}
	sh := v.shared[targetOf(c)]
	if sh == nil {
		sh = v.share(v.read(), c) // a request of a configuration that has gone
	}
	sh.asked = true
	return sh.fallback, sh
}

// fell notes that the embedded store had to count a request.
func (v *vm) fell(sh *sharedStore, why error) {
	cause := redisclient.Cause(why)
	v.stats.count(statFallbacks+";cause="+cause, 1)
	if sh.told == 0 || v.clock-sh.told >= silence {
		sh.told, sh.failed = v.clock, true
		v.gw.Log(Warn, sh.name+" is of no use ("+cause+"): the gateway counts by itself meanwhile")
	}
}

// postpone moves all deadlines of the shared stores.
func (v *vm) postpone(d time.Duration) {
	for _, sh := range v.shared {
		sh.link.Postpone(d)
		sh.remote.Postpone(d)
	}
}

// expire ends what has waited for too long, and returns the earliest deadline still to come, 0 for none.
func (v *vm) expire(now time.Duration) (next time.Duration) {
	for _, sh := range v.shared {
		if sh.named {
			sh.link.Keep(now, sh.login)
		}
		for _, at := range [2]time.Duration{sh.link.Expire(now), sh.fallback.Expire(now)} {
			if at > 0 && (next == 0 || at < next) {
				next = at
			}
		}
	}
	return next
}

// beatShared renews the owner in every shared store. Those that no configuration names any more are dropped once their
// last request has ended and Redis knows of it; or once Redis has returned what it has of them by itself.
func (v *vm) beatShared(now time.Duration) {
	if len(v.shared) == 0 {
		return
	}
	named := map[target]bool{}
	for _, p := range v.live {
		for _, c := range p.set.All() {
			if c.UsesRedis() {
				named[targetOf(c)] = true
			}
		}
	}
	up, asked := uint64(1), false
	for t, sh := range v.shared {
		if sh.named = named[t]; sh.named || sh.open > 0 {
			sh.needed = now
		} else if sh.remote.Drained() || now-sh.needed > leaseTTL {
			delete(v.shared, t)
			continue
		}
		if err := sh.fallback.Heartbeat(now); err != nil {
			v.gw.Log(Warn, "beat: "+err.Error())
		}
		asked = asked || sh.asked
		if !v.well(now, sh) {
			up = 0
		}
	}
	if asked {
		v.stats.set(statRedisUp, up)
	}
}

// well says whether the store was reached at its last beat, and tells when that has changed for the better.
func (v *vm) well(now time.Duration, sh *sharedStore) bool {
	if !sh.remote.Ready(now) || sh.remote.HeartbeatErr() != nil {
		return false
	}
	if sh.failed {
		sh.failed = false
		v.gw.Log(Info, sh.name+" answers again")
	}
	return true
}
