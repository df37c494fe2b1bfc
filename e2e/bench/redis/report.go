package redis

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// cell is one cluster size.
type cell struct {
	endpoints int
	runs      map[string][]measurement // by contender, then by round
}

func (c *cell) spread(contender string, get func(*measurement) float64) bench.Spread {
	return bench.SpreadBy(c.runs[contender], get)
}

// ratio returns a quantity of one contender over another's, round by round.
func (c *cell) ratio(contender, over string, get func(*measurement) float64) bench.Spread {
	return bench.RatioBy(c.runs[contender], c.runs[over], get)
}

func reserveOf(m *measurement) float64 { return m.reserve }

func releaseOf(m *measurement) float64 { return m.release }

// perCore is how many requests/s keep one core of the server busy.
func perCore(m *measurement) float64 { return 1e6 / m.cpu }

// report is the output of the benchmark.
type report struct {
	settings settings
	cells    []*cell
	budgets  *cell // nil if they were not measured
	prompts  []promptCell
	memory   map[string]float64 // bytes for a million blocks of prompts, by contender
	bound    promptBound
	deaths   []death
}

func (rep *report) columns() bench.Columns[measurement] {
	return bench.Columns[measurement]{
		bench.Col("reserve, server µs", "%.1f", reserveOf),
		bench.Col("release, server µs", "%.1f", releaseOf),
		bench.Col("bytes to Redis", "%.0f", func(m *measurement) float64 {
			return m.sent + m.heartbeatSent/rep.settings.rate
		}),
		bench.Col("bytes from Redis", "%.0f", func(m *measurement) float64 {
			return m.received + m.heartbeatReceived/rep.settings.rate
		}),
		bench.Col("main thread, CPU µs", "%.1f", func(m *measurement) float64 { return m.cpu }),
		bench.Col("requests/s per core", "%.0f", perCore),
		bench.Col("requests/s seen", "%.0f", func(m *measurement) float64 { return m.rate }),
		bench.Col("main thread busy, %", "%.0f", func(m *measurement) float64 { return 100 * m.share }),
	}
}

func (rep *report) table() *bench.Table {
	columns := rep.columns()
	t := columns.Table("endpoints, counts kept by: median (min..max), per request", "reserve over evalsha")
	for _, c := range rep.cells {
		for _, con := range contenders {
			over := c.ratio(con.name, evalsha, reserveOf).Format("%.2f")
			t.Add(columns.Row(c.runs[con.name], fmt.Sprintf("%d, %s", c.endpoints, con.name), over)...)
		}
	}
	return t
}

func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		fmt.Sprintf("reserve, release: the server's own time per command (INFO commandstats), median of %d phases of "+
			"%d in each round", s.phases(), phase),
		fmt.Sprintf("bytes: a reservation, a release, and a share of the owner's heartbeat, sent once a second, "+
			"at %v requests/s", s.rate),
		fmt.Sprintf("CPU and requests/s: all owners as fast as they can for %v; user and kernel time of the "+
			"server's main thread", s.span),
	}
	for _, con := range contenders {
		lines = append(lines, con.name+": "+con.what)
	}
	for _, c := range rep.cells {
		lines = append(lines, c.heartbeatLine(s))
	}
	lines = append(append(lines, rep.budgetLines()...), rep.promptLines()...)
	return append(lines, rep.deathLines()...)
}

// heartbeatLine returns what a heartbeat costs.
func (c *cell) heartbeatLine(s settings) string {
	median := func(get func(*measurement) float64) float64 { return c.spread(warmgate, get).Median }
	return fmt.Sprintf("heartbeat at %d endpoints, %d leases an owner: %.0f bytes to and %.0f from "+
		"Redis, %.0f µs of the server's time",
		c.endpoints, s.held*c.endpoints/s.owners,
		median(func(m *measurement) float64 { return m.heartbeatSent }),
		median(func(m *measurement) float64 { return m.heartbeatReceived }),
		median(func(m *measurement) float64 { return m.heartbeat }))
}

// promptLines returns what was measured with prompts.
func (rep *report) promptLines() (lines []string) {
	for _, c := range rep.prompts {
		lines = append(lines, c.String())
	}
	for _, con := range promptContenders(1) {
		if took, ok := rep.memory[con.name]; ok {
			lines = append(lines, fmt.Sprintf("with prompts, %s: %s; %.0f MB of the server's memory for a million "+
				"blocks, from %d conversations of %d",
				con.name, con.what, took/1e6, memoryTalks, memoryBlocks))
		}
	}
	if b := rep.bound; b.room > 0 {
		lines = append(lines, fmt.Sprintf("with prompts, warmgate: when %.1f million blocks come and %.1f MB may be "+
			"used, %.1f MB of the server's memory are",
			float64(b.blocks)/1e6, float64(b.room)/1e6, b.took/1e6))
	}
	return lines
}

// line returns the last line of the output. "vs" is Warmgate over another contender in the same round, the median over
// the rounds; plain is the contender evalsha, which is the best case of the published script. What was not measured is
// absent. docs/benchmarks/redis.md describes the figures.
func (rep *report) line() bench.Line {
	l := bench.Line{"bench": "redis", "version": rep.settings.version, "rounds": rep.settings.Rounds}
	names := map[int][2]string{
		8:   {"reserve_vs_plain_8", "bytes_vs_plain_8"},
		64:  {"reserve_vs_plain_64", "bytes_vs_plain"},
		256: {"reserve_vs_plain_256", "bytes_vs_plain_256"},
	}
	var cells []bench.Line
	for _, c := range rep.cells {
		for _, con := range contenders {
			cells = append(cells, c.line(con.name))
		}
		if name, ok := names[c.endpoints]; ok {
			l[name[0]] = c.ratio(warmgate, evalsha, reserveOf).Median
			l[name[1]] = c.ratio(warmgate, evalsha, rep.bytes).Median
		}
		if c.endpoints == 64 {
			rep.add64(l, c)
		}
	}
	l["cells"] = cells
	rep.addBudgets(l)
	rep.addPrompts(l)
	rep.addDeaths(l)
	return l
}

// bytes of a request both ways, heartbeats included.
func (rep *report) bytes(m *measurement) float64 { return m.bytes(rep.settings.rate) }

// add64 adds what is shown of 64 endpoints only, and whether the targets, which are for these, are met.
func (rep *report) add64(l bench.Line, c *cell) {
	reserve := c.ratio(warmgate, evalsha, reserveOf)
	l.Figure("reserve_vs_plain_64", &reserve)
	l["reserve_vs_eval_64"] = c.ratio(warmgate, eval, reserveOf).Median
	l["reserve_vs_hmget_64"] = c.ratio(warmgate, hmget, reserveOf).Median
	l["request_vs_plain_64"] = c.ratio(warmgate, evalsha, (*measurement).request).Median
	l["bytes_vs_eval"] = c.ratio(warmgate, eval, rep.bytes).Median
	bench.Medians(l, c.runs[warmgate], map[string]func(*measurement) float64{
		"reserve_us_64": reserveOf, "release_us_64": releaseOf, "requests_per_core": perCore,
		"round_trips":     func(m *measurement) float64 { return m.path },
		"round_trips_all": func(m *measurement) float64 { return m.path + m.after + 1/rep.settings.rate },
	})
	l["requests_per_core_plain"] = c.spread(evalsha, perCore).Median
	l["targets_met"] = map[string]bool{
		"reserve":     l.Value("reserve_vs_plain_64") <= 2,
		"bytes":       l.Value("bytes_vs_plain") < 1,
		"round_trips": c.spread(warmgate, func(m *measurement) float64 { return m.path }).Max == 1, // always
	}
}

// line returns one contender at one cluster size: medians over the rounds. Bytes are per request, without heartbeats,
// and per heartbeat of one owner.
func (c *cell) line(contender string) bench.Line {
	l := bench.Line{"endpoints": c.endpoints, "contender": contender}
	bench.Medians(l, c.runs[contender], map[string]func(*measurement) float64{
		"reserve_us": reserveOf, "release_us": releaseOf, "requests_per_core": perCore,
		"heartbeat_us":             func(m *measurement) float64 { return m.heartbeat },
		"bytes_sent":               func(m *measurement) float64 { return m.sent },
		"bytes_received":           func(m *measurement) float64 { return m.received },
		"heartbeat_bytes_sent":     func(m *measurement) float64 { return m.heartbeatSent },
		"heartbeat_bytes_received": func(m *measurement) float64 { return m.heartbeatReceived },
		"cpu_us":                   func(m *measurement) float64 { return m.cpu },
		"requests_per_second":      func(m *measurement) float64 { return m.rate },
		"main_thread_busy":         func(m *measurement) float64 { return m.share },
	})
	return l
}

const (
	// budgeted is the contender with budgets.
	budgeted = "budgets"
	// budgetTargets is how many targets have one.
	budgetTargets = 10
	// budgetRate is tokens and requests a minute: never used up, so that every reservation is granted.
	budgetRate = 1e12
)

// budgetContenders are compared in this order: the same store without budgets and with them.
var budgetContenders = []contender{
	contenders[0],
	{
		budgeted, "redisclient.Store with a budget for each endpoint: weight, cap, tokens and requests a minute",
		func(c *pipe.Conn, s settings, owner uint64, endpoints []string) client {
			w := openWarmgate(c, s, owner, endpoints).(*warmgateClient)
			w.plan.Scope += ".budgets"
			w.plan.Budget.Tokens = requestTokens
			for i := range w.plan.Candidates {
				w.plan.Candidates[i].Cap = 1000 + int64(i)
				w.plan.Budget.Limits = append(w.plan.Budget.Limits,
					budget.Limits{Weight: float64(1 + i), Tokens: budgetRate, Requests: budgetRate})
			}
			w.plan.List = lb.NewList(w.plan.Candidates)
			return w
		}, func(s *redisserver.Server, endpoints int) (map[string]int64, error) {
			return loadsOf(s, clusterName(endpoints)+".budgets")
		},
	},
}

// collectBudgets measures reservations with budgets.
func (rep *report) collectBudgets(ctx context.Context, server *redisserver.Server) (err error) {
	rep.budgets, err = compare(ctx, rep.settings, server, budgetTargets, budgetContenders, []part{
		{1, (*stage).warm}, {rep.settings.phases(), (*stage).timePhase}, {1, (*stage).drain},
	})
	return err
}

// budgetLines returns what was measured with budgets.
func (rep *report) budgetLines() []string {
	c := rep.budgets
	if c == nil {
		return nil
	}
	return []string{fmt.Sprintf("with budgets, %d targets, each with a cap and a weight of its own, %g tokens and "+
		"requests a minute, requests of %d tokens: %s; server µs per reservation %s, without budgets %s, over that "+
		"%s; per release %s", budgetTargets, float64(budgetRate), requestTokens, budgetContenders[1].what,
		c.spread(budgeted, reserveOf).Format("%.1f"), c.spread(warmgate, reserveOf).Format("%.1f"),
		c.ratio(budgeted, warmgate, reserveOf).Format("%.2f"), c.spread(budgeted, releaseOf).Format("%.1f"))}
}

// addBudgets adds what was measured with budgets to the last line: a reservation over 10 targets takes 30 µs at most.
func (rep *report) addBudgets(l bench.Line) {
	if c := rep.budgets; c != nil {
		took := c.spread(budgeted, reserveOf)
		l.Figure("schedule_script_us", &took)
		l["budgets_vs_none"] = c.ratio(budgeted, warmgate, reserveOf).Median
		l["schedule_script_target_met"] = took.Median <= 30
	}
}
