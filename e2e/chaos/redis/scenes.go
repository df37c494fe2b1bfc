// Package redis has the scenes in which Redis, or the way to it, fails under two gateways that count there. No request
// may fail then.
package redis

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/chaos/waiting"
	"github.com/warmgate/warmgate/e2e/faultproxy"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

// Stages returns two gateways with one Redis server, and two with a Redis Cluster, each with its scenes.
func Stages() []lab.Stage {
	one, many := new(stage), new(stage)
	var scenes []lab.Scene
	for _, f := range one.faults() {
		scenes = append(scenes, lab.Scene{Name: f.name, Play: func(a *lab.Act) {
			a.Play(lab.Load{Rate: a.Rate}, func() { under(a, f) })
		}})
	}
	scenes = append(scenes,
		lab.Scene{Name: "herd", Play: herd},
		lab.Scene{Name: "clients leave", Play: one.leaveSlowRedis},
		lab.Scene{Name: "gateway killed", Play: one.gatewayKilled},
		lab.Scene{Name: "clients leave the queue", Play: queued(waiting.Leavers)},
		lab.Scene{Name: "gateway killed while requests wait", Play: queued(one.killedWaiting)},
		one.faultWaiting("killed"), one.faultWaiting("frozen"), one.faultWaiting("data lost"),
		one.faultWaiting("one gateway cut off"),
		lab.Scene{Name: "everything at random", Play: one.atRandom},
	)
	return []lab.Stage{
		one.of(one.startServer, scenes...),
		many.of(many.startCluster, lab.Scene{Name: "cluster", Play: many.migrate}),
	}
}

// queued plays with a queue. Where many arrive at once, Redis may take its time.
func queued(play func(*lab.Act)) func(*lab.Act) { return waiting.Queued(usual, patient, play) }

// herd lets many clients arrive at the same moment, half of them at each gateway, and stay. Then all leave at once.
// With one view of the load, no server may get more than one request above another.
func herd(a *lab.Act) {
	a.Push(patient)
	lab.Each(func() { comeAndGo(a) }, func() { a.Push(usual) })
}

// aMinute is as many tokens as an answer of a minute has: clients of a crowd stay until they leave.
const aMinute = 600

// comeAndGo lets the herd come and go.
func comeAndGo(a *lab.Act) {
	want := int64(a.Herd + a.Streams.Len())
	crowd := lab.Arrive(a.Herd, aMinute, a.Site.Gateways[0].Addr(), a.Site.Gateways[1].Addr())
	defer crowd.Leave()
	a.Result.Requests += a.Herd
	a.Result.Left += a.Herd
	await(a, "the herd does not arrive", func() {
		snap := lab.Must(a.Site.Snapshot(a.Ctx))
		n := snap.Totals().Server
		lab.FailIf(n != want, "%d requests at the servers, want %d", n, want)
		lab.Check(snap.Disagreement())
	})
	a.Spread(lab.Must(a.Site.Snapshot(a.Ctx)), 1)
}

// hastyLeaver is a request whose client leaves early, often while its reservation is on the way, or stays.
func hastyLeaver(r *rand.Rand, id int) loadgen.Request {
	q := audit.Short(r, id)
	q.MaxTokens = 1 + r.IntN(3)
	switch r.IntN(4) {
	case 0:
		q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(20)) * time.Millisecond}
	case 1:
		q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(150)) * time.Millisecond}
	}
	return q
}

// leaveSlowRedis has clients leave while Redis takes nearly as long as it may.
func (s *stage) leaveSlowRedis(a *lab.Act) {
	a.Play(lab.Load{Rate: a.Rate, Request: hastyLeaver}, func() {
		s.set(faultproxy.Delay(8*time.Millisecond, 6*time.Millisecond))(a)
		a.Sleep(a.Span)
		s.pass(a)
	})
}

// gatewayKilled ends the second gateway with many requests in flight. The first must know of it when the leases expire:
// after 5 s and the second until a heartbeat. Until then it still chooses in Redis: the return of many leases delays no
// request.
func (s *stage) gatewayKilled(a *lab.Act) {
	g := a.Site.Gateways[1]
	crowd := lab.Arrive(a.Crowd, aMinute, g.Addr())
	defer crowd.Leave() // until then it is in use: the connections of one that is collected would be closed
	s.awaitTotal(a, "the crowd is not counted", func(totals, _ int64) bool {
		return totals == int64(a.Crowd+a.Streams.Len())
	})
	a.MayCut = a.Settings.Streams / 2 // the streams are opened through the two gateways in turn
	at := time.Now()
	a.Result.Excused += a.Crowd
	a.Result.Requests += a.Crowd
	unharmed(a, func() {
		lab.Check(syscall.Kill(g.PID(), syscall.SIGKILL))
		s.awaitTotal(a, "the leases of the dead gateway do not come back", func(_, leases int64) bool {
			return leases < int64(a.Streams.Len()+a.Crowd/2)
		})
	})
	s.replace(a, g, at)
}

// awaitTotal waits until the requests that Redis counts, and their leases, are as they should be.
func (s *stage) awaitTotal(a *lab.Act, what string, right func(totals, leases int64) bool) {
	await(a, what, func() {
		totals, leases := s.counts()
		n, m := sum(totals), sum(leases)
		lab.FailIf(!right(n, m), "Redis counts %d requests in %d leases", n, m)
	})
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// replace waits until Redis counts nothing of the second gateway any more, which died at a time, and starts it again.
func (s *stage) replace(a *lab.Act, dead *harness.Gateway, died time.Time) {
	s.awaitTotal(a, "the leases of the dead gateway are not all back", func(totals, leases int64) bool {
		open := int64(a.Streams.Len())
		return totals == open && leases == open
	})
	a.NoteMS("returned_after_ms", time.Since(died))
	_ = dead.Stop() // it returns an error, because a signal ended it
	lab.Check(a.Site.StartGateway(a.Ctx, 1))
	lab.Check(a.Site.AwaitReady(a.Ctx))
}

// unharmed plays requests through the first gateway during something. They must not fall back from Redis: single ones
// may find it too slow on a busy machine, which the result has among the fallbacks.
func unharmed(a *lab.Act, during func()) {
	first := a.Site.Gateways[:1]
	before := fallbacks(a.Ctx, first...)
	a.Play(lab.Load{Rate: a.Rate / 2, At: first}, during)
	fell := minus(fallbacks(a.Ctx, first...), before)
	a.Note("timeouts_at_other", float64(fell["timeout"]))
	delete(fell, "timeout")
	lab.FailIf(len(fell) > 0, "requests at the other gateway fell back: %v", fell)
}

// migrate moves the slot of the counts around a Redis Cluster, twice slowly, while requests go on.
func (s *stage) migrate(a *lab.Act) {
	slot := redisserver.Slot(redisclient.KeysOf(scope).Table)
	c := s.cluster
	a.Play(lab.Load{Rate: a.Rate}, func() {
		for range 2 * len(c.Servers()) {
			a.Sleep(a.Span / 6)
			m := lab.Must(c.StartMigration(slot, (c.Owner(slot)+1)%len(c.Servers())))
			a.Sleep(a.Span / 6)
			lab.Check(m.MoveKeys())
			a.Sleep(a.Span / 6)
			lab.Check(m.Finish())
			a.Result.Figures["migrations"]++
		}
		a.Sleep(a.Span)
	})
}

// faultWaiting plays a fault of that name while requests wait at both gateways. Some are served during it, and the
// others when it is over: all of them.
func (s *stage) faultWaiting(name string) lab.Scene {
	f := s.faults()[slices.IndexFunc(s.faults(), func(f fault) bool { return f.name == name })]
	return lab.Scene{Name: name + " while requests wait", Play: queued(func(a *lab.Act) {
		var l waiting.Line
		defer l.Leave()
		l.LineUp(a, a.Crowd)
		at := time.Now()
		lab.Each(func() { f.wreck(a) }, func() {
			lab.Check(a.Site.SetSpeed(1))
			a.Sleep(a.Span - time.Since(at))
			a.Note("served_meanwhile", float64(l.Tally().OK))
		}, func() { f.mend(a) }, func() { l.Serve(a) })
	})}
}

// killedWaiting ends the second gateway while requests wait at both. Those that wait at the first are all served. What
// the dead one had, and was granted, is free within the TTL and a second, as in gatewayKilled.
func (s *stage) killedWaiting(a *lab.Act) {
	var staying, lost waiting.Line
	defer staying.Leave()
	staying.LineUp(a, a.Crowd, a.Site.Gateways[0])
	defer lost.Leave()
	lost.LineUp(a, 2*a.Crowd, a.Site.Gateways[1])
	g := a.Site.Gateways[1]
	a.MayCut = a.Settings.Streams / 2 // the streams are opened through the two gateways in turn
	lab.Check(syscall.Kill(g.PID(), syscall.SIGKILL))
	at := time.Now()
	gone := lost.Ended()
	a.Count(gone, lab.AllFailed)
	lab.Check(a.Site.SetSpeed(1))
	stayed := staying.Ended()
	a.NoteMS("served_ms", time.Since(at))
	lab.Each(func() { a.Count(stayed, nil) }, func() { waiting.Await(a, 0, a.Site.Gateways[0]) })
	if gone.OK > 0 {
		a.Note("served_by_the_dead", float64(gone.OK))
	}
	s.replace(a, g, at)
}
