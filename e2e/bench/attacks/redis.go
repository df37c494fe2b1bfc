package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	crowdOwners = 64
	crowdLeases = 2000 // of each
	// scope is the name of the cluster in the shipped configuration.
	scope = "llm"
	// scriptLimit is what a script may take at most.
	scriptLimit = 2 * time.Millisecond
	// crowdTimeout bounds every wait for Redis.
	crowdTimeout = 30 * time.Second
)

// startRedis runs a server that logs the time of every command.
func startRedis(ctx context.Context) (*redisserver.Server, error) {
	log := []string{"slowlog-log-slower-than 0", "slowlog-max-len 65536"}
	return redisserver.Start(ctx, redisserver.Options{Config: log})
}

// slowest returns the longest time that a script took since the log was emptied, how many took more than scriptLimit,
// and how many owners Redis has.
func slowest(s *redisserver.Server) (longest time.Duration, slow, owners int, err error) {
	log, err := s.Do("SLOWLOG", "GET", 65536)
	if err != nil {
		return 0, 0, 0, err
	}
	for _, entry := range log.Array() {
		fields := entry.Array()
		if len(fields) < 4 || len(fields[3].Array()) == 0 {
			return 0, 0, 0, fmt.Errorf("SLOWLOG GET: %v", entry)
		}
		if !isScript(fields[3].Array()[0].String()) {
			continue
		}
		took := time.Duration(fields[2].Integer()) * time.Microsecond
		longest = max(longest, took)
		if took > scriptLimit {
			slow++
		}
	}
	left, err := s.Do("ZCARD", redisclient.KeysOf(scope).Owners)
	return longest, slow, left.Integer(), err
}

func isScript(command string) bool {
	switch command {
	case "EVALSHA", "evalsha", "EVAL", "eval", "FCALL", "fcall":
		return true
	}
	return false
}

// crowd is the workers of other gateways, by their stores. A nil crowd is nobody.
type crowd struct {
	conn   *pipe
	stores []*redisclient.Store
	leases int // of each
}

// gather has so many owners hold so many leases each, evenly on the endpoints.
func gather(addr string, endpoints []string, owners, leases int) (*crowd, error) {
	conn, err := dial(addr)
	if err != nil {
		return nil, err
	}
	c := &crowd{conn: conn, leases: leases}
	plan := lb.Plan{Scope: scope, Tokens: 300}
	for _, e := range endpoints {
		plan.Candidates = append(plan.Candidates, lb.Candidate{Addr: e, Slope: 1, Weight: 1})
	}
	for owner := range owners {
		s := redisclient.New(conn, redisclient.Options{
			Owner: 0xa77ac000 + uint64(owner), TTL: time.Minute, Timeout: crowdTimeout, KV: noKV{},
		})
		c.stores = append(c.stores, s)
		if err := c.fill(s, plan); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return c, nil
}

// fill has one owner reserve.
func (c *crowd) fill(s *redisclient.Store, plan lb.Plan) error {
	var failed error
	held := 0
	const depth = 250
	for id := 1; id <= c.leases; id++ {
		plan.Tie = uint64(id)
		s.Reserve(c.conn.now(), lb.LeaseID(id), &plan, func(_ lb.Grant, err error) {
			failed = errors.Join(failed, err)
			held++
		})
		if id == 1 || id%depth == 0 || id == c.leases { // the first loads the scripts
			if err := c.conn.flush(); err != nil {
				return err
			}
			s.Expire(c.conn.now())
		}
	}
	if failed == nil && held != c.leases {
		failed = fmt.Errorf("%d leases, want %d", held, c.leases)
	}
	return failed
}

// beginToDie has all owners be heard of once more. From then on only the first is.
func (c *crowd) beginToDie() error {
	if c == nil {
		return nil
	}
	for _, s := range c.stores {
		if err := errors.Join(s.Heartbeat(c.conn.now()), c.conn.flush(), s.HeartbeatErr()); err != nil {
			return err
		}
	}
	return nil
}

// keepOne has the first owner beat for so long.
func (c *crowd) keepOne(ctx context.Context, span time.Duration) {
	if c == nil {
		return
	}
	for until := time.Now().Add(span); time.Now().Before(until); {
		if pause(ctx, time.Second) != nil || c.stores[0].Heartbeat(c.conn.now()) != nil || c.conn.flush() != nil {
			return
		}
	}
}

func (c *crowd) close() {
	if c != nil {
		_ = c.conn.Close()
	}
}

// pipe is a redisclient.Transport over one connection: commands wait for flush.
type pipe struct {
	net.Conn
	began   time.Time
	out, in []byte
	waiting []redisclient.Done
}

func dial(addr string) (*pipe, error) {
	conn, err := net.DialTimeout("tcp", addr, crowdTimeout)
	if err != nil {
		return nil, err
	}
	return &pipe{Conn: conn, began: time.Now()}, nil
}

func (p *pipe) now() time.Duration { return time.Since(p.began) }

// Do implements redisclient.Transport.
func (p *pipe) Do(_ time.Duration, command []byte, done redisclient.Done) {
	p.out = append(p.out, command...)
	p.waiting = append(p.waiting, done)
}

// flush sends what waits and hands out the replies, until nothing is left to send.
func (p *pipe) flush() error {
	if err := p.SetDeadline(time.Now().Add(crowdTimeout)); err != nil {
		return err
	}
	for i := 0; i < len(p.waiting); i++ { // a reply may cause further commands
		if len(p.out) > 0 {
			if _, err := p.Write(p.out); err != nil {
				return err
			}
			p.out = p.out[:0]
		}
		reply, err := p.reply()
		if err != nil {
			return err
		}
		p.waiting[i](p.now(), reply, nil)
	}
	p.waiting = p.waiting[:0]
	return nil
}

// reply reads one reply.
func (p *pipe) reply() ([]byte, error) {
	for {
		_, rest, err := redisclient.Parse(p.in)
		if err == nil {
			reply := p.in[:len(p.in)-len(rest)]
			p.in = rest
			return reply, nil
		}
		if !errors.Is(err, redisclient.ErrIncomplete) {
			return nil, err
		}
		buffer := make([]byte, 64<<10)
		n, err := p.Read(buffer)
		if err != nil {
			return nil, err
		}
		p.in = append(p.in[:len(p.in):len(p.in)], buffer[:n]...)
	}
}

// noKV is shared memory of a gateway with one worker: there is nobody to share with.
type noKV struct{}

func (noKV) Get(string) ([]byte, uint32, error) { return nil, 0, lb.ErrNotFound }

func (noKV) Set(string, []byte, uint32) error { return nil }
