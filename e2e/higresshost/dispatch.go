package higresshost

import "strings"

// dispatchHTTP starts a call of a context. A cluster that the gateway does not know and missing pseudo headers are bad
// arguments. The cluster's endpoints play no part: the test answers.
func (r *root) dispatchHTTP(c *HTTPCall) status {
	g := r.vm.gw
	if g.host.Clusters[c.Cluster] == nil || !c.Headers.Has(":path") || !c.Headers.Has(":method") ||
		!c.Headers.Has(":authority") {
		return statusBadArgument
	}
	g.nextCall++
	c.token = g.nextCall
	if c.Timeout > 0 {
		c.timeout = g.clock.After(c.Timeout, func() { c.Fail() })
	}
	c.over = func() bool {
		g.httpCalls = without(g.httpCalls, c)
		if !r.alive() {
			return false
		}
		g.drive(func() {
			r.httpReply = c
			r.vm.callback(r.ctx, "proxy_on_http_call_response", uint64(c.token), uint64(len(c.replyHeaders)),
				uint64(len(c.replyBody)), 0)
			r.httpReply = nil
		})
		return true
	}
	g.httpCalls = append(g.httpCalls, c)
	if g.OnHTTPCall != nil {
		g.post(func() { g.OnHTTPCall(c) })
	}
	return statusOK
}

// HTTPCalls returns the calls that have no answer yet, oldest first.
func (g *Gateway) HTTPCalls() []*HTTPCall { return append([]*HTTPCall(nil), g.httpCalls...) }

// Redis returns the Redis service of that cluster name; it is created on first use. Before that redis_init and
// redis_call answer bad argument.
func (g *Gateway) Redis(cluster string) *RedisCluster {
	c := g.redis[cluster]
	if c == nil {
		c = &RedisCluster{conns: map[string]*redisConn{}}
		g.redis[cluster] = c
	}
	return c
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
		c.conn(w.name, g.clock).timeout = init.Timeout
	}
	return statusOK
}

// dispatchRedis sends a command of a context.
func (r *root) dispatchRedis(cluster string, call *RedisCall) status {
	g := r.vm.gw
	cluster, _, _ = strings.Cut(cluster, "?")
	c := g.redis[cluster]
	switch {
	case c == nil || len(call.Query) == 0:
		return statusBadArgument
	case c.Down:
		return statusInternal
	}
	g.nextCall++
	call.token, call.Cluster, call.Thread = g.nextCall, cluster, r.vm.worker.name
	call.conn = c.conn(call.Thread, g.clock)
	call.early = func() { g.violate("redis call answered out of order by the test") }
	call.over = func(code uint64, resp []byte) bool {
		g.redisCalls = without(g.redisCalls, call)
		if !r.alive() {
			return false
		}
		g.drive(func() {
			r.redisReply = resp
			r.vm.callback(r.ctx, "proxy_on_redis_call_response", uint64(call.token), code, uint64(len(resp)))
			r.redisReply = nil
		})
		return true
	}
	call.conn.pending = append(call.conn.pending, call)
	if len(call.conn.pending) == 1 {
		call.conn.arm()
	}
	g.redisCalls = append(g.redisCalls, call)
	if g.OnRedisCall != nil {
		g.post(func() { g.OnRedisCall(call) })
	}
	return statusOK
}

// RedisCalls returns the calls that have no answer yet, oldest first.
func (g *Gateway) RedisCalls() []*RedisCall { return append([]*RedisCall(nil), g.redisCalls...) }
