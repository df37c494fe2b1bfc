package higresshost

import (
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

// RedisCluster is a Redis service that the gateway knows. One connection per worker pipelines its commands.
type RedisCluster struct {
	// Down makes redis_call answer at once that there is no endpoint.
	Down bool

	name  string
	inits []RedisInit
	conns map[*Worker]*redisConn
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
	Query   []byte

	gw    *Gateway
	root  *root
	conn  *redisConn
	token uint32
	done  bool
}

// redisConn is the connection of one worker. Its timer runs from the last reply; when it fires, every pending call
// fails.
type redisConn struct {
	timeout time.Duration
	pending []*RedisCall
	timer   *fakehost.Timer
}

const defaultRedisTimeout = time.Second

// Redis returns the Redis service of that cluster name; it is created on first use. Before that redis_init and
// redis_call answer bad argument.
func (g *Gateway) Redis(cluster string) *RedisCluster {
	c := g.redis[cluster]
	if c == nil {
		c = &RedisCluster{name: cluster, conns: map[*Worker]*redisConn{}}
		g.redis[cluster] = c
	}
	return c
}

// Inits returns every redis_init on this cluster, oldest first.
func (c *RedisCluster) Inits() []RedisInit { return c.inits }

func (c *RedisCluster) conn(w *Worker) *redisConn {
	conn := c.conns[w]
	if conn == nil {
		conn = &redisConn{timeout: defaultRedisTimeout}
		c.conns[w] = conn
	}
	return conn
}

func (g *Gateway) initRedis(w *Worker, cluster string, init RedisInit) status {
	cluster, init.Query, _ = strings.Cut(cluster, "?")
	c := g.redis[cluster]
	if c == nil {
		return statusBadArgument
	}
	init.Worker = w.name
	c.inits = append(c.inits, init)
	if init.Timeout > 0 {
		c.conn(w).timeout = init.Timeout
	}
	return statusOK
}

func (g *Gateway) dispatchRedis(cluster string, call *RedisCall) status {
	cluster, _, _ = strings.Cut(cluster, "?")
	c := g.redis[cluster]
	switch {
	case c == nil || len(call.Query) == 0:
		return statusBadArgument
	case c.Down:
		return statusInternal
	}
	g.nextCall++
	call.token, call.Cluster, call.conn = g.nextCall, cluster, c.conn(call.root.vm.worker)
	call.conn.pending = append(call.conn.pending, call)
	if len(call.conn.pending) == 1 {
		call.conn.arm(g)
	}
	g.redisCalls = append(g.redisCalls, call)
	if g.OnRedisCall != nil {
		g.post(func() { g.OnRedisCall(call) })
	}
	return statusOK
}

func (c *redisConn) arm(g *Gateway) {
	c.timer.Stop()
	c.timer = nil
	if len(c.pending) > 0 {
		c.timer = g.clock.After(c.timeout, c.fail)
	}
}

// fail closes the connection: all pending calls fail, whether or not Redis has executed them.
func (c *redisConn) fail() {
	for _, call := range append([]*RedisCall(nil), c.pending...) {
		call.Fail()
	}
}

// RedisCalls returns the calls that have no answer yet, oldest first.
func (g *Gateway) RedisCalls() []*RedisCall { return append([]*RedisCall(nil), g.redisCalls...) }

// Worker returns the thread that made the call.
func (c *RedisCall) Worker() *Worker { return c.root.vm.worker }

// Answer delivers raw RESP; an error of Redis ("-ERR …") is an answer too. It reports false if the call is over: it was
// answered, timed out, or its plugin context is gone. The connection keeps order: answer the oldest call of a worker
// first, or it counts as a violation.
func (c *RedisCall) Answer(resp []byte) bool {
	if !c.done && len(c.conn.pending) > 0 && c.conn.pending[0] != c {
		c.gw.violate("redis call answered out of order by the test")
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
	c.gw.redisCalls = without(c.gw.redisCalls, c)
	c.conn.arm(c.gw)
	if !c.root.alive() {
		return false
	}
	c.gw.drive(func() {
		c.root.redisReply = resp
		c.root.vm.callback(c.root.ctx, "proxy_on_redis_call_response", uint64(c.token), code, uint64(len(resp)))
		c.root.redisReply = nil
	})
	return true
}

func without(calls []*RedisCall, c *RedisCall) []*RedisCall {
	for i, other := range calls {
		if other == c {
			return append(calls[:i:i], calls[i+1:]...)
		}
	}
	return calls
}
