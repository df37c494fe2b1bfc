package overload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// usual returns the shipped configuration. A quick scene lasts a tenth of the time, and so does its queue.aging.
func usual(s settings) string {
	config := shippedConfig()
	if s.quick {
		config = replaced(config, `"aging": "10s"`, `"aging": "1s"`)
	}
	return config
}

// usualWithRedis returns the same with counts in Redis, for which a quick scene waits on a busy machine, too.
func usualWithRedis(s settings) string {
	const metrics, push = `"metrics_cluster": "warmgate-metrics"`, `"push": "pending"`
	config := replaced(usual(s), metrics, metrics+`, "redis_cluster": "warmgate-redis"`)
	if s.quick {
		config = replaced(config, push, push+`, "reserve_timeout": "10s"`)
	}
	return config
}

// withRedis has the scene played on two gateways with a Redis server.
func withRedis(play playScene) playScene {
	return func(ctx context.Context, _ *board, s settings) (f bench.Line, err error) {
		redis, err := redisserver.Start(ctx, redisserver.Options{})
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, redis.Stop()) }()
		b, err := newBoard(ctx, compare.Options{Gateways: 2, Workers: s.Workers, Redis: redis.Addr()})
		if err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		return play(ctx, b, s)
	}
}

// replaced replaces what must be there once.
func replaced(text, old, with string) string {
	if strings.Count(text, old) != 1 {
		panic(shippedFile + " has not one " + old)
	}
	return strings.Replace(text, old, with, 1)
}

// spanOf returns how long a scene lasts.
func (s settings) spanOf(full, quick time.Duration) time.Duration {
	if s.quick {
		return quick
	}
	return full
}

// refusals is of push: pending with a queue by deadlines, at twice the capacity: the share of the refusals at once that
// were false, see falseRefusals, and that of the other attempts without an answer in time.
func refusals(ctx context.Context, b *board, s settings) (f bench.Line, err error) {
	s.warm, s.span = 3*time.Second, s.spanOf(20*time.Second, 4*time.Second)
	calls, err := Calls(s.Seed, 2, fleet(), s.warm+s.span, false)
	if err != nil {
		return f, err
	}
	c := contenders()[0]
	if err := b.Switch(ctx, c.Policy); err != nil {
		return f, err
	}
	r, err := c.Play(ctx, b.Stage, s.warm, s.span, calls)
	fmt.Printf("refusals: %s\n", columns.Show(&r))
	admitted := int(math.Round(r.attempts*float64(r.calls))) - r.refused
	return bench.Line{
		"refusals_false_share": float64(r.wrongly) / float64(max(1, r.refused)),
		"refusals_late_share":  float64(r.accepted) / float64(max(1, admitted)),
	}, err
}

// sustained is of batch jobs at twice the capacity for a minute, and a few interactive requests beside them, whose
// class has eight times the weight and needs an eighth of the servers. Nobody has a deadline.
func sustained(ctx context.Context, b *board, s settings) (bench.Line, error) {
	l := bench.Line{}
	w, err := b.sustained(ctx, "sustained", s, usual(s))
	w.add(l, "interactive_wait", "interactive")
	return l, err
}

// sustainedRedis is of the same load on two gateways that count in Redis, each with half of both classes, in the
// shipped order and in the strict one.
func sustainedRedis(ctx context.Context, b *board, s settings) (f bench.Line, err error) {
	config := usualWithRedis(s)
	weighted, err := b.sustained(ctx, "sustained_redis", s, config)
	if err != nil {
		return f, err
	}
	strict, err := b.sustained(ctx, "sustained_redis, strict", s, replaced(config, `"weighted"`, `"strict"`))
	for _, g := range b.Gateways {
		up, err2 := g.Sum(ctx, `^wasmcustom\.warmgate_redis_up$`)
		local, err3 := g.Sum(ctx, `^wasmcustom\.warmgate_store_fallbacks_total;`)
		if err = errors.Join(err, err2, err3); err == nil && (up != 1 || local > mostLocal) {
			err = fmt.Errorf("warmgate_redis_up is %v, and %v requests were not counted in Redis", up, local)
		}
	}
	f = bench.Line{}
	weighted.add(f, "interactive_redis_wait", "interactive_redis")
	strict.add(f, "interactive_redis_strict_wait", "interactive_redis_strict")
	return f, err
}

// mostLocal is how many requests a gateway may count itself because Redis was slow: of 440 in the short form, and of
// 5,400 in the full one.
const mostLocal = 100

// sustained plays the load through all gateways in turn, and returns the waits of interactive requests.
func (b *board) sustained(ctx context.Context, name string, s settings, config string) (w waits, err error) {
	span := s.spanOf(time.Minute, 5*time.Second)
	reqs, err := b.stream("batch", s.Seed, 2, span, shippedClass, "batch")
	more, err2 := b.stream("interactive", s.Seed+1, 0.12, span, shippedClass, "interactive")
	if err := errors.Join(err, err2, b.begin(ctx, config)); err != nil {
		return w, err
	}
	parts, samples := make([][]loadgen.Request, len(b.Gateways)), make([][]loadgen.Sample, len(b.Gateways))
	for i, q := range append(reqs, more...) {
		parts[i%len(parts)] = append(parts[i%len(parts)], q)
	}
	_ = wait.All(len(parts), func(i int) error { // errors are in the samples
		samples[i] = b.open(ctx, i, span, parts[i])
		return nil
	})
	reqs, all := slices.Concat(parts...), slices.Concat(samples...)
	w = b.waitsOf("interactive", reqs, all)
	fmt.Printf("%s: interactive: %s; batch: %s\n", name, w, b.waitsOf("batch", reqs, all))
	return w, ctx.Err()
}

// flood is of a tenant with sparse requests beside a thousand clients of another one; beside a thousand that make up a
// name for each request; and beside a thousand that keep theirs, and so are tenants once they are answered.
func flood(ctx context.Context, b *board, s settings) (bench.Line, error) {
	f := bench.Line{}
	for _, kind := range []struct {
		what, name string
		tenant     func(client, n int) string // of its request n
	}{
		{"flood", "flood", func(int, int) string { return "flood" }},
		{"flood of made-up names", "flood_names", func(client, n int) string {
			return fmt.Sprintf("flood%d-%d", client, n)
		}},
		{"flood of names that are kept", "flood_kept_names", func(client, _ int) string {
			return fmt.Sprintf("flood%d", client)
		}},
	} {
		w, err := b.flooded(ctx, s, kind.tenant)
		if err != nil {
			return f, err
		}
		fmt.Printf("%s: the other tenant: %s\n", kind.what, w)
		w.add(f, kind.name+"_other_tenant", kind.name+"_other_tenant")
	}
	return f, nil
}

// flooded returns the waits of a tenant that sends four requests a second, beside clients of the tenants with the
// names, who send the next when they are answered, and again when they are refused.
func (b *board) flooded(ctx context.Context, s settings, tenant func(client, n int) string) (w waits, err error) {
	const clients, waiting = 1000, 400
	span := s.spanOf(24*time.Second, 3*time.Second)
	bodies, err := b.stream("flood", s.Seed, 1, span, shippedClass, "batch")
	other, err2 := b.stream("other", s.Seed+1, 1, span, shippedClass, "batch", shippedTenant, "other")
	if err := errors.Join(err, err2, b.begin(ctx, usual(s))); err != nil {
		return w, err
	}
	other = other[:min(len(other), int(span/(250*time.Millisecond)))]
	for i := range other {
		other[i].Due = time.Duration(i) * 250 * time.Millisecond
	}
	if err := b.introduce(ctx, &other[0]); err != nil {
		return w, err
	}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := b.clientOf(0)
	defer c.Close()
	for i := range clients {
		q := bodies[i%len(bodies)]
		q.Header = q.Header.Clone()
		group.Add(1)
		go func() {
			defer group.Done()
			r := rand.New(rand.NewPCG(s.Seed, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				q.Header.Set(shippedTenant, tenant(i, n))
				if answer := c.Do(ctx, &q, time.Now()); !answer.OK() {
					_ = wait.For(ctx, pauseAfter(&answer, 1, r))
				}
			}
		}()
	}
	if err := wait.Until(ctx, 100*time.Millisecond, func() error {
		n, err := b.Gateway.Sum(ctx, `^wasmcustom\.warmgate_queue_length;`)
		if err == nil && n < waiting {
			err = fmt.Errorf("%v requests wait, want %d", n, waiting)
		}
		return err
	}); err != nil {
		return w, err
	}
	// When the flood has waited for aging, it is at its worst.
	if err := wait.For(ctx, s.spanOf(10*time.Second, time.Second)); err != nil {
		return w, err
	}
	return b.waitsOf("other", other, b.open(ctx, 0, span+s.spanOf(20*time.Second, 0), other)), ctx.Err()
}

// introduce sends the request on connections of its own until, in all likelihood, every worker has answered its tenant:
// until then a tenant waits with all that are new.
func (b *board) introduce(ctx context.Context, q *loadgen.Request) error {
	for range 16 {
		c := b.clientOf(0)
		answer := c.Do(ctx, q, time.Now())
		c.Close()
		if !answer.OK() {
			return fmt.Errorf("an idle gateway answered %d, %v", answer.Status, answer.Error)
		}
	}
	return nil
}

// killWindow is less than until what a killed gateway had at the servers is given to others, and longer than answers
// take.
const killWindow = 4 * time.Second

// kill is of two gateways with Redis, one with as many requests as the servers can answer and one with three times
// that, which is killed while requests wait in both: the longest time in which no request came to a server, after that
// and before, how many requests of the other gateway were at the servers then, and how many came in killWindow.
func kill(ctx context.Context, b *board, s settings) (f bench.Line, err error) {
	if err := b.begin(ctx, usualWithRedis(s)); err != nil {
		return f, err
	}
	before, after := s.spanOf(8*time.Second, 3*time.Second), s.spanOf(12*time.Second, 6*time.Second)
	var group sync.WaitGroup
	for i := range b.Gateways {
		// Most requests that wait are those of the gateway that is killed.
		reqs, err := b.stream(strconv.Itoa(i), s.Seed+uint64(i), float64(1+2*i), before+after, shippedClass, "batch")
		if err != nil {
			return f, err
		}
		group.Add(1)
		go func() {
			defer group.Done()
			b.open(ctx, i, before+after, reqs)
		}()
	}
	defer group.Wait()
	if err := wait.For(ctx, before); err != nil {
		return f, err
	}
	if err := syscall.Kill(b.Gateways[1].PID(), syscall.SIGKILL); err != nil {
		return f, err
	}
	killed, held := b.at("0")
	if err := wait.For(ctx, after-time.Second); err != nil {
		return f, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	placed := 0
	for _, a := range b.arrivals {
		if a.who == "0" && a.at > killed && a.at < killed+killWindow {
			placed++
		}
	}
	gap, gapBefore := b.gap(killed, time.Since(b.start)), b.gap(before/2, killed)
	fmt.Printf("kill: no grant for %.2f s, before that for %.2f s; the other gateway had %d requests at the servers, "+
		"and placed %d in the %v after it\n", gap, gapBefore, held, placed, killWindow)
	return bench.Line{
		"kill_gap_s": gap, "kill_gap_before_s": gapBefore, "kill_held": held, "kill_placed": placed,
	}, nil
}

// gap returns the longest time between two times in which no request came to a server, in s.
func (b *board) gap(from, to time.Duration) float64 {
	times := []time.Duration{from, to}
	for _, a := range b.arrivals {
		if a.at > from && a.at < to {
			times = append(times, a.at)
		}
	}
	slices.Sort(times)
	longest := time.Duration(0)
	for i, at := range times[1:] {
		longest = max(longest, at-times[i])
	}
	return longest.Seconds()
}

// stall is of servers that serve on, but whose /metrics does not answer any more, at twice their capacity: the most in
// flight at a server, over its slots, then, once the last metrics are stale, and before.
func stall(ctx context.Context, b *board, s settings) (f bench.Line, err error) {
	before, after := s.spanOf(30*time.Second, 3*time.Second), s.spanOf(22*time.Second, 7*time.Second)
	reqs, err := b.stream("batch", s.Seed, 2, before+after, shippedClass, "batch")
	if err := errors.Join(err, b.begin(ctx, usual(s))); err != nil {
		return f, err
	}
	var overflow, stale, fullBefore float64
	hang := func(hang bool) {
		for _, srv := range b.Servers {
			t := srv.Tuning()
			t.MetricsHang = hang
			err = errors.Join(err, srv.SetTuning(t))
		}
	}
	defer hang(false)
	for _, step := range []struct {
		at time.Duration
		do func()
	}{
		{before / 2, b.reset}, // what was learned takes a while: nothing is known of the servers at first
		{before, func() {
			fullBefore = b.fullest()
			hang(true)
			b.reset()
		}},
		{before + staleAfter + time.Second, func() {
			overflow = b.fullest()
			b.reset()
		}},
		// In the end clients leave, and servers count for a moment longer what they have left behind.
		{before + after - time.Second, func() { stale = b.fullest() }},
	} {
		defer time.AfterFunc(step.at, step.do).Stop()
	}
	samples := b.open(ctx, 0, before+after, reqs)
	overflow = max(overflow, stale)
	fmt.Printf("stall: at most %.2f of the slots in flight, %.2f once metrics are stale, %.2f before; %s\n", overflow,
		stale, fullBefore, b.waitsOf("batch", reqs, samples))
	return bench.Line{
		"stall_overflow_max": overflow, "stall_overflow_stale_max": stale, "stall_before_max": fullBefore,
	}, errors.Join(ctx.Err(), err)
}

// staleAfter is the default of lb_config.metrics.stale_after.
const staleAfter = 3 * time.Second

func (b *board) reset() {
	for _, srv := range b.Servers {
		srv.Reset()
	}
}

// fullest returns the most that a server had in flight since the latest reset, over its slots.
func (b *board) fullest() (most float64) {
	for _, srv := range b.Servers {
		most = max(most, float64(srv.State().MaxInflight)/slots)
	}
	return most
}
