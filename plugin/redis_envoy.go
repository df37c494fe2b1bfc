//go:build envoy

package main

import (
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// headerNode tells the tunnel which node of a Redis Cluster to reach.
const headerNode = "x-warmgate-redis-node"

// envoyRedis reaches Redis through a tunnel in Envoy, which turns the body of a POST into a connection's bytes and what comes
// back into the response's body.
type envoyRedis struct {
	*redisclient.Pipeline
	cluster string
	within  time.Duration
	login   redisclient.Login
}

// Redis implements Gateway.
func (g *envoyGateway) Redis(c *config.Config) Link {
	return &envoyRedis{cluster: c.Redis.Cluster, within: c.ReserveTimeout}
}

// Keep implements Link. Calls that are under way with another login come to their own end.
func (r *envoyRedis) Keep(_ time.Duration, c config.Redis) {
	login := redisclient.Login{Username: c.Username, Password: c.Password, Database: c.Database}
	if r.Pipeline == nil || r.login != login {
		r.login = login
		r.Pipeline = redisclient.NewPipeline(login, r.within, r.call)
	}
}

// call is a redisclient.Call.
func (r *envoyRedis) call(now time.Duration, node string, body []byte, done redisclient.Done) {
	p := theVM.newest()
	if p == nil {
		done(now, nil, redisclient.ErrUnreachable)
		return
	}
	headers := [][2]string{{":method", "POST"}, {":path", "/"}, {":authority", "redis"}}
	if node != "" {
		headers = append(headers, [2]string{headerNode, node})
	}
	var err error
	asPlugin(p.context, func() {
		_, err = proxywasm.DispatchHttpCall(r.cluster, headers, body, nil, uint32(r.within.Milliseconds()), func(n, size, _ int) {
			callback(p.context, "an answer of Redis", func() {
				reply, err := answerOf(n, size)
				done(theVM.read(), reply, err)
			}, nil)
		})
	})
	if err != nil {
		done(now, nil, redisclient.ErrUnreachable)
	}
}

// answerOf returns what a call through the tunnel has brought.
func answerOf(headers, size int) ([]byte, error) {
	if headers == 0 {
		return nil, redisclient.ErrTimeout
	}
	if callStatus() != "200" {
		return nil, redisclient.ErrUnreachable
	}
	reply, err := proxywasm.GetHttpCallResponseBody(0, size)
	if err != nil {
		return nil, redisclient.ErrUnreachable
	}
	return reply, nil
}
