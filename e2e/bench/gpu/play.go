package gpu

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// result is what a policy did in a run.
type result struct {
	scripted.Figures
	perToken float64 // ms from one token of an answer to the next, mean over answers
	gapP99   float64 // ms between two events of a stream, of all
	busiest  float64 // requests at the busiest engine over the mean of all, mean over time
	uneven   float64 // requests of the busiest engine over the mean of all
}

func ttft(r *result) float64     { return bench.MS(r.Summary.TTFT.Mean) }
func ttftP50(r *result) float64  { return bench.MS(r.Summary.TTFT.P50) }
func total(r *result) float64    { return bench.MS(r.Summary.Latency.Mean) }
func perToken(r *result) float64 { return r.perToken }
func cached(r *result) float64   { return r.Cached }
func uneven(r *result) float64   { return r.uneven }

// columns are those of the table.
var columns = bench.Columns[result]{
	bench.Col("TTFT mean ms", "%.0f", ttft),
	bench.Col("p50", "%.0f", ttftP50),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }),
	bench.Col("per token ms", "%.1f", perToken),
	bench.Col("p99 of gaps", "%.1f", func(r *result) float64 { return r.gapP99 }),
	bench.Col("all of an answer ms", "%.0f", total),
	bench.Col("p50", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P50) }),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P99) }),
	bench.Col("busiest/mean", "%.2f", func(r *result) float64 { return r.busiest }),
	bench.Col("by requests", "%.2f", uneven),
	bench.Col("cached share", "%.3f", cached),
}

// policies returns all, in the order of the table.
func policies() []compare.Policy {
	counts := compare.Warmgate
	counts.Name = "global_least_request"
	return []compare.Policy{
		compare.RoundRobin, compare.LeastRequest, compare.RingHash(scripted.SessionHeader), counts,
		compare.PrefixCache,
	}
}

func policyName(p compare.Policy) string { return p.Name }

// report is what is played, and its output.
type report struct {
	bench.Notes
	bench.Runs[result]
	settings settings
	fleet    *fleet
	policies []compare.Policy
	works    []work
	folder   string
	texts    uint64  // runs that had words of their own
	traces   []trace // that were recorded
	compared []comparison
}

// named has the gateway say which engine has answered.
func named(file string, doc *yaml.Node) error {
	if file != "envoy.yaml" {
		return nil
	}
	return harness.Set(doc, harness.ManagerPath+".route_config.virtual_hosts[name=llm].response_headers_to_add", []any{
		map[string]any{
			"header":        map[string]any{"key": loadgen.EndpointHeader, "value": "%UPSTREAM_HOST%"},
			"append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
		},
	})
}

// play plays all loads, and then the traces of them in a simulation.
func (rep *report) play(ctx context.Context) error {
	err := compare.On(ctx, compare.Options{
		Workers: rep.settings.Workers, Behind: rep.fleet.addrs, First: compare.RoundRobin, Edit: named,
	}, func(stage *compare.Stage) error {
		for i := range rep.works {
			if err := rep.playWork(ctx, stage, &rep.works[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		rep.replay()
	}
	return err
}

// playWork plays a load with all policies, in all rounds.
func (rep *report) playWork(ctx context.Context, stage *compare.Stage, w *work) error {
	if err := rep.pace(ctx, stage, w); err != nil {
		return err
	}
	return bench.Play(&rep.Runs, columns, w.name, rep.settings.Rounds, bench.Names(rep.policies, policyName),
		func(round int) (int, error) { return round, nil },
		func(round, i int) (result, error) {
			p := rep.policies[i]
			return rep.run(ctx, stage, p, w, w.scripts(rep.settings.Seed+uint64(round), rep.words()))
		})
}

// run has a policy serve the sessions, with empty caches. It keeps what became of each request, and of prefix_cache
// what the gateway has logged.
func (rep *report) run(ctx context.Context, stage *compare.Stage, p compare.Policy, w *work, scripts []traffic.Script,
) (r result, err error) {
	if err := stage.Switch(ctx, p); err != nil {
		return r, err
	}
	if err := rep.warm(ctx, stage, p); err != nil {
		return r, err
	}
	if err := rep.fleet.forget(ctx); err != nil {
		return r, err
	}
	began, player := time.Now(), scripted.Player{Client: stage.Client()}
	samples := player.Play(ctx, scripts, w.users)
	if err := ctx.Err(); err != nil {
		return r, err
	}
	name := fmt.Sprintf("%s-%s-%d", w.name, p.Name, rep.texts)
	if err := rep.keep(name, samples); err != nil {
		return r, err
	}
	if err := answered(samples); err != nil {
		return r, err
	}
	if err := p.Steered(samples); err != nil {
		return r, err
	}
	if p.Name == compare.PrefixCache.Name {
		if err := rep.record(ctx, stage.Gateway, w, name, began, len(samples)); err != nil {
			return r, err
		}
	}
	return resultOf(samples, len(rep.fleet.addrs)), nil
}

// keep writes what became of each request.
func (rep *report) keep(name string, samples []loadgen.Sample) error {
	text, err := json.Marshal(samples)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(rep.folder, name+".json"), text, 0o644)
}

// resultOf reduces the samples of a run on n engines.
func resultOf(samples []loadgen.Sample, n int) result {
	r := result{Figures: scripted.Window{To: math.MaxInt64}.Figures(samples), busiest: busiest(samples, n)}
	r.uneven = r.Uneven(n)
	answers := 0
	var gaps []float64
	for i := range samples {
		s := &samples[i]
		if tokens := s.Usage.Completion; tokens > 1 {
			r.perToken += bench.MS(s.Total-s.TTFT) / float64(tokens-1)
			answers++
		}
		for _, g := range s.Gaps {
			gaps = append(gaps, bench.MS(g))
		}
	}
	r.perToken /= float64(max(1, answers))
	if len(gaps) > 0 {
		slices.Sort(gaps)
		r.gapP99 = gaps[int(0.99*float64(len(gaps)-1))]
	}
	return r
}

// busiest returns the requests at the busiest of n engines over the mean of all, as the mean over the time in which
// there are any.
func busiest(samples []loadgen.Sample, n int) float64 {
	type change struct {
		at     time.Duration
		engine string
		by     int
	}
	var changes []change
	for i := range samples {
		s := &samples[i]
		changes = append(changes, change{s.Sent, s.Endpoint, 1}, change{s.Due + s.Total, s.Endpoint, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	at, all, sum, spent := map[string]int{}, 0, 0.0, 0.0
	for i, c := range changes {
		if all > 0 {
			most := 0
			for _, count := range at {
				most = max(most, count)
			}
			d := (c.at - changes[i-1].at).Seconds()
			sum += d * float64(most*n) / float64(all)
			spent += d
		}
		at[c.engine] += c.by
		all += c.by
	}
	if spent == 0 {
		return 0
	}
	return sum / spent
}
