package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// figure is a quantity of results: a line of the table.
type figure struct {
	head string
	of   func(*result) float64
	show func(float64) string
	more bool // is better
}

func quantile(head string, of func(*result) time.Duration) figure {
	return figure{head: head, of: func(r *result) float64 { return of(r).Seconds() }, show: func(s float64) string {
		return seconds(time.Duration(s * float64(time.Second)))
	}}
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

var (
	ttft50    = quantile("time to first token, p50", func(r *result) time.Duration { return r.ttft.P50 })
	ttft90    = quantile("time to first token, p90", func(r *result) time.Duration { return r.ttft.P90 })
	ttft99    = quantile("time to first token, p99", func(r *result) time.Duration { return r.ttft.P99 })
	latency50 = quantile("time to last token, p50", func(r *result) time.Duration { return r.latency.P50 })
	latency99 = quantile("time to last token, p99", func(r *result) time.Duration { return r.latency.P99 })

	ttftInTime = quantile("time to first token of these, p90", func(r *result) time.Duration { return r.ttft.P90 })

	waste = figure{
		head: "time with requests queued while another server had room", of: func(r *result) float64 { return r.free },
		show: func(s float64) string { return fmt.Sprintf("%.1f s", s) },
	}
	fromCache = figure{
		head: "prompt tokens found in KV caches", of: func(r *result) float64 { return r.cached }, show: percent,
		more: true,
	}
	goodput = figure{
		head: "answered in time, all classes", of: func(r *result) float64 { return r.goodput },
		show: func(n float64) string { return fmt.Sprintf("%.0f/s", n) }, more: true,
	}
)

// inTime is the share of a class that was answered within its deadline.
func inTime(class string) figure {
	return figure{
		head: class + " requests answered in time", of: func(r *result) float64 { return r.good[class] }, show: percent,
		more: true,
	}
}

// played is an act with what came of it.
type played struct {
	*act
	results [contenders]result
	cpu     bench.Used
}

// table has the contenders side by side.
func (p *played) table() *bench.Table {
	t := &bench.Table{Head: []string{""}}
	for i := range p.policies {
		t.Head = append(t.Head, p.policies[i].Name)
	}
	row := func(head string, cell func(*result) string) {
		cells := []string{head}
		for i := range p.results {
			cells = append(cells, cell(&p.results[i]))
		}
		t.Add(cells...)
	}
	for _, f := range p.figures {
		row(f.head, func(r *result) string { return f.show(f.of(r)) })
	}
	row("failed requests", func(r *result) string { return fmt.Sprint(r.failed) })
	return t
}

// summary says what users get with Warmgate and with its rivals, and where the best of these is better.
func (p *played) summary() string {
	own, best, losses := &p.results[contenders-1], []string(nil), []string(nil)
	for i, f := range p.figures {
		if i < p.headline {
			best = append(best, f.head+" "+f.show(f.of(own))+" ("+p.rivals(f)+")")
		}
		if rival := p.better(f); rival != "" {
			losses = append(losses, f.head+" ("+rival+")")
		}
	}
	text := p.name + ", with " + p.policies[contenders-1].Name + ": " + strings.Join(best, "; ") + "."
	if len(losses) > 0 {
		text += " A rival is better: " + strings.Join(losses, ", ") + "."
	}
	return strings.TrimSpace(text + " " + p.note)
}

// rivals is a figure of each rival.
func (p *played) rivals(f figure) string {
	var all []string
	for i := range contenders - 1 {
		all = append(all, p.one(f, i))
	}
	return strings.Join(all, ", ")
}

func (p *played) one(f figure, who int) string {
	return p.policies[who].Name + " " + f.show(f.of(&p.results[who]))
}

// better returns the best rival with its figure if that is better than Warmgate's, as both are shown; "" if it is not.
func (p *played) better(f figure) string {
	best := contenders - 1
	for i := range p.results {
		if a, b := f.of(&p.results[i]), f.of(&p.results[best]); a != b && (a > b) == f.more && f.show(a) != f.show(b) {
			best = i
		}
	}
	if best == contenders-1 {
		return ""
	}
	return p.one(f, best)
}

// busiest is the share of the machine's CPU time up to which figures are taken for those of the policies alone.
const busiest = 0.9

// machine says how busy the machine was.
func (p *played) machine() string {
	text := fmt.Sprintf("Envoys used %.1f cores, clients and servers %.1f; the machine was idle for %.0f %% of the "+
		"time.", p.cpu.Gateways, p.cpu.Own, 100*(1-p.cpu.Machine))
	if p.cpu.Machine > busiest {
		text += " It was too busy: these figures are not those of the policies alone."
	}
	return text
}

func describe(s *loadgen.Sample) string {
	return fmt.Sprintf("request %d failed: %s: %s", s.ID, s.Error, s.Detail)
}
