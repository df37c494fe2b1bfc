//go:build !envoy

package main

import (
	"bytes"
	"strconv"
	"time"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/redisclient"
)

// initPause is the shortest time between two attempts to pass the settings of a Redis to the gateway.
const initPause = time.Second

// higressRedis reaches Redis by Higress's own host calls: one pipelined connection per worker. The gateway logs in by
// itself, and tells nobody how that went: so the plugin does so once more.
//
// The gateway keeps one set of settings per worker and Redis service for all of its plugins: the last one to set them
// has set them for all.
type higressRedis struct {
	*redisclient.Checked
	conn higressConn
}

// higressConn is the gateway's connection, as it is.
type higressConn struct {
	cluster string
	login   config.Redis
	ready   bool // the gateway has had our settings
	stale   bool // by now it may have those of another plugin, or none after the service was changed
	tried   time.Duration
}

// RedisLink implements host.Gateway.
func (g *higressGateway) RedisLink(c *config.Config) host.RedisLink {
	l := &higressRedis{conn: higressConn{cluster: c.Redis.HigressCluster()}}
	l.Checked = redisclient.NewChecked(&l.conn, redisclient.Login{})
	return l
}

// Connect implements host.RedisLink: it passes the settings to the gateway until that has them. It fails while the
// service is not known there.
func (l *higressRedis) Connect(now time.Duration, login config.Redis) {
	r := &l.conn
	if r.login != login {
		r.login, r.ready, r.stale, r.tried = login, false, false, 0
		l.Use(now, redisclient.Login{Username: login.Username, Password: login.Password, Database: login.Database})
	}
	l.Check(now)
	if r.ready && !r.stale || r.tried > 0 && now-r.tried < initPause {
		return
	}
	r.tried = now
	// The gateway would hold small commands back for 3 ms, to send several in one packet.
	settings := "?db=" + strconv.Itoa(login.Database) + "&buffer_flush_timeout=0&max_buffer_size_before_flush=0"
	err := proxywasm.RedisInit(r.cluster+settings, login.Username, login.Password, uint32(login.Timeout.Milliseconds()))
	r.ready, r.stale = err == nil, false
}

// Expire implements host.RedisLink: the store's own deadlines are enough.
func (l *higressRedis) Expire(time.Duration) time.Duration { return 0 }

// Postpone implements host.RedisLink: there are no deadlines but the store's.
func (l *higressRedis) Postpone(time.Duration) {}

// Do implements redisclient.Transport.
func (r *higressConn) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	if !r.ready {
		done(now, nil, redisclient.ErrUnreachable)
		return
	}
	err := callOut("an answer of Redis", func(run func(func())) error {
		_, err := proxywasm.DispatchRedisCall(r.cluster, cmd, func(status, size int) {
			run(func() { r.answered(status, size, done) })
		})
		return err
	})
	if err != nil {
		r.ready = false // the service may have left the gateway, and our settings with it
		done(now, nil, redisclient.ErrUnreachable)
	}
}

// answered takes the end of a call. With a status other than 0 there was no answer: the gateway could not connect, or
// has lost the connection.
func (r *higressConn) answered(status, size int, done redisclient.Done) {
	now := theVM.ReadClock()
	if status != 0 {
		done(now, nil, redisclient.ErrUnreachable)
		return
	}
	reply, err := proxywasm.GetRedisCallResponse(0, size)
	if err != nil {
		done(now, nil, redisclient.ErrUnreachable)
		return
	}
	if bytes.HasPrefix(reply, []byte("-NOAUTH")) {
		r.stale = true
	}
	done(now, reply, nil)
}
