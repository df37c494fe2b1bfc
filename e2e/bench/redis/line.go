package redis

import "github.com/warmgate/warmgate/e2e/bench"

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
