package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Several configurations in one VM each tick it; periodic work is done no more often for that.
func TestTicksThatComeTogether(t *testing.T) {
	d := startFake(t, 1, 1, requestsConfig)
	writes := 0
	d.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if strings.HasSuffix(key, "/roster") {
			writes++
		}
		return nil
	}
	d.serve(0, 200)
	writes, d.ticks = 0, 0
	for range 30 {
		d.now += process.TickPeriod
		for range 3 {
			d.workers[0].current.OnTick()
		}
	}
	if d.ticks != 30 {
		t.Errorf("%d ticks were passed on in 3 s, want 30", d.ticks)
	}
	// Each heartbeat writes the roster twice: to renew the owner, and to note who sweeps.
	if writes < 4 || writes > 8 {
		t.Errorf("the roster was written %d times in 3 s", writes)
	}
}

// Ticks come as often as deadlines need them, and no more.
func TestTicksFollowDeadlines(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 1, 2, "")
	d.warm()
	d.redis.manual = true
	w := d.workers[0]
	ticks := func(of time.Duration) int {
		before := w.ticks
		d.advance(of)
		return w.ticks - before
	}
	if n := ticks(10 * time.Second); n < 95 || n > 105 {
		t.Errorf("%d ticks in 10 idle seconds, want 100", n)
	}
	d.advance(w.next.At() - d.now) // so that the next tick is far away
	d.redis.fate = redisSilent
	c := d.client(0, streamtest.Request{})
	if w.next.At()-d.now != 20*time.Millisecond {
		t.Errorf("%v to the next tick, want the deadline", w.next.At()-d.now)
	}
	d.advance(10 * time.Millisecond)
	second := d.client(0, streamtest.Request{})
	if w.next.At()-d.now != 10*time.Millisecond {
		t.Errorf("a later deadline has moved the timer: %v to go, want 10ms", w.next.At()-d.now)
	}
	d.advance(11 * time.Millisecond)
	if c.Held() || !second.Held() || w.next.At()-d.now > 10*time.Millisecond {
		t.Errorf("held %v and %v, %v to the next tick", c.Held(), second.Held(), w.next.At()-d.now)
	}
	d.advance(10 * time.Millisecond)
	c.Finish()
	second.Finish()
	d.redis.fate = redisAnswers
	d.advance(2 * time.Second)
	if w.period != process.TickPeriod {
		t.Errorf("at rest the timer is at %v", w.period)
	}
	d.drained()
}

// A worker that was busy finds its deadlines over before it could have read an answer: that does not count as a failure
// of Redis.
func TestBusyWorker(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 1, 2, "")
	d.warm()
	d.redis.manual, d.redis.latency = true, 10*time.Millisecond
	w := d.workers[0]
	d.advance(w.next.At() - d.now)
	c := d.client(0, streamtest.Request{})
	d.now += 50 * time.Millisecond // in which the worker does something else
	w.tick()
	if !c.Held() {
		t.Error("the request has given up, although its answer is there to be read")
	}
	d.advance(time.Millisecond)
	if n := d.metrics.values[stats.Fallbacks+";cause=timeout"]; c.Held() || n != 0 {
		t.Errorf("held %v, %d fallbacks", c.Held(), n)
	}
	c.Finish()
	d.redis.fate = redisSilent
	d.advance(w.next.At() - d.now)
	c = d.client(0, streamtest.Request{})
	for range 3 { // always busy, and no answer
		d.now += 50 * time.Millisecond
		w.tick()
	}
	if c.Held() {
		t.Error("the request waits for as long as the worker is busy")
	}
	c.Finish()
	d.redis.fate, d.redis.manual = redisAnswers, false
	d.advance(3 * time.Second)
	d.drained()
}
