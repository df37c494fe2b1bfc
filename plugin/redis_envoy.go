//go:build envoy

package main

import (
	"time"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/redisclient"
)

// headerNode names the node of a Redis Cluster that the tunnel connects to.
const headerNode = "x-warmgate-redis-node"

// envoyRedis reaches Redis through a tunnel in Envoy, which sends the body of a POST over a connection and returns what
// comes back as the response's body.
type envoyRedis struct {
	*redisclient.Pipeline
	cluster string
	within  time.Duration
	login   redisclient.Login
}

// RedisLink implements host.Gateway.
func (g *envoyGateway) RedisLink(c *config.Config) host.RedisLink {
	return &envoyRedis{cluster: c.Redis.Cluster, within: c.ReserveTimeout}
}

// Connect implements host.RedisLink. Calls that are under way with another login come to their own end.
func (r *envoyRedis) Connect(_ time.Duration, c config.Redis) {
	login := redisclient.Login{Username: c.Username, Password: c.Password, Database: c.Database}
	if r.Pipeline == nil || r.login != login {
		r.login = login
		r.Pipeline = redisclient.NewPipeline(login, r.within, r.call)
	}
}

// hangTimes is by how many times the gateway's deadline is longer than our own. It only ends calls that hang: its timer
// would also end those whose answer waits to be read behind other requests.
const hangTimes = 5

// call sends a command, to the server at that address if there is one.
func (r *envoyRedis) call(now time.Duration, node string, body []byte, done redisclient.Done) {
	headers := [][2]string{{":method", "POST"}, {":path", "/"}, {":authority", "redis"}}
	if node != "" {
		headers = append(headers, [2]string{headerNode, node})
	}
	call := httpCall{cluster: r.cluster, headers: headers, body: body, within: hangTimes * r.within}
	err := call.send("an answer of Redis", func(n, size int) {
		reply, err := answerOf(n, size)
		done(theVM.ReadClock(), reply, err)
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
	switch callHeader(":status") {
	case "200":
	case "504":
		return nil, redisclient.ErrTimeout
	default:
		return nil, redisclient.ErrUnreachable
	}
	reply := callText(size)
	if reply == nil {
		return nil, redisclient.ErrUnreachable
	}
	return reply, nil
}
