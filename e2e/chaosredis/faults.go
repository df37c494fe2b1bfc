package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
)

// scene is one scenario.
type scene struct {
	name      string
	play      func(*act) error
	clustered bool // needs a Redis Cluster
}

// fault breaks something and says how to mend it.
type fault struct {
	name  string
	wreck func(*act) error
	mend  func(*act) error
}

var faults = []fault{
	{"killed", func(a *act) error { return a.place.redis.Kill() }, restart},
	{"frozen", func(a *act) error { return a.place.redis.Freeze() }, func(a *act) error { return a.place.redis.Thaw() }},
	ways("slow within the limit", faultproxy.Delay(8*time.Millisecond, 4*time.Millisecond)),
	ways("slow by 30 ms", faultproxy.Delay(30*time.Millisecond, 10*time.Millisecond)),
	ways("slow by 1 s", faultproxy.Delay(time.Second, 100*time.Millisecond)),
	ways("unstable", faultproxy.Delay(0, 40*time.Millisecond)),
	ways("refuses connections", faultproxy.Refuse()),
	ways("resets connections", faultproxy.Reset()),
	ways("never answers", faultproxy.Stall()),
	ways("replies lost", faultproxy.LoseReplies()),
	ways("half replies", faultproxy.CutReply(7)),
	ways("byte by byte", faultproxy.Drip(3*time.Millisecond)),
	ways("garbage", faultproxy.Garbage([]byte("<html><body>502 Bad Gateway</body></html>\r\n"))),
	ways("huge replies", faultproxy.Garbage([]byte("*3\r\n$104857600\r\n"+strings.Repeat("x", 20000)))),
	ways("nested replies", faultproxy.Garbage([]byte(strings.Repeat("*1\r\n", 100000)))),
	ways("errors", faultproxy.Garbage([]byte("-ERR everything is wrong\r\n"))),
	commands("scripts flushed", flush("SCRIPT", "FLUSH"), nil),
	commands("data lost", flush("FLUSHALL"), nil),
	commands("read only", once("REPLICAOF", "127.0.0.1", "1"), once("REPLICAOF", "NO", "ONE")),
	commands("out of memory", once("CONFIG", "SET", "maxmemory", "1"), once("CONFIG", "SET", "maxmemory", "0")),
	commands("password changed", once("CONFIG", "SET", "requirepass", "hunter2"), once("CONFIG", "SET", "requirepass", "")),
	commands("not permitted", once("ACL", "SETUSER", "default", "-evalsha"), once("ACL", "SETUSER", "default", "+evalsha")),
	{"busy", busy, func(a *act) error {
		_, err := a.place.redis.Do("SCRIPT", "KILL")
		return err
	}},
	{"loading", load, func(a *act) error {
		return a.awaitCount("Redis does not end to load", func() (bool, error) {
			_, err := a.place.redis.Do("FLUSHALL")
			return err == nil, err
		})
	}},
	{"one gateway cut off", func(a *act) error { return a.place.ways[0].Set(faultproxy.Refuse()) }, pass},
}

// ways is a fault of the connections of all gateways.
func ways(name string, m faultproxy.Mode) fault {
	return fault{name, func(a *act) error {
		for _, w := range a.place.ways {
			if err := w.Set(m); err != nil {
				return err
			}
		}
		return nil
	}, pass}
}

func pass(a *act) error {
	for _, w := range a.place.ways {
		if err := w.Set(faultproxy.Pass()); err != nil {
			return err
		}
	}
	return nil
}

// commands is a fault that Redis is told to have.
func commands(name string, wreck, mend func(*act) error) fault {
	if mend == nil {
		mend = func(*act) error { return nil }
	}
	return fault{name, wreck, mend}
}

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
		for end := time.Now().Add(a.span); time.Now().Before(end) && a.ctx.Err() == nil; a.sleep(300 * time.Millisecond) {
			if _, err := a.place.redis.Do(words...); err != nil {
				return err
			}
		}
		return nil
	}
}

func restart(a *act) error { return a.place.redis.Restart(a.ctx) }

// busy keeps Redis busy with a script that does not end.
func busy(a *act) error {
	r := a.place.redis
	if _, err := r.Do("CONFIG", "SET", "lua-time-limit", "20"); err != nil {
		return err
	}
	go func() { _, _ = r.Do("EVAL", "while true do end", "0") }() // it is answered with an error once it is killed
	for end := time.Now().Add(10 * time.Second); ; a.sleep(5 * time.Millisecond) {
		_, err := r.Do("GET", "k")
		switch {
		case err != nil && strings.Contains(err.Error(), "BUSY"):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("chaosredis: the server does not get busy: %w", err)
		}
	}
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
		return fmt.Errorf("chaosredis: the server should be loading: %w", err)
	}
	return nil
}

// scene plays the fault under traffic.
func (f fault) scene() scene {
	return scene{name: f.name, play: func(a *act) error {
		return a.traffic(func() error { return a.under(f) }, audit.Short)
	}}
}

// under lets a fault come and go while pulses measure what it does to requests.
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
	a.result.BaseP99MS = p.p99(begin, at)
	a.result.FirstP99MS = p.p99(at, at.Add(time.Second))
	a.result.LaterP99MS = p.p99(at.Add(time.Second), mended)
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d pulses failed, first: %w", len(failed), n, failed[0]))
	}
	return err
}

// nemesis lets random faults follow each other, some for less time than a deadline.
func nemesis(a *act) error {
	return a.traffic(func() error {
		for end := time.Now().Add(4 * a.span); time.Now().Before(end); {
			f := faults[a.rand.IntN(len(faults))]
			if f.name == "loading" || f.name == "busy" { // they take their own time
				continue
			}
			short := *a
			short.span = time.Duration(a.rand.IntN(int(a.span / 4)))
			err := f.wreck(&short)
			a.sleep(short.span)
			if err := errors.Join(err, f.mend(a)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			a.result.Figures["faults"]++
			a.sleep(time.Duration(a.rand.IntN(int(a.span / 4))))
		}
		return nil
	}, leaver)
}

// awaitCount waits until check holds.
func (a *act) awaitCount(what string, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(a.ctx, healTimeout)
	defer cancel()
	for {
		ok, err := check()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
