package redis

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/redisclient"
)

// fault breaks something, and can repair it.
type fault struct {
	name   string
	wreck  func(*lab.Act)
	mend   func(*lab.Act)
	outage bool // no gateway can reserve in Redis in time, from the start of wreck until mend
}

// outage is a fault that keeps all gateways from Redis.
func outage(name string, wreck, mend func(*lab.Act)) fault { return fault{name, wreck, mend, true} }

// trouble is a fault under which some reservations, or all, still succeed.
func trouble(name string, wreck, mend func(*lab.Act)) fault { return fault{name, wreck, mend, false} }

// faults are all that there are.
func (s *stage) faults() []fault {
	onWays := func(name string, m faultproxy.Mode) fault { return outage(name, s.set(m), s.pass) }
	garbage := func(name, text string) fault { return onWays(name, faultproxy.Garbage([]byte(text))) }
	return []fault{
		outage("killed", s.kill, s.restart),
		outage("frozen", func(*lab.Act) { lab.Check(s.server.Freeze()) },
			func(*lab.Act) { lab.Check(s.server.Thaw()) }),
		trouble("slow within the limit", s.set(faultproxy.Delay(8*time.Millisecond, 4*time.Millisecond)), s.pass),
		onWays("slow by 30 ms", faultproxy.Delay(30*time.Millisecond, 10*time.Millisecond)),
		onWays("slow by 1 s", faultproxy.Delay(time.Second, 100*time.Millisecond)),
		trouble("unstable", s.set(faultproxy.Delay(0, 40*time.Millisecond)), s.pass),
		onWays("refuses connections", faultproxy.Refuse()),
		onWays("resets connections", faultproxy.Reset()),
		onWays("never answers", faultproxy.Stall()),
		onWays("replies lost", faultproxy.LoseReplies()),
		onWays("half replies", faultproxy.CutReply(7)),
		onWays("byte by byte", faultproxy.Drip(3*time.Millisecond)),
		garbage("garbage", "<html><body>502 Bad Gateway</body></html>\r\n"),
		garbage("huge replies", "*3\r\n$104857600\r\n"+strings.Repeat("x", 20000)),
		garbage("nested replies", strings.Repeat("*1\r\n", 100000)),
		garbage("errors", "-ERR everything is wrong\r\n"),
		trouble("scripts flushed", s.flush("SCRIPT", "FLUSH"), asIs),
		trouble("data lost", s.flush("FLUSHALL"), asIs),
		trouble("stale replica", s.failover, s.loaded),
		// The heartbeats of all owners are set to the future, then far into the past.
		trouble("clock steps", func(a *lab.Act) { s.shift(a, clockStep) }, func(a *lab.Act) { s.shift(a, -clockStep) }),
		outage("read only", s.once("REPLICAOF", "127.0.0.1", "1"), s.once("REPLICAOF", "NO", "ONE")),
		outage("out of memory", s.once("CONFIG", "SET", "maxmemory", "1"), s.once("CONFIG", "SET", "maxmemory", "0")),
		outage("password changed", s.once("CONFIG", "SET", "requirepass", "hunter2"),
			s.once("CONFIG", "SET", "requirepass", "")),
		outage("not permitted", s.once("ACL", "SETUSER", "default", "-evalsha"),
			s.once("ACL", "SETUSER", "default", "+evalsha")),
		outage("busy", s.endlessScript, s.once("SCRIPT", "KILL")),
		outage("loading", s.load, func(a *lab.Act) {
			await(a, "Redis does not end to load", func() { s.do("FLUSHALL") })
		}),
		trouble("one gateway cut off", func(*lab.Act) { lab.Check(s.ways[0].Set(faultproxy.Refuse())) }, s.pass),
	}
}

// do sends one command, which must succeed.
func (s *stage) do(words ...any) { lab.Must(s.server.Do(words...)) }

// once has one command sent.
func (s *stage) once(words ...any) func(*lab.Act) { return func(*lab.Act) { s.do(words...) } }

// set breaks the connections of all gateways.
func (s *stage) set(m faultproxy.Mode) func(*lab.Act) {
	return func(*lab.Act) {
		for _, w := range s.ways {
			lab.Check(w.Set(m))
		}
	}
}

func (s *stage) pass(a *lab.Act) { s.set(faultproxy.Pass())(a) }

// asIs is for faults that end on their own.
func asIs(*lab.Act) {}

// flush sends a command again and again, while the fault lasts.
func (s *stage) flush(words ...any) func(*lab.Act) {
	return func(a *lab.Act) {
		a.For(a.Span, func() {
			s.do(words...)
			a.Sleep(300 * time.Millisecond)
		})
	}
}

func (s *stage) kill(*lab.Act) { lab.Check(s.server.Kill()) }

func (s *stage) restart(a *lab.Act) { lab.Check(s.server.Restart(a.Ctx)) }

// refuses checks that a command is refused with a word.
func (s *stage) refuses(word string) {
	_, err := s.server.Do("GET", "k")
	lab.FailIf(err == nil || !strings.Contains(err.Error(), word), "the server should be %s: %v", word, err)
}

// endlessScript keeps Redis busy with a script that does not end.
func (s *stage) endlessScript(a *lab.Act) {
	s.do("CONFIG", "SET", "lua-time-limit", "20")
	go func() { _, _ = s.server.Do("EVAL", "while true do end", "0") }() // answered with an error once it is killed
	await(a, "the server does not get busy", func() { s.refuses("BUSY") })
}

// load restarts Redis with much to load.
func (s *stage) load(a *lab.Act) {
	s.do("EVAL", "for i = 1, 40 do redis.call('SET', i, string.rep('x', 1000000)) end", 0)
	s.do("SAVE")
	s.kill(a)
	s.restart(a)
	s.refuses("LOADING")
}

// failover brings a replica that is a second behind: it has leases that have since been released and lacks newer ones.
func (s *stage) failover(a *lab.Act) {
	s.do("SAVE")
	a.Sleep(time.Second)
	s.kill(a)
	s.restart(a)
}

// loaded waits until Redis has loaded its data.
func (s *stage) loaded(a *lab.Act) {
	await(a, "Redis does not end to load", func() { s.do("GET", "k") })
}

// clockStep is by how much the clock of Redis jumps: far longer than a lease lasts.
const clockStep = 5 * time.Minute

// shift moves the times of the owners' latest heartbeats. To the scripts this is as if the clock had jumped the other
// way.
func (s *stage) shift(a *lab.Act, by time.Duration) {
	const script = `local all = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, owner in ipairs(all) do redis.call('ZINCRBY', KEYS[1], ARGV[1], owner) end
return #all`
	await(a, "the heartbeats of owners", func() {
		n := lab.Must(s.server.Do("EVAL", script, 1, redisclient.KeysOf(scope).Owners, by.Milliseconds()))
		lab.FailIf(n.Integer() == 0, "there are no owners")
	})
}

// under plays a fault for a while, and pulses measure its effect on requests.
func under(a *lab.Act, f fault) {
	const calm = 2 * time.Second
	var urls []string
	for _, g := range a.Site.Gateways {
		urls = append(urls, g.URL()+audit.EchoPath)
	}
	p := lab.StartPulses(a.Ctx, urls...)
	begin := time.Now()
	a.Sleep(calm)
	at := time.Now()
	err := lab.Try(func() { f.wreck(a) })
	a.Sleep(a.Span - time.Since(at))
	mended := time.Now()
	mend := lab.Try(func() { f.mend(a) })
	a.Sleep(calm)
	failed := p.Stop(a)
	// The p99 of the pulses before the fault, and from its beginning until it was mended.
	r := a.Result.RedisResult
	r.BaseP99MS, r.FirstP99MS, r.LaterP99MS = p.P99(begin, at), p.P99(at, at.Add(time.Second)),
		p.P99(at.Add(time.Second), mended)
	r.AddedFirstMS, r.AddedLaterMS = r.FirstP99MS-r.BaseP99MS, r.LaterP99MS-r.BaseP99MS
	r.Outage = f.outage
	lab.Check(err, mend, failed)
}

// atRandom plays random faults one after the other, some for less time than a deadline.
func (s *stage) atRandom(a *lab.Act) {
	faults := s.faults()
	a.Play(lab.Load{Rate: a.Rate, Request: hastyLeaver}, func() {
		a.For(4*a.Span, func() {
			f := faults[a.Rand.IntN(len(faults))]
			if f.name == "loading" || f.name == "busy" { // they take their own time
				return
			}
			short, set := *a, *a.Settings
			short.Settings = &set
			set.Span = time.Duration(a.Rand.IntN(int(a.Span / 4)))
			s.loaded(a) // the previous fault may have restarted it
			lab.About(f.name, func() {
				lab.Each(func() { f.wreck(&short) }, func() { a.Sleep(set.Span) }, func() { f.mend(a) })
			})
			a.Result.Figures["faults"]++
			a.Sleep(time.Duration(a.Rand.IntN(int(a.Span / 4))))
		})
	})
}
