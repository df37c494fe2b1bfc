package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

const (
	// redisTime is how long an answer of Redis takes in these tests.
	redisTime = time.Millisecond
	// redisQueue are the members under which one request is in flight at each endpoint and others wait.
	redisQueue = `"max_inflight":1,"reserve_timeout":"100ms","queue":{"max_wait":"10s"}`
)

// startRedisQueue returns a process that counts in Redis, with a request that fills its endpoint.
func startRedisQueue(t *testing.T, workers int) (*fakeDriver, *fakeStream) {
	t.Helper()
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), workers, 1, redisQueue)
	d.warm()
	d.advance(time.Second)
	busy := d.client(0, streamtest.Request{})
	if busy.Upstream() != 0 {
		t.Fatalf("not served: %+v", busy.Result())
	}
	return d, busy
}

// What a worker frees in Redis, a request of its own gets with the answer of Redis, and one of another worker a moment
// later, without a command: unless the wake-up is lost, then with the next poll.
func TestWaitsInRedis(t *testing.T) {
	for _, c := range []struct {
		worker int
		deaf   bool
		within time.Duration
	}{
		{0, false, redisTime},
		{1, false, redisTime + wakeTime},
		{1, true, lb.PollPeriod + redisTime},
	} {
		d, busy := startRedisQueue(t, 2)
		d.deaf = c.deaf
		r := d.client(c.worker, streamtest.Request{})
		d.advance(3*time.Second + 7*time.Millisecond)
		d.wantWaiting(r)
		d.redis.manual = true
		before := d.redis.sent
		busy.Finish()
		d.wantWaiting(r)
		if d.advance(c.within); r.Upstream() != 0 {
			t.Fatalf("%+v: not served in time", c)
		}
		if n := d.redis.sent - before; !c.deaf && n > 2 { // the release and perhaps a poll that was due
			t.Errorf("%+v: %d commands", c, n)
		}
		d.redis.manual = false
		r.Finish()
		if wait := r.Result().Headers["x-warmgate-wait-ms"]; !strings.HasPrefix(wait, "30") || len(wait) != 4 {
			t.Errorf("%+v: waited for %s ms", c, wait)
		}
		d.advance(time.Second)
		d.drained()
		d.wantNoneWaits()
	}
}

// planAgain has a waiting request of a worker planned again at this moment.
func (d *fakeDriver) planAgain(worker int, c *fakeStream) {
	vm := d.workers[worker].vm
	d.in(vm, func() {
		vm.Callback(vm.Newest().Context(), "a new plan", func() {
			vm.RunAs(c.core.Context, "a new plan", c.core.first.PlanAgain, c.core.first.GrantRecovered)
		}, nil)
	})
}

// A request that is planned again between what becomes of it in Redis and the answer that tells so keeps what it was
// granted, and leaves the queue if it was evicted.
func TestPlannedAgainBeforeItIsTold(t *testing.T) {
	d, busy := startRedisQueue(t, 2)
	d.deaf = true
	d.advance(100*time.Millisecond + 7*time.Millisecond)
	first := d.client(1, streamtest.Request{})
	second := d.client(0, streamtest.Request{})
	d.wantWaiting(first, second)
	d.redis.manual = true
	busy.Finish()
	d.planAgain(1, first)
	d.advance(lb.PollPeriod)
	if first.Upstream() != 0 {
		t.Error("the first request is not served")
	}
	d.wantWaiting(second)
	d.redis.manual = false
	first.Finish()
	d.advance(time.Second)
	second.Finish()
	d.advance(time.Second)
	d.drained()
	d.wantNoneWaits()
}

func TestPlannedAgainBeforeItsEvictionIsTold(t *testing.T) {
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), 2, 1,
		`"max_inflight":1,"reserve_timeout":"100ms","queue":{"max_wait":"10s","max_length":1,`+twoClasses+`}`)
	d.warm()
	d.advance(time.Second)
	busy := d.client(0, inClass("batch"))
	low := d.client(1, inClass("batch"))
	d.wantWaiting(low)
	d.deaf, d.redis.manual = true, true
	high := d.client(0, inClass("interactive"))
	d.planAgain(1, low)
	d.advance(lb.PollPeriod)
	if low.Held() || low.Result().Status != 429 {
		t.Errorf("one that was evicted is held %v, %+v", low.Held(), low.Result())
	}
	d.wantWaiting(high)
	d.redis.manual = false
	busy.Finish()
	high.Finish()
	d.advance(time.Second)
	d.drained()
	d.wantNoneWaits()
}

// A message from elsewhere that says nothing is ignored.
func TestStrangeMessages(t *testing.T) {
	d, busy := startRedisQueue(t, 1)
	r := d.client(0, streamtest.Request{})
	w := d.workers[0]
	var owner uint64
	for _, s := range w.vm.Stores.InRedis {
		owner = s.Owner
	}
	prefix := make([]byte, 8)
	for i := range prefix {
		prefix[i] = byte(owner >> (8 * i))
	}
	for _, m := range [][]byte{
		nil,
		{1},
		prefix, append(prefix[:8:8], 200), append(prefix[:8:8], "\x01ax"...),
		append(append(prefix[:8:8], byte(len(fakeCluster))), fakeCluster+strings.Repeat("x", 30)...),
	} {
		w.wake(m)
	}
	d.wantWaiting(r)
	busy.Finish()
	r.Finish()
	d.advance(time.Second)
	d.drained()
	d.wantNoneWaits()
}

// A request that leaves has left the queue if Redis has it there, and else only what would have become of it.
func TestLeavesTheQueueInRedis(t *testing.T) {
	d, busy := startRedisQueue(t, 1)
	d.client(0, streamtest.Request{}).ResetByClient()
	if n := d.metrics.decisions()["left_queue"]; n != 1 {
		t.Errorf("%d have left the queue, want 1", n)
	}
	d.redis.manual = true
	d.client(0, streamtest.Request{}).ResetByClient() // before Redis answers
	if n := d.metrics.decisions()["left_queue"]; n != 1 {
		t.Errorf("%d have left the queue after one that was not there", n)
	}
	d.redis.manual = false
	busy.Finish()
	d.advance(3 * time.Second)
	d.drained()
	d.wantNoneWaits()
}

// With Redis, what is in flight over all gateways counts for the suggested number of requests.
func TestSuggestedParallelismInRedis(t *testing.T) {
	d, busy := startRedisQueue(t, 2)
	d.advance(3 * time.Second)
	name := stats.Parallelism + ";cluster=" + fakeCluster
	if n := d.metrics.values[name]; n != 1 {
		t.Errorf("suggested are %d requests in flight, want 1", n)
	}
	busy.Finish()
	d.advance(3 * time.Second)
	if n := d.metrics.values[name]; n != 1 {
		t.Errorf("suggested are %d requests in flight while none is, want 1", n)
	}
	d.drained()
}
