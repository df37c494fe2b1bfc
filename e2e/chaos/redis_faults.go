package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/redisclient"
)

// fault breaks something, and can repair it.
type fault struct {
	name   string
	wreck  func(*act) error
	mend   func(*act) error
	outage bool // no gateway can reserve in Redis in time, from the start of wreck until mend
}

var faults = []fault{
	outage("killed", func(a *act) error { return a.place.redis.Kill() }, restart),
	outage("frozen", func(a *act) error {
		return a.place.redis.Freeze()
	}, func(a *act) error { return a.place.redis.Thaw() }),
	trouble("slow within the limit", ways(faultproxy.Delay(8*time.Millisecond, 4*time.Millisecond)), pass),
	outage("slow by 30 ms", ways(faultproxy.Delay(30*time.Millisecond, 10*time.Millisecond)), pass),
	outage("slow by 1 s", ways(faultproxy.Delay(time.Second, 100*time.Millisecond)), pass),
	trouble("unstable", ways(faultproxy.Delay(0, 40*time.Millisecond)), pass),
	outage("refuses connections", ways(faultproxy.Refuse()), pass),
	outage("resets connections", ways(faultproxy.Reset()), pass),
	outage("never answers", ways(faultproxy.Stall()), pass),
	outage("replies lost", ways(faultproxy.LoseReplies()), pass),
	outage("half replies", ways(faultproxy.CutReply(7)), pass),
	outage("byte by byte", ways(faultproxy.Drip(3*time.Millisecond)), pass),
	outage("garbage", ways(faultproxy.Garbage([]byte("<html><body>502 Bad Gateway</body></html>\r\n"))), pass),
	outage("huge replies", ways(faultproxy.Garbage([]byte("*3\r\n$104857600\r\n"+strings.Repeat("x", 20000)))), pass),
	outage("nested replies", ways(faultproxy.Garbage([]byte(strings.Repeat("*1\r\n", 100000)))), pass),
	outage("errors", ways(faultproxy.Garbage([]byte("-ERR everything is wrong\r\n"))), pass),
	trouble("scripts flushed", flush("SCRIPT", "FLUSH"), asIs),
	trouble("data lost", flush("FLUSHALL"), asIs),
	trouble("stale replica", failover, loaded),
	trouble("clock steps", stepBack, stepForward),
	outage("read only", once("REPLICAOF", "127.0.0.1", "1"), once("REPLICAOF", "NO", "ONE")),
	outage("out of memory", once("CONFIG", "SET", "maxmemory", "1"), once("CONFIG", "SET", "maxmemory", "0")),
	outage("password changed", once("CONFIG", "SET", "requirepass", "hunter2"),
		once("CONFIG", "SET", "requirepass", "")),
	outage("not permitted", once("ACL", "SETUSER", "default", "-evalsha"),
		once("ACL", "SETUSER", "default", "+evalsha")),
	outage("busy", endlessScript, func(a *act) error {
		_, err := a.place.redis.Do("SCRIPT", "KILL")
		return err
	}),
	outage("loading", load, func(a *act) error {
		return a.await("Redis does not end to load", func() (bool, error) {
			_, err := a.place.redis.Do("FLUSHALL")
			return err == nil, err
		})
	}),
	trouble("one gateway cut off", func(a *act) error { return a.place.ways[0].Set(faultproxy.Refuse()) }, pass),
}

// outage is a fault that keeps all gateways from Redis.
func outage(name string, wreck, mend func(*act) error) fault { return fault{name, wreck, mend, true} }

// trouble is a fault under which some reservations, or all, still succeed.
func trouble(name string, wreck, mend func(*act) error) fault { return fault{name, wreck, mend, false} }

// ways breaks the connections of all gateways.
func ways(m faultproxy.Mode) func(*act) error {
	return func(a *act) error {
		for _, w := range a.place.ways {
			if err := w.Set(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func pass(a *act) error { return ways(faultproxy.Pass())(a) }

// asIs is for faults that end on their own.
func asIs(*act) error { return nil }

// once sends one command.
func once(words ...any) func(*act) error {
	return func(a *act) error {
		_, err := a.place.redis.Do(words...)
		return err
	}
}

// flush sends a command again and again, while the fault lasts.
func flush(words ...any) func(*act) error {
	return func(a *act) error {
		for end := time.Now().Add(a.span); time.Now().Before(end) &&
			a.ctx.Err() == nil; a.sleep(300 * time.Millisecond) {
			if _, err := a.place.redis.Do(words...); err != nil {
				return err
			}
		}
		return nil
	}
}

func restart(a *act) error { return a.place.redis.Restart(a.ctx) }

// endlessScript keeps Redis busy with a script that does not end.
func endlessScript(a *act) error {
	r := a.place.redis
	if _, err := r.Do("CONFIG", "SET", "lua-time-limit", "20"); err != nil {
		return err
	}
	go func() { _, _ = r.Do("EVAL", "while true do end", "0") }() // it is answered with an error once it is killed
	return a.await("the server does not get busy", func() (bool, error) {
		_, err := r.Do("GET", "k")
		if err == nil || !strings.Contains(err.Error(), "BUSY") {
			return false, err
		}
		return true, nil
	})
}

// load restarts Redis with much to load.
func load(a *act) error {
	r := a.place.redis
	if _, err := r.Do("EVAL", "for i = 1, 40 do redis.call('SET', i, string.rep('x', 1000000)) end", 0); err != nil {
		return err
	}
	if _, err := r.Do("SAVE"); err != nil {
		return err
	}
	if err := errors.Join(r.Kill(), r.Restart(a.ctx)); err != nil {
		return err
	}
	if _, err := r.Do("GET", "k"); err == nil || !strings.Contains(err.Error(), "LOADING") {
		return fmt.Errorf("the server should be loading: %w", err)
	}
	return nil
}

// failover brings a replica that is a second behind: it has leases that have since been released and lacks newer ones.
func failover(a *act) error {
	r := a.place.redis
	if _, err := r.Do("SAVE"); err != nil {
		return err
	}
	a.sleep(time.Second)
	return errors.Join(r.Kill(), r.Restart(a.ctx))
}

// loaded waits until Redis has loaded its data.
func loaded(a *act) error {
	return a.await("Redis does not end to load", func() (bool, error) {
		_, err := a.place.redis.Do("GET", "k")
		return err == nil, err
	})
}

// clockStep is by how much the clock of Redis jumps: far longer than a lease lasts.
const clockStep = 5 * time.Minute

// stepBack sets the heartbeats of all owners to the future.
func stepBack(a *act) error { return a.shift(clockStep) }

// stepForward sets the heartbeats of all owners far into the past.
func stepForward(a *act) error { return a.shift(-clockStep) }

// shift moves the times of the owners' latest heartbeats. To the scripts this is as if the clock had jumped the other
// way.
func (a *act) shift(by time.Duration) error {
	const script = `local all = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, owner in ipairs(all) do redis.call('ZINCRBY', KEYS[1], ARGV[1], owner) end
return #all`
	return a.await("there are no owners", func() (bool, error) {
		n, err := a.place.redis.Do("EVAL", script, 1, redisclient.KeysOf(scope).Owners, by.Milliseconds())
		return err == nil && n.Integer() > 0, err
	})
}

// scene plays the fault under traffic.
func (f fault) scene() scene {
	return scene{name: f.name, at: single, play: func(a *act) error {
		return a.traffic(func() error { return a.under(f) }, audit.Short)
	}}
}

// under plays a fault for a while, and pulses measure its effect on requests.
func (a *act) under(f fault) error {
	const calm = 2 * time.Second
	var urls []string
	for _, g := range a.site.Gateways {
		urls = append(urls, g.URL())
	}
	p := startPulses(a.ctx, urls)
	begin := time.Now()
	a.sleep(calm)
	at := time.Now()
	err := f.wreck(a)
	a.sleep(a.span - time.Since(at))
	mended := time.Now()
	err = errors.Join(err, f.mend(a))
	a.sleep(calm)
	n, failed := p.stop()
	a.result.Requests += n
	a.result.Failed += len(failed)
	a.result.compare(p, begin, at, mended)
	a.result.Outage = f.outage
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d pulses failed, first: %w", len(failed), n, failed[0]))
	}
	return err
}

// compare fills in the p99 of the pulses before a fault, and from its beginning until it was mended.
func (r *redisResult) compare(p *pulses, before, at, mended time.Time) {
	r.BaseP99MS = p.p99(before, at)
	r.FirstP99MS = p.p99(at, at.Add(time.Second))
	r.LaterP99MS = p.p99(at.Add(time.Second), mended)
	r.AddedFirstMS = r.FirstP99MS - r.BaseP99MS
	r.AddedLaterMS = r.LaterP99MS - r.BaseP99MS
}

// redisNemesis plays random faults one after the other, some for less time than a deadline.
func redisNemesis(a *act) error {
	return a.traffic(func() error {
		for end := time.Now().Add(4 * a.span); time.Now().Before(end); {
			f := faults[a.rand.IntN(len(faults))]
			if f.name == "loading" || f.name == "busy" { // they take their own time
				continue
			}
			short := *a
			short.span = time.Duration(a.rand.IntN(int(a.span / 4)))
			if err := loaded(a); err != nil { // the previous fault may have restarted it
				return err
			}
			err := f.wreck(&short)
			a.sleep(short.span)
			if err := errors.Join(err, f.mend(a)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			a.result.Figures["faults"]++
			a.sleep(time.Duration(a.rand.IntN(int(a.span / 4))))
		}
		return nil
	}, hastyLeaver)
}
