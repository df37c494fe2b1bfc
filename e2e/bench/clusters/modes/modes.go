// Package modes plays the modes of cluster_metrics against each other in simulated time: three clusters as different as
// clusters are, at several loads, of which one slows down, becomes faster, or fails. The policies are those of the
// plugin with the defaults of their keys, in two VMs; counts are exact. The same seeds give the same figures.
package modes

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/plugin/config"
)

// Adaptive is the mode that is to be as good as the best of the others.
const Adaptive = "AdaptiveScore"

// Names are the modes.
var Names = []string{"LeastBusy", "LeastTotalLatency", "LeastFirstTokenLatency", Adaptive}

// figures are what has come of a run. Times are in ms, of what was answered well.
type figures struct {
	mean, p99 float64
	slowest   float64       // mean of the slowest percent
	failed    int           // requests
	back      time.Duration // until the cluster that had failed has a tenth of the requests; 0: none had
}

// outcome is what a mode has done in a scene: geometric means over loads and seeds, so that each counts the same.
type outcome struct {
	mean, p99, slowest float64
	failed             int
	back               time.Duration // the longest
}

// comparison is what all modes have done in a scene, by their names.
type comparison struct {
	scene *scene
	by    map[string]outcome
}

// compare plays the scenes with all modes.
func compare(list []scene, seeds int) ([]comparison, error) {
	var all []comparison
	for i := range list {
		c := comparison{&list[i], map[string]outcome{}}
		for _, mode := range Names {
			o, err := playAll(&list[i], mode, seeds)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", list[i].title(), mode, err)
			}
			c.by[mode] = o
		}
		all = append(all, c)
	}
	return all, nil
}

// configOf returns the configuration with a mode, and all other keys as they are by default.
func configOf(mode string, sites int) (*config.Config, error) {
	names := ""
	for i := range sites {
		names += fmt.Sprintf(",%q", nameOf(i))
	}
	set, err := config.Parse([]byte(`{"lb_type":"cluster","lb_policy":"cluster_metrics","lb_config":{"mode":"`+mode+
		`","service_list":[`+names[1:]+`]}}`), config.Envoy)
	if err != nil {
		return nil, err
	}
	return set.Match("", "", ""), nil
}

// playAll plays a scene with a mode, at all its loads.
func playAll(s *scene, mode string, seeds int) (o outcome, err error) {
	c, err := configOf(mode, len(s.sites))
	if err != nil {
		return o, err
	}
	n := 0.0
	for _, load := range s.loads {
		for seed := range seeds {
			r, err := begin(s, c, uint64(seed)+1)
			if err != nil {
				return o, err
			}
			if err := r.play(load); err != nil {
				return o, err
			}
			f := r.figures()
			o.mean += math.Log(f.mean)
			o.p99 += math.Log(f.p99)
			o.slowest += math.Log(f.slowest)
			o.failed += f.failed
			o.back = max(o.back, f.back)
			n++
		}
	}
	for _, sum := range []*float64{&o.mean, &o.p99, &o.slowest} {
		*sum = math.Exp(*sum / n)
	}
	return o, nil
}

// figures returns what has come of the run.
func (r *run) figures() figures {
	var took []float64
	f := figures{}
	for _, q := range r.all {
		switch {
		case q.at < r.scene.scaled(warm):
		case q.failed:
			f.failed++
		default:
			took = append(took, bench.MS(q.over-q.at))
		}
	}
	slices.Sort(took)
	slowest := took[len(took)*99/100:]
	f.mean, f.p99, f.slowest = mean(took), slowest[0], mean(slowest)
	for i, e := range r.scene.events {
		if i > 0 && e.times > 0 && r.scene.events[i-1].times == 0 {
			f.back = r.backAfter(r.scene.scaled(e.at), e.site)
		}
	}
	return f
}

func mean(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

// backAfter returns after what time a cluster has got a tenth of the requests of a second.
func (r *run) backAfter(works time.Duration, site int) time.Duration {
	const span, part = time.Second, 10
	got, all, first := 0, 0, 0
	for _, q := range r.all {
		if q.at < works {
			first++
			continue
		}
		for ; r.all[first].at < q.at-span; first++ {
			all--
			if r.all[first].site == site {
				got--
			}
		}
		all++
		if q.site == site {
			got++
		}
		if q.at >= works+span && got*part >= all {
			return q.at - works
		}
	}
	return r.scene.scaled(end) - works
}

func (s *scene) title() string {
	if s.varied {
		return s.name + ", answers vary"
	}
	return s.name
}

// best returns the lowest figure of the other modes.
func (c *comparison) best(of func(outcome) float64) float64 {
	best := math.Inf(1)
	for _, mode := range Names {
		if mode != Adaptive {
			best = min(best, of(c.by[mode]))
		}
	}
	return best
}

// ratio returns a figure of AdaptiveScore over that of the best other mode.
func (c *comparison) ratio(of func(outcome) float64) float64 { return of(c.by[Adaptive]) / c.best(of) }

func meanOf(o outcome) float64    { return o.mean }
func p99Of(o outcome) float64     { return o.p99 }
func slowestOf(o outcome) float64 { return o.slowest }

// Print plays all scenes and prints a table of them, and a line with what AdaptiveScore takes over the best others.
func Print(w io.Writer, markdown string, seeds int) error {
	all, err := compare(scenes, seeds)
	if err != nil {
		return err
	}
	line := bench.Line{"bench": "clusters", "seeds": seeds, "scenes": len(all)}
	for _, m := range []struct {
		name string
		of   func(outcome) float64
	}{{"mean", meanOf}, {"p99", p99Of}, {"slowest", slowestOf}} {
		sum, worst := 0.0, 0.0
		for i := range all {
			ratio := all[i].ratio(m.of)
			sum, worst = sum+math.Log(ratio), max(worst, ratio)
		}
		line[m.name+"_vs_best"] = math.Exp(sum / float64(len(all)))
		line[m.name+"_vs_best_worst"] = worst
	}
	return bench.Publish(w, markdown, configuration(seeds), table(all), line)
}

func configuration(seeds int) []string {
	return []string{
		fmt.Sprintf("modes of cluster_metrics with the defaults of all other keys, in %d VMs; simulated time; "+
			"seeds 1 to %d", workers, seeds),
		"figures: mean / p99 / mean of the slowest percent of the time to the end of an answer, in ms, of good " +
			"answers; geometric means over loads and seeds",
		"failed: requests over all loads and seeds, by mode; back: until a cluster that had failed had a tenth of " +
			"the requests of a second, the longest, by mode",
	}
}

// table has a row for each scene.
func table(all []comparison) *bench.Table {
	t := &bench.Table{Head: append(append([]string{"scene"}, Names...), "over the best", "failed", "back s")}
	for i := range all {
		c := &all[i]
		row, failed, back := []string{c.scene.title()}, "", ""
		for _, mode := range Names {
			o := c.by[mode]
			row = append(row, fmt.Sprintf("%.0f / %.0f / %.0f", o.mean, o.p99, o.slowest))
			failed += fmt.Sprintf(" %d", o.failed)
			back += fmt.Sprintf(" %.1f", o.back.Seconds())
		}
		row = append(row, fmt.Sprintf("%.2f / %.2f / %.2f", c.ratio(meanOf), c.ratio(p99Of), c.ratio(slowestOf)))
		if c.by[Adaptive].back == 0 {
			failed, back = " –", " –"
		}
		t.Add(append(row, failed[1:], back[1:])...)
	}
	return t
}
