package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/redisclient"
)

// lines returns the lines of the log that contain a text.
func (d *fakeDriver) lines(text string) (found []string) {
	for _, line := range d.log {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A login that Redis refuses is logged with its cause and what to do, at once and then now and then; each heartbeat is
// counted; Redis is not up; and requests are counted in the gateway's memory.
func TestRedisRefusesTheLogin(t *testing.T) {
	d := startRedis(t, redisserver.StartT(t, redisserver.Options{}), 1, 2, "")
	d.redis.login = &redisclient.ReplyError{Login: "AUTH", Code: "WRONGPASS"}
	open := []*fakeStream{d.client(0, streamtest.Request{}), d.client(0, streamtest.Request{})}
	const want = "unavailable (auth: AUTH was answered with WRONGPASS): using local counts; " +
		"nothing is sent there until it accepts lb_config.username"
	if lines := d.lines(want); len(lines) != 1 {
		t.Fatalf("the log is %q", d.log)
	}
	for range 60 {
		d.serve(0, 200)
		d.advance(time.Second)
	}
	if n := len(d.lines(want)); n < 2 || n > 3 {
		t.Errorf("logged %d times in a minute, want twice: %q", n, d.log)
	}
	if others := len(d.lines("unavailable")) - len(d.lines(want)); others > 0 || len(d.lines("shared counts")) > 0 {
		t.Errorf("the log says something else, too: %q", d.log)
	}
	if n := d.metrics.values[stats.Failures+";cause=auth"]; n < 55 || n > 62 {
		t.Errorf("%d failed heartbeats in a minute", n)
	}
	if up, known := d.metrics.values[stats.RedisUp]; up != 0 || !known {
		t.Errorf("warmgate_redis_up is %d, %v", up, known)
	}
	if open[0].Upstream() == open[1].Upstream() {
		t.Error("both requests are at one endpoint: the gateway does not count them itself")
	}
	d.redis.login = nil
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 1 || len(d.lines("available again: using shared counts")) != 1 {
		t.Errorf("Redis accepts the login, and the log is %q", d.log)
	}
	for _, c := range open {
		c.Finish()
	}
	d.advance(time.Second)
	d.drained()
}

// A right that the user has no more is named in the log and counted within a heartbeat, without any request that needs
// it; then, too, when requests find the circuit breaker open.
func TestPermissionIsTakenAway(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	d := startRedis(t, server, 1, 2, "")
	d.warm()
	d.advance(2 * time.Second)
	acl := func(rule string) {
		if _, err := server.Do("ACL", "SETUSER", "default", rule); err != nil {
			t.Fatal(err)
		}
	}
	acl("-evalsha")
	d.advance(1100 * time.Millisecond)
	const want = "unavailable (denied: 'evalsha'): using local counts; compare the user's rights"
	if len(d.lines(want)) != 1 {
		t.Errorf("after a heartbeat the log is %q", d.log)
	}
	if n := d.metrics.values[stats.Failures+";cause=denied"]; n < 1 {
		t.Errorf("after a heartbeat %d are counted", n)
	}
	if d.metrics.values[stats.RedisUp] != 0 {
		t.Error("Redis is up")
	}
	d.advance(5 * time.Second)
	for range 10 {
		d.serve(0, 200)
	}
	if n := len(d.lines("unavailable")); n != 1 {
		t.Errorf("%d lines of one fault: %q", n, d.log)
	}
	acl("+evalsha")
	d.advance(2 * time.Second)
	if d.metrics.values[stats.RedisUp] != 1 || len(d.lines("available again")) != 1 {
		t.Errorf("the right is back, and the log is %q", d.log)
	}
	d.drained()
}

// A name that leads to a master and its replica, over a gateway that reaches neither by its address, is said to do so,
// and Redis is not up, although half of the commands are carried out.
func TestNameLeadsToAReplicaToo(t *testing.T) {
	master := redisserver.StartT(t, redisserver.Options{})
	replica := redisserver.StartReplicaT(t, master)
	d := startRedis(t, master, 1, 2, "")
	d.redis.replica = dialPipe(t, replica)
	up := 0
	for range 30 {
		d.client(0, streamtest.Request{}).Finish()
		d.advance(time.Second)
		up += int(d.metrics.values[stats.RedisUp])
	}
	if len(d.lines("leads to a read-only replica")) == 0 || up > 6 {
		t.Errorf("Redis is up for %d of 30 s, and the log is %q", up, d.log)
	}
	if got := d.metrics.decisions(); got["chosen"] != 30 {
		t.Errorf("decisions %v", got)
	}
}
