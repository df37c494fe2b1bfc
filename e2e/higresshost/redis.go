package higresshost

import (
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// RedisCluster is a Redis service that the gateway knows. One connection per worker pipelines its commands.
type RedisCluster struct {
	// Down makes redis_call answer at once that there is no endpoint.
	Down bool

	inits []RedisInit
	conns map[string]*redisConn // by thread
}

// RedisInit is one redis_init of a plugin. Settings are per worker and cluster: the last init wins.
type RedisInit struct {
	Worker  string
	Query   string // what follows '?' in the cluster name, such as db=1&buffer_flush_timeout=0
	User    string
	Timeout time.Duration

	Password string
}

// RedisCall is one redis_call of a plugin: raw RESP out, raw RESP back.
type RedisCall struct {
	Cluster string
	Thread  string // that makes the call
	Query   []byte

	conn  *redisConn
	token uint32
	done  bool
	early func()                              // runs if the answer comes before those of earlier calls
	over  func(code uint64, resp []byte) bool // delivers the answer, unless the context is gone
}

// redisConn is the connection of one worker. Its timer runs from the last reply; when it fires, every pending call
// fails.
type redisConn struct {
	clock   *fakehost.Clock
	timeout time.Duration
	pending []*RedisCall
	timer   *fakehost.Timer
}

const defaultRedisTimeout = time.Second

// Inits returns every redis_init on this cluster, oldest first.
func (c *RedisCluster) Inits() []RedisInit { return c.inits }

func (c *RedisCluster) conn(thread string, clock *fakehost.Clock) *redisConn {
	conn := c.conns[thread]
	if conn == nil {
		conn = &redisConn{clock: clock, timeout: defaultRedisTimeout}
		c.conns[thread] = conn
	}
	return conn
}

func (c *redisConn) arm() {
	c.timer.Stop()
	c.timer = nil
	if len(c.pending) > 0 {
		c.timer = c.clock.After(c.timeout, c.fail)
	}
}

// fail closes the connection: all pending calls fail, whether or not Redis has executed them.
func (c *redisConn) fail() {
	for _, call := range append([]*RedisCall(nil), c.pending...) {
		call.Fail()
	}
}

// Answer delivers raw RESP; an error of Redis ("-ERR …") is an answer too. It reports false if the call is over: it was
// answered, timed out, or its plugin context is gone. The connection keeps order: answer the oldest call of a worker
// first, or it counts as a violation.
func (c *RedisCall) Answer(resp []byte) bool {
	if !c.done && len(c.conn.pending) > 0 && c.conn.pending[0] != c {
		c.early()
	}
	return c.deliver(0, resp)
}

// Fail loses the answer, as a broken connection does: the callback has a status but no bytes.
func (c *RedisCall) Fail() bool { return c.deliver(uint64(statusInternal), nil) }

func (c *RedisCall) deliver(code uint64, resp []byte) bool {
	if c.done {
		return false
	}
	c.done = true
	c.conn.pending = without(c.conn.pending, c)
	c.conn.arm()
	return c.over(code, resp)
}

func without[C comparable](calls []C, c C) []C {
	for i, other := range calls {
		if other == c {
			return append(calls[:i:i], calls[i+1:]...)
		}
	}
	return calls
}
