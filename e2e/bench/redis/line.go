package main

import "github.com/warmgate/warmgate/e2e/bench"

// result is the last line of the output. "vs" is Warmgate over another contender in the same round, the median over the
// rounds; plain is the contender evalsha, which is the best case of the published script. 0 = not measured.
type result struct {
	Bench           string       `json:"bench"`
	Version         string       `json:"version"`
	Reserve8        float64      `json:"reserve_vs_plain_8"`
	Reserve64       float64      `json:"reserve_vs_plain_64"`
	Reserve256      float64      `json:"reserve_vs_plain_256"`
	Reserve64Spread bench.Spread `json:"reserve_vs_plain_64_spread"`
	ReserveEval     float64      `json:"reserve_vs_eval_64"`
	ReserveHMGet    float64      `json:"reserve_vs_hmget_64"`
	Request         float64      `json:"request_vs_plain_64"` // reservation and release together
	ReserveUS       float64      `json:"reserve_us_64"`
	ReleaseUS       float64      `json:"release_us_64"`
	Path            float64      `json:"round_trips"`     // that a request waits for
	Trips           float64      `json:"round_trips_all"` // with the release and the share of the owner's heartbeats
	Bytes           float64      `json:"bytes_vs_plain"`  // both ways, heartbeats included, at 64 endpoints
	Bytes8          float64      `json:"bytes_vs_plain_8"`
	Bytes256        float64      `json:"bytes_vs_plain_256"`
	BytesEval       float64      `json:"bytes_vs_eval"`
	PerCore         float64      `json:"requests_per_core"` // at 64 endpoints, from CPU time
	PerCorePlain    float64      `json:"requests_per_core_plain"`
	budgetResult
	promptResult
	deathResult
	Cells   []cellLine    `json:"cells"`
	Rounds  int           `json:"rounds"`
	Targets targetResults `json:"targets_met"`
}

// cellLine is one contender at one cluster size: medians over the rounds.
type cellLine struct {
	Endpoints         int     `json:"endpoints"`
	Contender         string  `json:"contender"`
	ReserveUS         float64 `json:"reserve_us"`
	ReleaseUS         float64 `json:"release_us"`
	HeartbeatUS       float64 `json:"heartbeat_us"`
	Sent              float64 `json:"bytes_sent"` // per request, without heartbeats
	Received          float64 `json:"bytes_received"`
	HeartbeatSent     float64 `json:"heartbeat_bytes_sent"` // per heartbeat of one owner
	HeartbeatReceived float64 `json:"heartbeat_bytes_received"`
	CPU               float64 `json:"cpu_us"`
	PerCore           float64 `json:"requests_per_core"`
	Rate              float64 `json:"requests_per_second"`
	Busy              float64 `json:"main_thread_busy"` // share of one core
}

// targetResults is which of the project's budgets were kept.
type targetResults struct {
	Reserve    bool `json:"reserve"`     // reserve_vs_plain_64 ≤ 2
	Bytes      bool `json:"bytes"`       // bytes_vs_plain < 1
	RoundTrips bool `json:"round_trips"` // 1 in the request's path, always
}

func (rep *report) line() result {
	out := result{
		Bench: "redis", Version: rep.settings.version, Rounds: rep.settings.rounds,
		budgetResult: rep.budgetLine(), promptResult: rep.promptLine(), deathResult: rep.deathLine(),
	}
	bytes := func(m *measurement) float64 { return m.bytes(rep.settings.rate) }
	for _, c := range rep.cells {
		for _, con := range contenders {
			out.Cells = append(out.Cells, c.line(con.name))
		}
		reserve, traffic := c.ratio(warmgate, evalsha, reserveOf), c.ratio(warmgate, evalsha, bytes).Median
		switch c.endpoints {
		case 8:
			out.Reserve8, out.Bytes8 = reserve.Median, traffic
		case 256:
			out.Reserve256, out.Bytes256 = reserve.Median, traffic
		case 64:
			out.Reserve64, out.Reserve64Spread, out.Bytes = reserve.Median, reserve, traffic
			out.BytesEval = c.ratio(warmgate, eval, bytes).Median
			out.add64(c, rep.settings.rate)
		}
	}
	return out
}

// add64 fills in what is shown of 64 endpoints only, and whether the targets, which are for these, are met.
func (out *result) add64(c *cell, rate float64) {
	out.ReserveEval = c.ratio(warmgate, eval, reserveOf).Median
	out.ReserveHMGet = c.ratio(warmgate, hmget, reserveOf).Median
	out.Request = c.ratio(warmgate, evalsha, (*measurement).request).Median
	out.ReserveUS, out.ReleaseUS = c.spread(warmgate, reserveOf).Median, c.spread(warmgate, releaseOf).Median
	path := c.spread(warmgate, func(m *measurement) float64 { return m.path })
	after := c.spread(warmgate, func(m *measurement) float64 { return m.after })
	out.Path, out.Trips = path.Median, path.Median+after.Median+1/rate
	out.PerCore, out.PerCorePlain = c.spread(warmgate, perCore).Median, c.spread(evalsha, perCore).Median
	out.Targets = targetResults{Reserve: out.Reserve64 <= 2, Bytes: out.Bytes < 1, RoundTrips: path.Max == 1}
}

func (c *cell) line(contender string) cellLine {
	median := func(get func(*measurement) float64) float64 { return c.spread(contender, get).Median }
	return cellLine{
		Endpoints: c.endpoints, Contender: contender,
		ReserveUS: median(reserveOf), ReleaseUS: median(releaseOf), HeartbeatUS: median(func(m *measurement) float64 {
			return m.heartbeat
		}),
		Sent: median(func(m *measurement) float64 {
			return m.sent
		}), Received: median(func(m *measurement) float64 { return m.received }),
		HeartbeatSent:     median(func(m *measurement) float64 { return m.heartbeatSent }),
		HeartbeatReceived: median(func(m *measurement) float64 { return m.heartbeatReceived }),
		CPU:               median(func(m *measurement) float64 { return m.cpu }), PerCore: median(perCore),
		Rate: median(func(m *measurement) float64 {
			return m.rate
		}), Busy: median(func(m *measurement) float64 { return m.share }),
	}
}
