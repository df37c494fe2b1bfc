package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// In these scenes requests wait in a queue: each endpoint takes few, and some of these are the streams that are open
// during the scene.

// taken returns how many requests an endpoint takes: its share of the streams and two more.
func (s *settings) taken() int { return (s.streams+s.servers-1)/s.servers + 2 }

// withQueue adds a queue to a configuration in which no request ever waits too long. An endpoint takes so many.
func withQueue(config string, taken int) string {
	members := fmt.Sprintf(`"max_inflight":%d,"queue":{"max_wait":"1h","max_length":20000},`, taken)
	return strings.Replace(config, `"debug_headers"`, members+`"debug_headers"`, 1)
}

// configs returns the configuration of a place in which nothing is broken, and that with a queue. Where many arrive at
// once, Redis may take its time.
func (a *act) configs() (usual, queue string) {
	if a.place.redis != nil {
		return redisConfig, withQueue(patient, a.taken())
	}
	return audit.Config(), withQueue(audit.Config(), a.taken())
}

// queueLength returns how many requests wait, as a gateway shows it: up to a second old.
func queueLength(ctx context.Context, g *harness.Gateway) (int, error) {
	n, err := g.Sum(ctx, `^wasmcustom\.warmgate_queue_length;cluster=`+scope+`;`)
	return int(n), err
}

// awaitQueue waits until every gateway that is left shows at least so many waiting requests, or none with 0.
func (a *act) awaitQueue(least int, gateways ...*harness.Gateway) error {
	return a.until(patience, func() error {
		for _, g := range gateways {
			n, err := queueLength(a.ctx, g)
			if err != nil {
				return err
			}
			if n < least || least == 0 && n > 0 {
				return fmt.Errorf("%d requests wait, want %d", n, least)
			}
		}
		return nil
	})
}

// emptied waits until no request waits at any gateway, which takes no longer than a second and the age of the gauges.
func (a *act) emptied() error {
	start := time.Now()
	err := a.awaitQueue(0, a.site.Gateways...)
	took := time.Since(start)
	a.result.Figures["emptied_ms"] = max(a.result.Figures["emptied_ms"], float64(took.Milliseconds()))
	if most := 2*time.Second + busy; err == nil && took > most {
		err = fmt.Errorf("the queue was empty only after %v", took)
	}
	return err
}

// line is clients whose requests wait, or have waited, in a queue.
type line struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	tally audit.Tally
}

// lineUp slows all servers down and has so many requests wait, through the gateways in turn: all of them if none is
// given. They go on waiting until the servers are as fast as ever: see act.serve.
func (a *act) lineUp(n int, through ...int) (*line, error) {
	const slow = 0.05 // a token in 2 s
	if err := a.site.SetSpeed(slow); err != nil {
		return nil, err
	}
	if len(through) == 0 {
		for i := range a.site.Gateways {
			through = append(through, i)
		}
	}
	ctx, cancel := context.WithCancel(a.ctx)
	l := &line{cancel: cancel, tally: audit.Tally{Errors: map[string]int{}}}
	// The servers take some, and go on to while the others arrive.
	more := 3 * a.taken() * len(a.site.Servers())
	for i := range n + more {
		client := a.site.Client(through[i%len(through)], "", 5*time.Minute)
		// A single token comes at once from a server without streams, however slow it is.
		q := audit.Answer(rand.New(rand.NewPCG(a.seed, uint64(i))), i, 3)
		l.tally.Sent++
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			defer client.Close()
			l.count(client.Do(ctx, &q, time.Now()))
		}()
	}
	return l, a.awaitQueue(n, a.site.Gateways...)
}

func (l *line) count(s loadgen.Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.OK() {
		l.tally.OK++
		return
	}
	l.tally.Errors[s.Error]++
	if l.tally.First == "" {
		l.tally.First = fmt.Sprintf("request %d: %s: %.200s", s.ID, s.Error, s.Detail)
	}
}

// leave closes the connections of those that are left.
func (l *line) leave() {
	l.cancel()
	l.done.Wait()
}

// serve makes the servers as fast as ever, and waits until all who wait are served. lost returns how many of them may
// not be.
func (a *act) serve(l *line, lost func(audit.Tally) int) error {
	if err := a.site.SetSpeed(1); err != nil {
		return err
	}
	start := time.Now()
	l.done.Wait()
	a.result.Figures["served_ms"] = max(a.result.Figures["served_ms"], float64(time.Since(start).Milliseconds()))
	return errors.Join(a.count(l.tally, lost), a.emptied())
}

// queued plays with a queue.
func queued(play func(*act) error) func(*act) error {
	return func(a *act) error {
		usual, queue := a.configs()
		if err := a.push(queue); err != nil {
			return err
		}
		return errors.Join(play(a), a.push(usual))
	}
}

// leaveQueue has clients leave while their requests wait, all the time, and one in eight stay.
func leaveQueue(a *act) error {
	before, err := a.leftQueue()
	if err != nil {
		return err
	}
	start, left := time.Now(), 0.0
	err = a.press(func() error {
		return a.until(patience, func() error {
			now, err := a.leftQueue()
			if left = now - before; err == nil && left < float64(a.queueLeavers) {
				err = fmt.Errorf("%v clients have left the queue, want %d", left, a.queueLeavers)
			}
			return err
		})
	})
	a.result.Figures["left_queue"], a.result.Figures["left_per_s"] = left, left/time.Since(start).Seconds()
	if err = errors.Join(err, a.emptied()); err != nil {
		return err
	}
	_, took, err := a.site.AgreeWith(a.ctx, a.streams.Open)
	a.result.Figures["released_ms"] = float64(took.Milliseconds())
	return err
}

// press keeps a crowd of requests under way during something, more than the servers take.
func (a *act) press(during func() error) error {
	var all []*audit.Traffic
	for i := range a.site.Gateways {
		client := a.site.Client(i, "", 5*time.Minute)
		defer client.Close()
		const rate = 2000 // more than there is room for
		t := audit.NewTraffic(client, rate, a.rand.Uint64(), queueLeaver)
		t.Most = a.crowd / len(a.site.Gateways)
		t.Start(a.ctx)
		all = append(all, t)
	}
	err := during()
	for _, t := range all {
		t.Pause()
		err = errors.Join(err, a.count(t.Tally(), none))
	}
	return err
}

// leftQueue returns how many clients have left so far while they waited, by the plugin's own count.
func (a *act) leftQueue() (sum float64, err error) {
	for _, g := range a.site.Gateways {
		n, err := g.Sum(a.ctx, `^wasmcustom\.warmgate_queue_left_total;cluster=`+scope+`;`)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// queueLeaver is a request whose client leaves at a random moment, nearly always while it waits, or stays.
func queueLeaver(r *rand.Rand, id int) loadgen.Request {
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

// queueRemoved pushes configurations without the queue while requests wait: all of them must be served.
func queueRemoved(a *act) error {
	for _, without := range []string{
		strings.Replace(audit.Config(), "{", `{"enabled":false,`, 1),
		audit.Config(fmt.Sprintf(`"max_inflight":%d`, a.taken())),
		audit.Config(`"unit":"tokens"`),
	} {
		if err := a.push(withQueue(audit.Config(), a.taken())); err != nil {
			return err
		}
		l, err := a.lineUp(a.crowd)
		if err == nil {
			err = a.site.Gateway.PushPlugin(a.ctx, without)
		}
		if err == nil {
			err = a.serve(l, none)
		}
		l.leave()
		if err != nil {
			return fmt.Errorf("without a queue by %s: %w", without, err)
		}
	}
	return nil
}

// vmLostWaiting ends the VM of one worker while requests wait. Those of that worker are lost with it, and no others;
// what they were granted is free for the others within the TTL.
func vmLostWaiting(a *act) error {
	l, err := a.lineUp(a.crowd)
	defer l.leave()
	if err != nil {
		return err
	}
	if _, _, err := get(a.ctx, a.site.Gateway.URL(), false, "fatal"); err != nil {
		return err
	}
	at := time.Now()
	a.result.Requests++
	a.result.Excused++
	if err := a.site.SetSpeed(1); err != nil {
		return err
	}
	lost, err := a.awaitLost(l)
	a.result.Figures["waiters_lost"] = float64(lost)
	if err != nil {
		return err
	}
	returned, err := a.awaitReturn(at)
	if err != nil {
		return err
	}
	a.mayCut = a.streams.Failed("")
	a.result.Figures["streams_cut"] = float64(a.mayCut)
	if most := leaseTTL + 2*time.Second + 4*busy; returned > most {
		return fmt.Errorf("all was counted right only after %v", returned)
	}
	l.leave()
	return errors.Join(a.count(l.tally, func(audit.Tally) int { return lost }), a.emptied())
}

// awaitLost waits until only the requests of the lost VM are left, and returns how many these are. Most of them get no
// answer before their connection has been idle for too long.
func (a *act) awaitLost(l *line) (lost int, err error) {
	err = a.until(patience, func() error {
		n, err := queueLength(a.ctx, a.site.Gateway)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d requests wait", n)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	a.sleep(2 * time.Second) // for answers that are under way
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost = l.tally.Sent - l.tally.OK; lost == 0 || l.tally.OK == 0 {
		return lost, fmt.Errorf("%d of %d requests are lost, want those of one worker", lost, l.tally.Sent)
	}
	return lost, nil
}
