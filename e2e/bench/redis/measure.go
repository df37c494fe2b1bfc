package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// measurement is one run of one contender over one cluster size. Bytes are per request: a reservation and a release.
type measurement struct {
	reserve, release, heartbeat      float64 // the server's time to carry out one, µs
	sent, received                   float64 // bytes, without heartbeats
	heartbeatSent, heartbeatReceived float64 // bytes of one heartbeat of one owner
	path, after                      float64 // round trips that a request waits for, and those of its release
	// of the throughput run: CPU µs per request, requests/s, share of one core that was busy
	cpu, rate, share float64
}

// request is the server's time for a whole request.
func (m measurement) request() float64 { return m.reserve + m.release }

// bytes is a request's share of all traffic when each owner has the given requests/s.
func (m measurement) bytes(rate float64) float64 {
	return m.sent + m.received + (m.heartbeatSent+m.heartbeatReceived)/rate
}

// samples are what one contender's turns in a round have shown.
type samples struct {
	reserves, releases []float64    // the server's time by phase, µs
	used               pipe.Traffic // of the phases
	heartbeat          float64      // the server's time, µs
	heartbeats         pipe.Traffic // of one heartbeat of every owner
	path, after        pipe.Traffic // of requests that come one by one: reservations, releases
	cpu, took          time.Duration
	requests           int // at full speed
}

const (
	phase  = 256                   // reservations, and then releases, that are timed together
	slice  = 50 * time.Millisecond // of a contender's time at full speed
	single = 100                   // requests that come one by one
)

// part is a step of a measurement.
type part struct {
	turns int
	step  func(*stage) error
}

// parts are the steps that take every figure. The endpoints have a steady load in that time.
func (s settings) parts(ctx context.Context) []part {
	return []part{
		{1, (*stage).warm},
		{1, (*stage).fill},
		{s.phases(), (*stage).timePhase},
		{1, (*stage).timeHeartbeat},
		{1, (*stage).countTrips},
		{s.slices(), func(r *stage) error { return r.hurry(ctx) }},
		{1, (*stage).drain},
	}
}

// measure takes the figures of every contender once. They take turns in small steps, so that a disturbance of the
// machine affects all of them alike.
func measure(ctx context.Context, stages []*stage, round int, parts []part) ([]measurement, error) {
	for _, part := range parts {
		for turn := range part.turns {
			for _, i := range bench.Order(len(stages), round+turn) {
				if err := errors.Join(part.step(stages[i]), ctx.Err()); err != nil {
					return nil, fmt.Errorf("%s, %d endpoints: %w", stages[i].name, stages[i].endpoints, err)
				}
			}
		}
	}
	out := make([]measurement, len(stages))
	for i, r := range stages {
		out[i] = r.samples.measurement(len(r.clients))
		r.samples = samples{}
	}
	return out, nil
}

func (s settings) phases() int { return max(1, s.calls/phase) }

func (s settings) slices() int { return max(1, int(s.span/slice)) }

// measurement sums the samples up. The server's statistics count time on the clock, so that another process may disturb
// a phase; the median over the phases leaves that out.
func (p samples) measurement(owners int) measurement {
	n, each := float64(phase*len(p.reserves)), float64(owners)
	return measurement{
		reserve: bench.SpreadOf(p.reserves).Median, release: bench.SpreadOf(p.releases).Median, heartbeat: p.heartbeat,
		sent: float64(p.used.Sent) / n, received: float64(p.used.Received) / n,
		heartbeatSent: float64(p.heartbeats.Sent) / each, heartbeatReceived: float64(p.heartbeats.Received) / each,
		path: float64(p.path.Trips) / single, after: float64(p.after.Trips) / single,
		cpu:   float64(p.cpu) / float64(time.Microsecond) / float64(p.requests),
		rate:  float64(p.requests) / p.took.Seconds(),
		share: p.cpu.Seconds() / p.took.Seconds(),
	}
}

// timePhase takes the server's time per reservation and per release, from its statistics of commands.
func (r *stage) timePhase() error {
	if err := r.keepUp(); err != nil {
		return err
	}
	before := r.traffic()
	for _, step := range []struct {
		do    func(client)
		by    []string
		times *[]float64
	}{
		{client.reserve, []string{"evalsha", "eval"}, &r.samples.reserves},
		{client.release, []string{"evalsha", "hincrby"}, &r.samples.releases},
	} {
		took, err := r.timed(phase, func() error { return r.each(phase, step.do) }, step.by...)
		if err != nil {
			return err
		}
		*step.times = append(*step.times, took)
	}
	r.samples.used = r.samples.used.Plus(r.traffic().Minus(before))
	return nil
}

// timed returns the server's time per command, in µs, for n of the named ones. Commands that scripts call are part of
// the script and are counted beside it too, so the names are those of what the clients send.
func (r *stage) timed(n int64, do func() error, commands ...string) (float64, error) {
	before, err := r.server.CommandStats()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := r.server.CommandStats()
	if err != nil {
		return 0, err
	}
	var calls int64
	var took time.Duration
	for _, name := range commands {
		calls += after[name].Calls - before[name].Calls
		took += after[name].Time - before[name].Time
	}
	if calls != n {
		return 0, fmt.Errorf("the server carried out %d of %v, want %d", calls, commands, n)
	}
	return float64(took) / float64(time.Microsecond) / float64(calls), nil
}

func (r *stage) traffic() pipe.Traffic {
	var sum pipe.Traffic
	for _, c := range r.clients {
		sum = sum.Plus(c.Seen())
	}
	return sum
}

// timeHeartbeat takes what an owner does once a second, with its share of the steady load.
func (r *stage) timeHeartbeat() error {
	if r.name != warmgate {
		return nil // the others do nothing
	}
	before := r.traffic()
	took, err := r.timed(int64(len(r.clients)), r.heartbeatAll, "evalsha")
	r.samples.heartbeat, r.samples.heartbeats = took, r.traffic().Minus(before)
	return err
}

// countTrips counts the round trips of requests that come one by one.
func (r *stage) countTrips() error {
	c := r.clients[0]
	for range single {
		for _, step := range []struct {
			do   func(client)
			used *pipe.Traffic
		}{{client.reserve, &r.samples.path}, {client.release, &r.samples.after}} {
			before := c.Seen()
			step.do(c)
			if err := c.settle(); err != nil {
				return err
			}
			*step.used = step.used.Plus(c.Seen().Minus(before))
		}
	}
	return nil
}

// hurry has all owners reserve and release as fast as they can for a while, and takes the CPU time of the server's main
// thread.
func (r *stage) hurry(ctx context.Context) error {
	before, err := mainThread(r.server)
	if err != nil {
		return err
	}
	if err := r.keepUp(); err != nil {
		return err
	}
	started := time.Now()
	requests, err := r.busyUntil(ctx, started.Add(r.settings.span/time.Duration(r.settings.slices())))
	r.samples.requests += requests
	r.samples.took += time.Since(started)
	after, err2 := mainThread(r.server)
	r.samples.cpu += after - before
	return errors.Join(err, err2)
}

// busyUntil has all owners reserve and release until the time, and returns how many requests that were.
func (r *stage) busyUntil(ctx context.Context, until time.Time) (all int, _ error) {
	requests := make([]int, len(r.clients))
	err := wait.All(len(r.clients), func(i int) (err error) {
		for err == nil && ctx.Err() == nil && time.Now().Before(until) {
			err = together(r.clients[i], r.settings.depth)
			requests[i] += r.settings.depth
		}
		return err
	})
	for _, n := range requests {
		all += n
	}
	return all, err
}

// together makes n reservations at once, and then as many releases.
func together(c client, n int) error {
	for _, do := range []func(client){client.reserve, client.release} {
		for range n {
			do(c)
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
	return nil
}

// mainThread returns the CPU time of the thread that carries out commands.
func mainThread(s *redisserver.Server) (time.Duration, error) {
	info, err := s.Info("cpu")
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, field := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		seconds, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s:%s: %w", field, info[field], err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// stage is one contender with its owners, at one cluster size.
type stage struct {
	contender
	server      *redisserver.Server
	endpoints   int
	clients     []client
	settings    settings
	heartbeatAt time.Time // of the owners' latest heartbeats
	samples     samples   // of the round
}

func start(s settings, server *redisserver.Server, c contender, endpoints int) (*stage, error) {
	r := &stage{contender: c, server: server, endpoints: endpoints, settings: s}
	for i := range s.owners {
		conn, err := pipe.Dial(server.Addr())
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		// As wide as owners are in the plugin.
		r.clients = append(r.clients, c.open(conn, s, 0xc0ffee00c0ffee00+uint64(i), addresses(endpoints)))
	}
	return r, nil
}

func (r *stage) close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// each has the owners do something n times in all, depth at once.
func (r *stage) each(n int, do func(client)) error {
	batch := min(r.settings.depth, max(1, n/len(r.clients)))
	for done, i := 0, 0; done < n; i++ {
		c := r.clients[i%len(r.clients)]
		for range min(batch, n-done) {
			do(c)
			done++
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
	return nil
}

// warm has every owner send the server what it needs before it carries out requests: scripts, endpoints, itself.
func (r *stage) warm() error {
	return errors.Join(r.each(len(r.clients), client.reserve), r.heartbeatAll(), r.drain())
}

// fill puts the steady load on the endpoints. It must be spread evenly, or this is not the least-request algorithm.
func (r *stage) fill() error {
	if err := r.each(r.settings.held*r.endpoints, client.reserve); err != nil {
		return err
	}
	return r.audit(int64(r.settings.held))
}

// keepUp has the owners send heartbeats when these are due.
func (r *stage) keepUp() error {
	if time.Since(r.heartbeatAt) < time.Second {
		return nil
	}
	return r.heartbeatAll()
}

func (r *stage) heartbeatAll() error {
	r.heartbeatAt = time.Now()
	for _, c := range r.clients {
		c.heartbeat()
		if err := c.settle(); err != nil {
			return err
		}
	}
	return nil
}

// drain ends every request.
func (r *stage) drain() error {
	for _, c := range r.clients {
		for c.inFlight() > 0 {
			for range min(r.settings.depth, c.inFlight()) {
				c.release()
			}
			if err := c.settle(); err != nil {
				return err
			}
		}
	}
	return r.audit(0)
}

// audit returns an error unless Redis counts just so many requests at every endpoint.
func (r *stage) audit(want int64) error {
	loads, err := r.loads(r.server, r.endpoints)
	if err != nil {
		return err
	}
	for _, addr := range addresses(r.endpoints) {
		if loads[addr] != want {
			return fmt.Errorf("%d requests are counted at %s, want %d: a run that miscounts measures nothing",
				loads[addr], addr, want)
		}
	}
	return nil
}
