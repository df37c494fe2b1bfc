// Package waiting has requests wait in a queue: each endpoint takes few, and some of these are the streams that are
// open during the scene.
package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Taken returns how many requests an endpoint takes: its share of the streams and two more.
func Taken(s *lab.Settings) int { return (s.Streams+s.Servers-1)/s.Servers + 2 }

// WithQueue adds a queue to a configuration in which no request ever waits too long. An endpoint takes so many.
func WithQueue(config string, taken int) string {
	members := fmt.Sprintf(`"max_inflight":%d,"queue":{"max_wait":"1h","max_length":20000},`, taken)
	return strings.Replace(config, `"debug_headers"`, members+`"debug_headers"`, 1)
}

// Queued plays with a queue: in force is then a configuration with one, and later the usual one again.
func Queued(usual, queued string, play func(*lab.Act)) func(*lab.Act) {
	return func(a *lab.Act) {
		a.Push(WithQueue(queued, Taken(a.Settings)))
		lab.Each(func() { play(a) }, func() { a.Push(usual) })
	}
}

// Length returns how many requests wait, as a gateway shows it: up to a second old.
func Length(ctx context.Context, g *harness.Gateway) int {
	return int(lab.Must(g.Sum(ctx, `^wasmcustom\.warmgate_queue_length;cluster=llm;`)))
}

// Await waits until every gateway shows at least so many waiting requests, or none with 0.
func Await(a *lab.Act, least int, gateways ...*harness.Gateway) {
	a.Until(func() {
		for _, g := range gateways {
			n := Length(a.Ctx, g)
			lab.FailIf(n < least || least == 0 && n > 0, "%d requests wait, want %d", n, least)
		}
	})
}

// Emptied waits until no request waits at any gateway, which takes no longer than a second and the age of the gauges.
func Emptied(a *lab.Act) {
	start := time.Now()
	err := lab.Try(func() { Await(a, 0, a.Site.Gateways...) })
	took := time.Since(start)
	a.NoteMS("emptied_ms", took)
	lab.Check(err)
	lab.FailIf(took > 2*time.Second+lab.Busy, "the queue was empty only after %v", took)
}

// Line is clients whose requests wait, or have waited, in a queue.
type Line struct {
	cancel  context.CancelFunc
	traffic []*audit.Traffic // through each gateway
	clients []*loadgen.Client
}

// LineUp slows all servers down and has n requests wait, through the gateways in turn: all of them if none is given.
// They go on waiting until the servers are as fast as ever: see Serve. Leave ends the line, also if not so many came to
// wait, which ends the scene.
func (l *Line) LineUp(a *lab.Act, n int, through ...*harness.Gateway) {
	const slow = 0.05 // a token in 2 s
	lab.Check(a.Site.SetSpeed(slow))
	if len(through) == 0 {
		through = a.Site.Gateways
	}
	ctx, cancel := context.WithCancel(a.Ctx)
	l.cancel = cancel
	// The servers take some, and go on to while the others arrive.
	each := (n + 3*Taken(a.Settings)*len(a.Site.Servers()) + len(through) - 1) / len(through)
	for _, g := range through {
		client := audit.Client(g, "", lab.Patience)
		t := audit.NewTraffic(client, 0, a.Rand.Uint64(), stays)
		t.Burst(ctx, each)
		l.traffic, l.clients = append(l.traffic, t), append(l.clients, client)
	}
	Await(a, n, a.Site.Gateways...)
}

// stays is a request of three tokens: a single one comes at once from a server without streams, however slow it is.
func stays(r *rand.Rand, id int) loadgen.Request { return audit.Answer(r, id, 3) }

// Tally returns how the requests have ended so far.
func (l *Line) Tally() (sum audit.Tally) {
	for _, t := range l.traffic {
		sum.Add(t.Tally())
	}
	return sum
}

// Ended waits for the end of all requests, and returns how they ended.
func (l *Line) Ended() audit.Tally {
	for _, t := range l.traffic {
		t.Pause()
	}
	return l.Tally()
}

// Leave closes the connections of those that are left.
func (l *Line) Leave() {
	if l.cancel != nil {
		l.cancel()
	}
	l.Ended()
	for _, c := range l.clients {
		c.Close()
	}
}

// Serve makes the servers as fast as ever, and waits until all who wait are served.
func (l *Line) Serve(a *lab.Act) {
	lab.Check(a.Site.SetSpeed(1))
	start := time.Now()
	tally := l.Ended()
	a.NoteMS("served_ms", time.Since(start))
	lab.Each(func() { a.Count(tally, nil) }, func() { Emptied(a) })
}

// Leavers has clients leave while their requests wait, all the time, and one in eight stay.
func Leavers(a *lab.Act) {
	before := left(a)
	start, gone := time.Now(), 0.0
	lab.Each(func() {
		const rate = 2000 // more than there is room for
		a.Play(lab.Load{
			Rate: rate * float64(len(a.Site.Gateways)), Timeout: lab.Patience, Request: leaver,
			Most: a.Crowd / len(a.Site.Gateways),
		}, func() {
			a.Until(func() {
				gone = left(a) - before
				lab.FailIf(gone < float64(a.QueueLeavers), "%v clients have left the queue, want %d", gone,
					a.QueueLeavers)
			})
		})
	}, func() {
		a.Note("left_queue", gone)
		a.Note("left_per_s", gone/time.Since(start).Seconds())
		Emptied(a)
	})
	a.NoteMS("released_ms", a.Agreed())
}

// left returns how many clients have left so far while they waited, by the plugin's own count.
func left(a *lab.Act) (sum float64) {
	for _, g := range a.Site.Gateways {
		sum += lab.Must(g.Sum(a.Ctx, `^wasmcustom\.warmgate_queue_left_total;cluster=llm;`))
	}
	return sum
}

// leaver is a request whose client leaves at a random moment, nearly always while it waits, or stays.
func leaver(r *rand.Rand, id int) loadgen.Request {
	q := audit.Short(r, id)
	q.Leave = loadgen.Leave{At: loadgen.BeforeFirstByte, After: time.Duration(r.IntN(400)) * time.Millisecond}
	switch r.IntN(8) {
	case 0:
		q.Leave = loadgen.Leave{}
	case 1:
		q.Leave.At = loadgen.MidUpload
	}
	return q
}
