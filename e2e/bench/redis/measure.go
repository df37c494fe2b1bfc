package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// measurement is one run of one contender over one cluster size. Bytes are per request: a reservation and a release.
type measurement struct {
	reserve, release, beat float64 // the server's time to carry out one, µs
	sent, received         float64 // bytes, without beats
	beatSent, beatReceived float64 // bytes of one beat of one owner
	path, after            float64 // round trips that a request waits for, and those of its release
	cpu, rate, share       float64 // of the throughput run: CPU µs per request, requests/s, share of one core that was busy
}

// request is the server's time for a whole request.
func (m measurement) request() float64 { return m.reserve + m.release }

// bytes is a request's share of all traffic when each owner has the given requests/s.
func (m measurement) bytes(rate float64) float64 {
	return m.sent + m.received + (m.beatSent+m.beatReceived)/rate
}

// stage is one contender with its owners, at one cluster size.
type stage struct {
	contender
	server    *redisserver.Server
	endpoints int
	clients   []client
	settings  settings
}

func start(s settings, server *redisserver.Server, c contender, endpoints int) (*stage, error) {
	r := &stage{contender: c, server: server, endpoints: endpoints, settings: s}
	for i := range s.owners {
		conn, err := dial(server.Addr())
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
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// measure takes every figure once. The endpoints carry a steady load meanwhile.
func (r *stage) measure(ctx context.Context) (measurement, error) {
	var m measurement
	for _, step := range []func(*measurement) error{
		r.warm, r.fill, r.measureScripts, r.measureBeat, r.measureTrips,
		func(m *measurement) error { return r.measureThroughput(ctx, m) }, r.drain,
	} {
		if err := errors.Join(step(&m), ctx.Err()); err != nil {
			return m, fmt.Errorf("%s, %d endpoints: %w", r.name, r.endpoints, err)
		}
	}
	return m, nil
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
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// warm has every owner tell the server what it must know before it carries out requests: scripts, endpoints, itself.
func (r *stage) warm(*measurement) error {
	return errors.Join(r.each(len(r.clients), client.reserve), r.beatAll(), r.drain(nil))
}

// fill puts the steady load on the endpoints. It must be spread evenly, or this is not the least-request algorithm.
func (r *stage) fill(*measurement) error {
	if err := r.each(r.settings.held*r.endpoints, client.reserve); err != nil {
		return err
	}
	return r.audit(int64(r.settings.held))
}

func (r *stage) beatAll() error {
	for _, c := range r.clients {
		c.beat()
		if err := c.flush(); err != nil {
			return err
		}
	}
	return nil
}

// drain ends every request.
func (r *stage) drain(*measurement) error {
	for _, c := range r.clients {
		for c.inFlight() > 0 {
			for range min(r.settings.depth, c.inFlight()) {
				c.release()
			}
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	return r.audit(0)
}

// audit says whether Redis counts just so many requests at every endpoint.
func (r *stage) audit(want int64) error {
	loads, err := r.loads(r.server, r.endpoints)
	if err != nil {
		return err
	}
	for _, addr := range addresses(r.endpoints) {
		if loads[addr] != want {
			return fmt.Errorf("%d requests are counted at %s, want %d; at least %d and at most %d anywhere: a run that miscounts measures nothing",
				loads[addr], addr, want, slices.Min(slices.Collect(maps.Values(loads))), slices.Max(slices.Collect(maps.Values(loads))))
		}
	}
	return nil
}

// phase is how many reservations, and then releases, are counted together.
const phase = 256

// measureScripts takes the server's time per reservation and per release, from its statistics of commands. They count time on
// the clock, so that another process may disturb a phase; the median over the phases leaves that out.
func (r *stage) measureScripts(m *measurement) error {
	var reserves, releases []float64
	before := r.traffic()
	for range max(1, r.settings.calls/phase) {
		took, err := r.timed(phase, func() error { return r.each(phase, client.reserve) }, "evalsha", "eval")
		if err != nil {
			return err
		}
		reserves = append(reserves, took)
		if took, err = r.timed(phase, func() error { return r.each(phase, client.release) }, "evalsha", "hincrby"); err != nil {
			return err
		}
		releases = append(releases, took)
	}
	m.reserve, m.release = bench.SpreadOf(reserves).Median, bench.SpreadOf(releases).Median
	used := r.traffic().minus(before)
	n := float64(phase * len(reserves))
	m.sent, m.received = float64(used.sent)/n, float64(used.received)/n
	return nil
}

// timed returns the server's time per command, in µs, for n of the named ones. Commands that scripts call are part of the script
// and are counted beside it too, so the names are those of what the clients send.
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

func (r *stage) traffic() traffic {
	var sum traffic
	for _, c := range r.clients {
		sum = sum.plus(c.seen())
	}
	return sum
}

// measureBeat takes what an owner does once a second, with its share of the steady load.
func (r *stage) measureBeat(m *measurement) error {
	if r.name != warmgate {
		return nil // the others do nothing
	}
	n := len(r.clients)
	before := r.traffic()
	took, err := r.timed(int64(n), r.beatAll, "evalsha")
	if err != nil {
		return err
	}
	used := r.traffic().minus(before)
	m.beat, m.beatSent, m.beatReceived = took, float64(used.sent)/float64(n), float64(used.received)/float64(n)
	return nil
}

// measureTrips counts round trips of requests that come one by one.
func (r *stage) measureTrips(m *measurement) error {
	const n = 100
	var path, after int64
	for range n {
		for _, step := range []struct {
			do    func(client)
			trips *int64
		}{{client.reserve, &path}, {client.release, &after}} {
			before := r.clients[0].seen()
			step.do(r.clients[0])
			if err := r.clients[0].flush(); err != nil {
				return err
			}
			*step.trips += r.clients[0].seen().minus(before).trips
		}
	}
	m.path, m.after = float64(path)/n, float64(after)/n
	return nil
}

// measureThroughput has all owners reserve and release as fast as they can, and takes the CPU time of the server's main thread.
func (r *stage) measureThroughput(ctx context.Context, m *measurement) error {
	before, err := mainThread(r.server)
	if err != nil {
		return err
	}
	started := time.Now()
	requests := make([]int, len(r.clients))
	errs := make([]error, len(r.clients))
	var group sync.WaitGroup
	for i, c := range r.clients {
		group.Add(1)
		go func() {
			defer group.Done()
			requests[i], errs[i] = hurry(ctx, c, r.settings.depth, started.Add(r.settings.span))
		}()
	}
	group.Wait()
	took := time.Since(started)
	after, err := mainThread(r.server)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	n := 0
	for _, k := range requests {
		n += k
	}
	m.cpu = float64((after - before).Microseconds()) / float64(n)
	m.rate = float64(n) / took.Seconds()
	m.share = (after - before).Seconds() / took.Seconds()
	return nil
}

// hurry reserves and releases until the given time, and beats once a second. It returns how many requests there were.
func hurry(ctx context.Context, c client, depth int, until time.Time) (int, error) {
	n := 0
	beat := time.Now().Add(time.Second)
	for now := time.Now(); now.Before(until) && ctx.Err() == nil; now = time.Now() {
		if now.After(beat) {
			c.beat()
			beat = now.Add(time.Second)
		}
		for _, do := range []func(client){client.reserve, client.release} {
			for range depth {
				do(c)
			}
			if err := c.flush(); err != nil {
				return n, err
			}
		}
		n += depth
	}
	return n, nil
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
