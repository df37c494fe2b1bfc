package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// death is what one round has shown in which many owners die at once, in ms.
type death struct {
	scripts  map[string]float64 // the longest call of each by one owner, in CPU time
	p99      float64            // of the waits of requests in that time
	returned float64            // until the last lease of the dead was returned
}

// longest returns what the longest call of any script took.
func (d death) longest() float64 { return slices.Max(slices.Collect(maps.Values(d.scripts))) }

const (
	mourned  = 256 // endpoints
	deadline = 2 * time.Minute
)

func (rep *report) collectDeaths(ctx context.Context, server *redisserver.Server, progress io.Writer) error {
	for range rep.settings.Rounds {
		d, err := die(ctx, rep.settings, server)
		if err != nil {
			return fmt.Errorf("%d owners die: %w", rep.settings.dead, err)
		}
		rep.deaths = append(rep.deaths, d)
		fmt.Fprintf(progress, "%d owners die: the longest call %.2f ms, returned after %.0f ms, p99 of waits %.2f ms\n",
			rep.settings.dead, d.longest(), d.returned, d.p99)
	}
	return nil
}

// die plays one round: the owners come, all but one die, that one returns their leases, and then all counts are lost.
func die(ctx context.Context, s settings, server *redisserver.Server) (d death, err error) {
	if _, err := server.Do("FLUSHALL"); err != nil {
		return d, err
	}
	owners, err := openOwners(s, server, s.dead+2)
	defer func() {
		for _, w := range owners {
			err = errors.Join(err, w.Close())
		}
	}()
	if err != nil {
		return d, err
	}
	stays, other := owners[0], owners[1]
	stays.scale = &scale{Conn: stays.Conn, server: server, longest: map[string]float64{}}
	stays.store = newStore(stays.scale, 1)
	for _, w := range append(owners[2:], stays) {
		if err := w.fill(s.leases); err != nil {
			return d, err
		}
	}
	keys := redisclient.KeysOf(clusterName(mourned))
	if err := silence(server, keys.Owners, 2+s.dead); err != nil {
		return d, err
	}
	stays.scale.longest = map[string]float64{}
	if d.returned, d.p99, err = stays.inheritBeside(ctx, other, server, s.leases); err != nil {
		return d, err
	}
	err = stays.recover(server, keys.Table, s.leases)
	d.scripts = stays.scale.longest
	return d, err
}

// openOwners returns those that are connected, also with an error.
func openOwners(s settings, server *redisserver.Server, n int) (owners []*warmgateClient, _ error) {
	for i := range n {
		c, err := pipe.Dial(server.Addr())
		if err != nil {
			return owners, err
		}
		owners = append(owners, openWarmgate(c, s, uint64(i+1), addresses(mourned)).(*warmgateClient))
	}
	return owners, nil
}

// inheritBeside is inherit while another owner makes requests, with the p99 of their waits in ms.
func (w *warmgateClient) inheritBeside(ctx context.Context, other *warmgateClient, server *redisserver.Server,
	want int,
) (returned, p99 float64, err error) {
	stop, waits := make(chan struct{}), make(chan waited, 1)
	go other.goOn(ctx, stop, waits)
	returned, err = w.inherit(server, want)
	close(stop)
	got := <-waits
	if err = errors.Join(err, got.err); err != nil {
		return 0, 0, err
	}
	return returned, got.p99(), nil
}

// fill reserves so many leases.
func (w *warmgateClient) fill(n int) error {
	for i := range n {
		w.reserve()
		if i%64 == 0 || i == n-1 {
			if err := w.settle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// silence makes all owners dead except those that send heartbeats from now on: it sets their latest heartbeats long
// into the past.
func silence(server *redisserver.Server, key string, most int) error {
	owners, err := server.Do("ZRANGE", key, 0, most)
	if err != nil {
		return err
	}
	for _, owner := range owners.Array() {
		if _, err := server.Do("ZINCRBY", key, -time.Hour.Milliseconds(), owner.String()); err != nil {
			return err
		}
	}
	return nil
}

// waited are the times that requests waited for the answer to their reservation, in ms.
type waited struct {
	times []float64
	err   error
}

func (w waited) p99() float64 {
	slices.Sort(w.times)
	return w.times[len(w.times)*99/100]
}

// goOn makes requests one after the other until it is stopped.
func (w *warmgateClient) goOn(ctx context.Context, stop chan struct{}, out chan waited) {
	var got waited
	for got.err == nil {
		start := time.Now()
		w.reserve()
		got.err = w.settle()
		got.times = append(got.times, time.Since(start).Seconds()*1000)
		if got.err == nil {
			w.release()
			got.err = errors.Join(w.settle(), ctx.Err())
		}
		select {
		case <-stop:
			out <- got
			return
		case <-time.After(200 * time.Microsecond):
		}
	}
	out <- got
}

// inherit sends heartbeats until the leases of the dead are returned, and returns after how many ms that was. The
// counts must be its own leases then, and those of the owner that makes one request after the other.
func (w *warmgateClient) inherit(server *redisserver.Server, want int) (float64, error) {
	for start := time.Now(); ; {
		w.heartbeat()
		if err := w.settle(); err != nil {
			return 0, err
		}
		took := time.Since(start)
		n, err := counted(server)
		switch {
		case err != nil:
			return 0, err
		case n == int64(want) || n == int64(want)+1:
			return took.Seconds() * 1000, nil
		case took > deadline:
			return 0, fmt.Errorf("%d requests are counted, want %d", n, want)
		}
	}
}

// recover deletes the counts, and sends heartbeats until they are complete again. Lists of endpoints are sent and loads
// queried, too.
func (w *warmgateClient) recover(server *redisserver.Server, table string, want int) error {
	if _, err := server.Do("DEL", table); err != nil {
		return err
	}
	for range 2 {
		w.heartbeat()
		w.store.Loads(w.Now(), w.plan.Scope, addresses(mourned), func(_ []lb.Load, err error) {
			w.failed = errors.Join(w.failed, err)
		})
		w.reserve()
		if err := w.settle(); err != nil {
			return err
		}
		w.release()
		if err := w.settle(); err != nil {
			return err
		}
	}
	if n, err := counted(server); err != nil || n != int64(want) {
		return errors.Join(err, fmt.Errorf("%d requests are counted after a loss, want %d", n, want))
	}
	return nil
}

// counted returns how many requests are in flight.
func counted(server *redisserver.Server) (n int64, _ error) {
	loads, err := loadsOfTable(server, mourned)
	for _, l := range loads {
		n += l
	}
	return n, err
}

// scale is a connection over which one command goes at a time, and takes the CPU time that the server spends until its
// answer: that of the command, of reading and answering it, and of what others sent until then. Time by the clock would
// include the machine's other work.
type scale struct {
	*pipe.Conn
	server  *redisserver.Server
	queue   [][]byte
	done    []redisclient.Done
	longest map[string]float64 // by script, ms
}

// Do implements redisclient.Transport.
func (c *scale) Do(_ time.Duration, cmd []byte, done redisclient.Done) {
	c.queue, c.done = append(c.queue, bytes.Clone(cmd)), append(c.done, done)
}

func (c *scale) settle() error {
	for len(c.queue) > 0 {
		cmd, done := c.queue[0], c.done[0]
		c.queue, c.done = c.queue[1:], c.done[1:]
		v, _, err := redisclient.Parse(cmd)
		if err != nil {
			return err
		}
		before, err := mainThread(c.server)
		if err != nil {
			return err
		}
		c.Conn.Do(0, cmd, done)
		if err := c.Conn.Flush(); err != nil {
			return err
		}
		after, err := mainThread(c.server)
		if err != nil {
			return err
		}
		if name := redisclient.ScriptName(string(v.Items[1].Str)); name != "" {
			c.longest[name] = max(c.longest[name], (after-before).Seconds()*1000)
		}
	}
	return nil
}

func (rep *report) scriptNames() []string {
	names := map[string]bool{}
	for _, d := range rep.deaths {
		for name := range d.scripts {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func returnedOf(d *death) float64 { return d.returned }
func waitOf(d *death) float64     { return d.p99 }

// longestOf returns what the longest call of a script took.
func longestOf(name string) func(*death) float64 {
	return func(d *death) float64 { return d.scripts[name] }
}

// addDeaths adds medians over the rounds to the last line.
func (rep *report) addDeaths(l bench.Line) {
	if len(rep.deaths) == 0 {
		return
	}
	most, scripts := bench.SpreadBy(rep.deaths, (*death).longest), bench.Line{}
	l.Figure("script_ms_max", &most)
	for _, name := range rep.scriptNames() {
		scripts[name] = bench.SpreadBy(rep.deaths, longestOf(name)).Median
	}
	l["script_ms"] = scripts
	bench.Medians(l, rep.deaths, map[string]func(*death) float64{
		"script_wait_p99_ms": waitOf, "returned_ms": returnedOf,
	})
}

func (rep *report) deathLines() (lines []string) {
	if len(rep.deaths) == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf(
		"%d owners of %d requests each die at once: returned after %s ms by one other; "+
			"requests waited %s ms at the 99th percentile",
		rep.settings.dead, rep.settings.leases,
		bench.SpreadBy(rep.deaths, returnedOf).Format("%.0f"),
		bench.SpreadBy(rep.deaths, waitOf).Format("%.2f")))
	for _, name := range rep.scriptNames() {
		lines = append(lines, fmt.Sprintf("then, and after the loss of all counts, the longest call of %s %s ms",
			name, bench.SpreadBy(rep.deaths, longestOf(name)).Format("%.2f")))
	}
	return lines
}
