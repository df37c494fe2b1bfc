package redis

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

// client is one worker of a gateway: a connection, and the requests that it has in flight. Its commands are sent, and
// their answers read, by flush.
type client interface {
	reserve()      // reserves an endpoint for a request
	release()      // ends the oldest request in flight
	heartbeat()    // what is due once a second
	inFlight() int // answered reservations that were not released
	flush() error  // returns also what went wrong before
	Seen() pipe.Traffic
	Close() error
}

// replyTimeout bounds every wait of a store for the server.
const replyTimeout = 10 * time.Second

// Names of the contenders.
const (
	warmgate = "warmgate"
	evalsha  = "evalsha"
	eval     = "eval"
	hmget    = "hmget"
)

// contender is one way to share counts over Redis.
type contender struct {
	name, what string
	open       func(c *pipe.Conn, s settings, owner uint64, endpoints []string) client
	// loads returns the requests in flight that Redis counts per endpoint; idle endpoints may be missing.
	loads func(s *redisserver.Server, endpoints int) (map[string]int64, error)
}

var (
	//go:embed plain.lua
	luaPlain string
	//go:embed plain_hmget.lua
	luaHMGet string
)

// contenders are compared in this order.
var contenders = []contender{
	{
		warmgate, "redisclient.Store with its scripts: leases, one table per cluster, endpoints sent to Redis once",
		openWarmgate, loadsOfTable,
	},
	plainContender(evalsha, "plain.lua by EVALSHA, released by HINCRBY", luaPlain, false),
	plainContender(eval, "plain.lua by EVAL with its text each time, released by HINCRBY", luaPlain, true),
	plainContender(hmget, "plain_hmget.lua by EVALSHA, released by HINCRBY", luaHMGet, false),
}

// addresses returns n addresses as long as those of pods usually are.
func addresses(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("10.244.%d.%d:8000", 10+i/200, 20+i%200)
	}
	return out
}

// clusterName is as long as such names are in Higress.
func clusterName(endpoints int) string {
	return fmt.Sprintf("outbound|8000||llm-%d.default.svc.cluster.local", endpoints)
}

// warmgateClient drives the store that the plugin uses.
type warmgateClient struct {
	*pipe.Conn
	store   *redisclient.Store
	plan    lb.Plan
	prompts *prompts // that go along; nil for none
	room    int      // bytes to remember them
	last    lb.LeaseID
	held    []lb.LeaseID
	failed  error
	scale   *scale // over which the commands go; nil for straight over the connection
}

func openWarmgate(c *pipe.Conn, s settings, owner uint64, endpoints []string) client {
	w := &warmgateClient{Conn: c, plan: lb.Plan{Scope: clusterName(len(endpoints)), Tokens: 500}}
	for i, addr := range endpoints {
		candidate := lb.Candidate{Addr: addr, Slope: 1, Weight: 1}
		if s.kinds > 1 {
			candidate.Cap = 1e6 + int64(i%s.kinds) // never reached: only the work differs, not the choice
		}
		w.plan.Candidates = append(w.plan.Candidates, candidate)
	}
	w.plan.List = lb.NewList(w.plan.Candidates) // as policies have it
	w.store = newStore(c, owner)
	return w
}

// newStore returns an owner's store. Contenders wait for their turns without heartbeats, so no owner may expire.
func newStore(t redisclient.Transport, owner uint64) *redisclient.Store {
	return redisclient.New(t, redisclient.Options{
		Owner: owner, TTL: time.Minute, Timeout: replyTimeout,
		KV: pipe.NoKV{},
	})
}

func (w *warmgateClient) reserve() {
	w.last++
	id := w.last
	w.plan.Random = rand.Uint64()
	if w.prompts != nil {
		w.plan.Prefix = w.prompts.prefix(w.room)
	}
	w.store.Reserve(w.Now(), id, &w.plan, func(_ lb.Grant, err error) {
		if err != nil {
			w.failed = errors.Join(w.failed, err)
			return
		}
		w.held = append(w.held, id)
	})
}

func (w *warmgateClient) release() {
	w.store.Release(w.Now(), w.held[0])
	w.held = w.held[1:]
}

func (w *warmgateClient) heartbeat() { w.failed = errors.Join(w.failed, w.store.Heartbeat(w.Now())) }

func (w *warmgateClient) inFlight() int { return len(w.held) }

func (w *warmgateClient) flush() error {
	flush := w.Conn.Flush
	if w.scale != nil {
		flush = w.scale.flush
	}
	err := flush()
	w.store.Expire(w.Now()) // lets go of the answered calls
	return errors.Join(err, w.failed, w.store.HeartbeatErr())
}

// loadsOfTable reads Warmgate's counts.
func loadsOfTable(s *redisserver.Server, endpoints int) (map[string]int64, error) {
	return loadsOf(s, clusterName(endpoints))
}

// loadsOf returns the requests in flight of a scope's endpoints.
func loadsOf(s *redisserver.Server, scope string) (map[string]int64, error) {
	keys := redisclient.KeysOf(scope)
	table, err := s.Do("GET", keys.Table)
	if err != nil {
		return nil, err
	}
	rows, err := hash(s, keys.Rows)
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for addr, row := range rows {
		at[addr] = int(row)
	}
	out := map[string]int64{}
	for addr, load := range redisclient.ParseLoads(table.Bytes(), at) {
		out[addr] = load.Requests
	}
	return out, nil
}

// hash reads a hash of numbers.
func hash(s *redisserver.Server, key string) (map[string]int64, error) {
	reply, err := s.Do("HGETALL", key)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	items := reply.Array()
	for i := 0; i+1 < len(items); i += 2 {
		if out[items[i].String()], err = strconv.ParseInt(items[i+1].String(), 10, 64); err != nil {
			return nil, err
		}
	}
	return out, nil
}
