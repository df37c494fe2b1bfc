package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/redisclient"
)

type settings struct {
	bench.Settings
	version   string
	endpoints bench.List[int]
	prompts   bench.List[int] // blocks
	turns     bench.List[int] // bytes of prompts of one message
	few       int             // endpoints that these are sent to
	owners    int
	depth     int // commands that an owner sends at once
	held      int // requests in flight per endpoint
	kinds     int // of endpoints, in turns
	calls     int // reservations that are timed in a round
	span      time.Duration
	room      int     // bytes for prompts in the measurement of their bound
	rate      float64 // requests/s of an owner, over which its heartbeats are spread
	dead      int     // owners that die at once in the measurement of the longest script
	leases    int     // of each of them, and of one that stays
}

// client is one worker of a gateway: a connection, and the requests that it has in flight. Its commands are sent, and
// their answers read, by settle.
type client interface {
	reserve()      // reserves an endpoint for a request
	release()      // ends the oldest request in flight
	heartbeat()    // what is due once a second
	inFlight() int // answered reservations that were not released
	settle() error // returns also what went wrong before
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

func (w *warmgateClient) settle() error {
	flush := w.Conn.Flush
	if w.scale != nil {
		flush = w.scale.settle
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

// plainClient is the published way to share counts: one hash of counters per cluster, the endpoints sent along with
// every request, no lease.
type plainClient struct {
	*pipe.Conn
	key       string
	words     []string // of the command that reserves
	endpoints []string // the end of words; which one is first is drawn for each
	prompts   *prompts // that go along; nil for none
	cmd       []byte
	held      []string
	failed    error
}

// plainContender makes a contender of a script. whole sends the script's text each time instead of its hash.
func plainContender(name, what, script string, whole bool) contender {
	key := func(endpoints int) string { return name + ":" + clusterName(endpoints) }
	return contender{
		name: name, what: what,
		open: func(c *pipe.Conn, _ settings, _ uint64, endpoints []string) client {
			p := &plainClient{Conn: c, key: key(len(endpoints))}
			sum := sha1.Sum([]byte(script))
			p.words = []string{"EVALSHA", hex.EncodeToString(sum[:]), "1", p.key}
			if whole {
				p.words[0], p.words[1] = "EVAL", script
			} else {
				p.command(func(redisclient.Value) {}, "SCRIPT", "LOAD", script)
			}
			head := len(p.words)
			p.words = append(p.words, endpoints...)
			p.endpoints = p.words[head:]
			return p
		},
		loads: func(s *redisserver.Server, endpoints int) (map[string]int64, error) { return hash(s, key(endpoints)) },
	}
}

// command sends a command and passes a good answer on.
func (p *plainClient) command(done func(redisclient.Value), words ...string) {
	p.cmd = redisclient.AppendCommand(p.cmd[:0], words...)
	p.Do(0, p.cmd, func(_ time.Duration, reply []byte, _ error) {
		v, _, err := redisclient.Parse(reply)
		if err == nil && v.Kind == redisclient.ErrorReply {
			err = fmt.Errorf("%s: %s", words[0], v.Str)
		}
		if err != nil {
			p.failed = errors.Join(p.failed, err)
			return
		}
		done(v)
	})
}

func (p *plainClient) reserve() {
	first := rand.IntN(len(p.endpoints))
	p.endpoints[0], p.endpoints[first] = p.endpoints[first], p.endpoints[0]
	words := p.words
	if p.prompts != nil {
		words = append(words[:len(words):len(words)], p.prompts.digests()...)
	}
	p.command(func(v redisclient.Value) { p.held = append(p.held, string(v.Str)) }, words...)
}

func (p *plainClient) release() {
	host := p.held[0]
	p.held = p.held[1:]
	p.command(func(v redisclient.Value) {
		if v.Int < 0 {
			p.failed = errors.Join(p.failed, fmt.Errorf("%d requests in flight at %s", v.Int, host))
		}
	}, "HINCRBY", p.key, host, "-1")
}

func (p *plainClient) heartbeat() {}

func (p *plainClient) inFlight() int { return len(p.held) }

func (p *plainClient) settle() error { return errors.Join(p.Conn.Flush(), p.failed) }

// compare measures every contender at one cluster size.
func compare(
	ctx context.Context, s settings, server *redisserver.Server, endpoints int, contenders []contender, parts []part,
) (*cell, error) {
	c := &cell{endpoints: endpoints, runs: map[string][]measurement{}}
	var stages []*stage
	defer func() {
		for _, st := range stages {
			_ = st.close() // what had to arrive has been answered
		}
	}()
	for _, con := range contenders {
		st, err := start(s, server, con, endpoints)
		if err != nil {
			return nil, err
		}
		stages = append(stages, st)
	}
	for round := range s.Rounds {
		got, err := measure(ctx, stages, round, parts)
		if err != nil {
			return nil, err
		}
		for i, m := range got {
			c.runs[stages[i].name] = append(c.runs[stages[i].name], m)
		}
	}
	return c, nil
}
