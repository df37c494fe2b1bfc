package attacks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
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

// crowd is the workers of other gateways, by their stores. A nil crowd has none.
type crowd struct {
	conn   *pipe.Conn
	stores []*redisclient.Store
	leases int // of each
}

// gather has so many owners hold so many leases each, evenly on the endpoints.
func gather(addr string, endpoints []string, owners, leases int) (*crowd, error) {
	conn, err := pipe.Dial(addr)
	if err != nil {
		return nil, err
	}
	c := &crowd{conn: conn, leases: leases}
	plan := lb.Plan{Scope: scope, Tokens: 300}
	for _, e := range endpoints {
		plan.Candidates = append(plan.Candidates, lb.Candidate{Addr: e, Slope: 1, Weight: 1})
	}
	plan.List = lb.NewList(plan.Candidates)
	for owner := range owners {
		s := redisclient.New(conn, redisclient.Options{
			Owner: 0xa77ac000 + uint64(owner), TTL: time.Minute, Timeout: crowdTimeout, KV: pipe.NoKV{},
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
		plan.Random = uint64(id)
		s.Reserve(c.conn.Now(), lb.LeaseID(id), &plan, func(_ lb.Grant, err error) {
			failed = errors.Join(failed, err)
			held++
		})
		if id == 1 || id%depth == 0 || id == c.leases { // the first loads the scripts
			if err := c.conn.Flush(); err != nil {
				return err
			}
			s.Expire(c.conn.Now())
		}
	}
	if failed == nil && held != c.leases {
		failed = fmt.Errorf("%d leases, want %d", held, c.leases)
	}
	return failed
}

// beginToDie has all owners send a last heartbeat. From then on only the first sends them.
func (c *crowd) beginToDie() error {
	if c == nil {
		return nil
	}
	for _, s := range c.stores {
		if err := errors.Join(s.Heartbeat(c.conn.Now()), c.conn.Flush(), s.HeartbeatErr()); err != nil {
			return err
		}
	}
	return nil
}

// keepOne has the first owner send heartbeats for so long.
func (c *crowd) keepOne(ctx context.Context, span time.Duration) {
	if c == nil {
		return
	}
	for until := time.Now().Add(span); time.Now().Before(until); {
		if wait.For(ctx, time.Second) != nil || c.stores[0].Heartbeat(c.conn.Now()) != nil || c.conn.Flush() != nil {
			return
		}
	}
}

func (c *crowd) close() {
	if c != nil {
		_ = c.conn.Close()
	}
}
