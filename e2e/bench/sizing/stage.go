package sizing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// run is one run of one contender.
type run struct {
	cores       float64 // Envoy's CPU time per second
	rss         float64 // resident memory of Envoy, MiB
	p50, p99    float64 // ms from when a request was due until it was answered
	rate        float64 // answers per second
	late        float64 // ms, 99th percentile: by how much the client was behind
	machine     float64 // the share of the machine's CPU time that everything used
	own         float64 // cores of clients and servers
	redisCores  float64
	redisMemory float64 // MiB that Redis uses
	redisRSS    float64 // MiB that it has
	base        *run    // of the gateway without a plugin in the same round
}

// stage is all that is running for a cell. Every contender has a process of its own, so that memory is that of this
// load alone.
type stage struct {
	settings   settings
	cell       cell
	contenders []contender
	gateways   []*harness.Gateway
	redis      *redisserver.Server
	prompts    *conversations
}

// result is what was measured in a cell.
type result struct {
	settings settings
	cell     cell
	names    []string
	known    []float64 // by contender: the share of a prompt that it can find in its index
	runs     [][]run   // by contender, then by round
}

// measure plays a cell.
func measure(ctx context.Context, s settings, c cell, up *bench.Upstream) (*result, error) {
	size := s.size(c)
	up.Answer(fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}`,
		c.tokens, int(float64(c.tokens)*(1-newShare))))
	st := &stage{settings: s, cell: c, contenders: s.of(c), prompts: newConversations(s.conversations, size)}
	defer st.end()
	if err := st.begin(ctx, up); err != nil {
		return nil, err
	}
	out := &result{settings: s, cell: c, names: bench.Names(st.contenders, func(c contender) string { return c.name })}
	for _, con := range st.contenders {
		share, err := known(st.prompts.body(0), con)
		if err != nil {
			return nil, err
		}
		out.known = append(out.known, share)
	}
	// The first round is not measured: connections open, conversations become known.
	runs, err := bench.Rounds(s.Rounds+1, len(st.contenders), nil, func(round, i int) (run, error) {
		return st.play(ctx, round, i)
	})
	if err != nil {
		return nil, err
	}
	for _, list := range runs {
		out.runs = append(out.runs, list[1:])
	}
	for _, list := range out.runs {
		for round := range list {
			list[round].base = &out.runs[0][round]
		}
	}
	return out, nil
}

// begin starts all gateways, and waits until the plugin has read the list of endpoints.
func (st *stage) begin(ctx context.Context, up *bench.Upstream) (err error) {
	var redisAddr string
	for _, con := range st.contenders {
		if con.redis {
			if st.redis, err = redisserver.Start(ctx, redisserver.Options{}); err != nil {
				return err
			}
			redisAddr = st.redis.Addr()
		}
	}
	native := harness.Options{Policy: harness.LeastRequest, Edit: bench.Quiet}
	for _, addr := range up.Addrs(st.settings.endpoints) {
		native.Endpoints = append(native.Endpoints, harness.Endpoint{Addr: addr})
	}
	for _, con := range st.contenders {
		g, err := harness.Start(ctx, con.options(native, redisAddr))
		if err != nil {
			return fmt.Errorf("%s: %w", con.name, err)
		}
		st.gateways = append(st.gateways, g)
	}
	return wait.For(ctx, 2500*time.Millisecond) // the plugin reads the list of endpoints every two seconds
}

func (st *stage) end() {
	for _, g := range st.gateways {
		_ = g.Stop() // the process ends with this one in any case
	}
	if st.redis != nil {
		_ = st.redis.Stop()
	}
}

// play measures contender i once.
func (st *stage) play(ctx context.Context, round, i int) (r run, err error) {
	con, g := st.contenders[i], st.gateways[i]
	n := st.settings.requests(st.cell)
	decided, err := st.decided(ctx, i)
	if err != nil {
		return r, err
	}
	before, err := st.redisUse(con)
	if err != nil {
		return r, err
	}
	var res loadgen.RawOpenResult
	var failed error
	begin := time.Now()
	used, err := bench.Use([]*harness.Gateway{g}, func() {
		open := loadgen.RawOpen{
			Addr: g.Addr(), Rate: st.cell.rate, Requests: n, Seed: uint64(round),
			Request: func(k int) net.Buffers { return st.prompts.request(round*n + k) },
		}
		res, failed = open.Run(ctx)
	})
	seconds := time.Since(begin).Seconds()
	if failed == nil && res.Non200+res.Errors > 0 {
		failed = fmt.Errorf("%d of %d requests failed: %s", res.Non200+res.Errors, n, res.Detail)
	}
	after, err2 := st.redisUse(con)
	rss, err3 := g.RSS()
	now, err4 := st.decided(ctx, i)
	if err := errors.Join(err, failed, err2, err3, err4); err != nil {
		return r, fmt.Errorf("%s: %w", con.name, err)
	}
	// The first requests may find no endpoints yet.
	if round > 0 && con.policy != "" && now-decided != float64(n) {
		return r, fmt.Errorf("%s: Warmgate chose for %v of %d requests: a run without decisions measures nothing",
			con.name, now-decided, n)
	}
	return run{
		cores: used.Gateways, machine: used.Machine, own: used.Own, rss: float64(rss) / mib, rate: res.Rate,
		p50: bench.MS(res.Latency.P50), p99: bench.MS(res.Latency.P99), late: bench.MS(res.Late.P99),
		redisCores: (after.seconds - before.seconds) / seconds, redisMemory: after.memory, redisRSS: after.rss,
	}, nil
}

const mib = 1 << 20

// decided returns how many requests the contender's plugin has placed.
func (st *stage) decided(ctx context.Context, i int) (float64, error) {
	if st.contenders[i].policy == "" {
		return 0, nil
	}
	return st.gateways[i].Sum(ctx, `warmgate_decisions_total.*reason=(\.=\.)?(chosen|body_late)`)
}

// redisUsed is what a Redis server has used so far.
type redisUsed struct{ seconds, memory, rss float64 }

// redisUse reads what Redis has used, if the contender uses one.
func (st *stage) redisUse(con contender) (u redisUsed, err error) {
	if !con.redis {
		return u, nil
	}
	cpu, err := st.redis.Info("cpu")
	if err != nil {
		return u, err
	}
	memory, err := st.redis.Info("memory")
	if err != nil {
		return u, err
	}
	for _, f := range []struct {
		to   *float64
		text string
		unit float64
	}{
		{&u.seconds, cpu["used_cpu_user"], 1},
		{&u.seconds, cpu["used_cpu_sys"], 1},
		{&u.memory, memory["used_memory"], mib},
		{&u.rss, memory["used_memory_rss"], mib},
	} {
		x, err := strconv.ParseFloat(f.text, 64)
		if err != nil {
			return u, fmt.Errorf("INFO: %w", err)
		}
		*f.to += x / f.unit
	}
	return u, nil
}
