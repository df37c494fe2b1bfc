package redis

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
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

func (c *cell) progress() string {
	text := fmt.Sprintf("%3d endpoints: server µs per reservation + release", c.endpoints)
	for _, con := range contenders {
		text += fmt.Sprintf("  %s %.1f + %.1f", con.name, c.spread(con.name, reserveOf).Median,
			c.spread(con.name, releaseOf).Median)
	}
	return text + fmt.Sprintf("  warmgate/evalsha %s", c.ratio(warmgate, evalsha, reserveOf).Format("%.2f"))
}

// report is the output of the benchmark.
type report struct {
	settings settings
	cells    []*cell
	budgets  *cell // nil if they were not measured
	prompts  []promptCell
	turns    []turnCell
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
	for _, c := range rep.turns {
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
