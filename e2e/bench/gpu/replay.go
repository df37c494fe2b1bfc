package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/accesslog"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/calibrate"
)

// trace is what the gateway has logged of a run.
type trace struct {
	work string
	open bool // requests come at their times, whoever serves them
	log  *accesslog.Log
}

// record keeps what the gateway has logged of the n requests of a run that began at a time.
func (rep *report) record(ctx context.Context, g *harness.Gateway, w *work, name string, began time.Time, n int) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	var lines string
	t := trace{work: w.name, open: w.users == 0}
	err := wait.Until(ctx, 100*time.Millisecond, func() (err error) { // Envoy writes it every now and then
		lines = since(g.AccessLog(), began)
		if t.log, err = accesslog.Parse(strings.NewReader(lines)); err == nil && len(t.log.Requests) != n {
			err = fmt.Errorf("the access log has %d of %d requests", len(t.log.Requests), n)
		}
		return err
	})
	if err != nil {
		return err
	}
	rep.traces = append(rep.traces, t)
	return os.WriteFile(filepath.Join(rep.folder, name+".log"), []byte(lines), 0o644)
}

// since returns the lines of an access log whose requests began at a time or later. They begin with it, in ms.
func since(log string, from time.Time) string {
	from = from.Truncate(time.Millisecond)
	var b strings.Builder
	for line := range strings.Lines(log) {
		text, _, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && !at.Before(from) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// comparison is what a policy really had with a load, and what it has in the simulation of its traces.
type comparison struct {
	work, policy string
	real         []result
	simulated    []*simulate.Result
}

// quantity is what is compared.
type quantity struct {
	name, head, verb string
	real             func(*result) float64
	simulated        func(*simulate.Result) float64
}

var quantities = []quantity{
	{"ttft_ms", "TTFT mean ms", "%.0f", ttft, func(r *simulate.Result) float64 { return 1e3 * r.TTFT.Mean }},
	{"ttft_p50_ms", "p50", "%.0f", ttftP50, func(r *simulate.Result) float64 { return 1e3 * r.TTFT.P50 }},
	{"per_token_ms", "per token ms", "%.1f", perToken, func(r *simulate.Result) float64 { return 1e3 * r.PerToken }},
	{"total_ms", "all of an answer ms", "%.0f", total, func(r *simulate.Result) float64 { return 1e3 * r.Total.Mean }},
	{"cached", "cached share", "%.3f", cached, func(r *simulate.Result) float64 { return r.Cached }},
	{"uneven", "busiest/mean by requests", "%.2f", uneven, func(r *simulate.Result) float64 { return r.Uneven }},
}

// replay compares what was real with a simulation. If that fails, what was real counts without it.
func (rep *report) replay() {
	if !slices.ContainsFunc(rep.traces, func(t trace) bool { return t.open }) {
		rep.Note("nothing was recorded to be replayed: that takes prefix_cache in an open loop")
	} else if err := rep.simulate(); err != nil {
		rep.Note("the replay failed: %v", err)
	}
}

// simulate fits simulated engines to all that was recorded, and has every policy serve the traces of open loops there.
func (rep *report) simulate() error {
	engine, err := rep.fit()
	if err != nil {
		return err
	}
	for _, w := range rep.works {
		for _, p := range rep.policies {
			c := comparison{work: w.name, policy: p.Name, real: rep.Of(w.name, p.Name)}
			for _, t := range rep.traces {
				if t.work != w.name || !t.open {
					continue
				}
				r, err := simulated(&t, p.Name, rep.settings.engines, engine)
				if err != nil {
					return fmt.Errorf("replay of %s by %s: %w", w.name, p.Name, err)
				}
				c.simulated = append(c.simulated, r)
			}
			if len(c.simulated) > 0 {
				rep.compared = append(rep.compared, c)
			}
		}
	}
	return nil
}

// fit returns an engine with the times of the real ones.
func (rep *report) fit() (simulate.Engine, error) {
	e := simulate.Engine{Config: enginesim.Config{
		MaxNumSeqs: sequences, MaxQueued: -1, MaxBatchedTokens: batchTokens, MaxModelLen: modelLength,
	}.WithDefaults()}
	e.Config.NumBlocks = rep.fleet.cacheTokens / e.Config.BlockSize
	var lines []accesslog.Request
	for _, t := range rep.traces {
		lines = append(lines, t.log.Requests...)
	}
	slices.SortStableFunc(lines, func(a, b accesslog.Request) int { return a.Start.Compare(b.Start) })
	fitted, err := calibrate.FitLog(simulate.FromLog(lines))
	if err != nil {
		return e, err
	}
	e.Times = fitted.Times
	rep.Note("simulated engines, fitted to the log of %d answers: prompt %.3g ms + %.3g ms a token, decode step "+
		"%.3g ms + %.3g ms a sequence; half of the answers that the fit has not seen are less than %.1f %% off in the "+
		"time to the first output, and %.1f %% in the rest", fitted.Answers, e.Times.PrefillOverheadMS,
		e.Times.PrefillTokenMS, e.Times.DecodeStepMS, e.Times.DecodeSeqMS, 100*fitted.Error, 100*fitted.RestError)
	return e, nil
}

// simulated has a policy serve a trace before simulated engines.
func simulated(t *trace, policy string, n int, e simulate.Engine) (*simulate.Result, error) {
	c, err := simulate.OfPolicy(policy)
	if err != nil {
		return nil, err
	}
	c.NoMetrics = true
	played := simulate.FromLog(t.log.Requests)
	if lost := played.Unsized + played.Estimated + played.Alone; lost > 0 {
		return nil, fmt.Errorf("the log lacks something of %d requests", lost)
	}
	r, err := simulate.Run(played.Recording().New(1), simulate.Alike(n, e), c, 1, nil)
	if err == nil && r.Served != len(t.log.Requests) {
		err = errors.New("not all were served")
	}
	return r, err
}

// spreads returns a quantity over the rounds.
func (q *quantity) spreads(c *comparison) (real, simulated bench.Spread) {
	var xs []float64
	for _, r := range c.simulated {
		xs = append(xs, q.simulated(r))
	}
	return bench.SpreadBy(c.real, q.real), bench.SpreadOf(xs)
}
