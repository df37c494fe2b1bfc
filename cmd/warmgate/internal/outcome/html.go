package outcome

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/warmgate/warmgate/internal/simulate"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML writes a page about runs: what was simulated, the table, and plots. It needs nothing else to be shown.
func HTML(w io.Writer, about []string, runs []Run) error {
	all := columnsOf(runs)
	data := struct {
		About, Head []string
		Rows        [][]string
		Plots       []template.HTML
	}{About: about, Head: []string{"policy"}}
	for _, c := range all {
		data.Head = append(data.Head, c.table)
	}
	rows := withParts(runs)
	for i := range rows {
		row := []string{label(&rows[i])}
		for _, c := range all {
			row = append(row, c.cell(&rows[i]))
		}
		data.Rows = append(data.Rows, row)
	}
	data.Plots = plots(runs)
	return page.Execute(w, data)
}

// label names a run among all.
func label(r *Run) string { return fmt.Sprintf("%s, %d", r.Policy, r.Endpoints) }

func plots(runs []Run) (all []template.HTML) {
	open := plot{Title: "Requests under way", X: "s", Y: "requests"}
	cached := plot{Title: "Cached share of prompts", X: "s", Y: "%"}
	ttft := plot{Title: "Time to first token: share of requests within a time", X: "ms", Y: "%", Log: true}
	wait := plot{Title: "Mean time to first token", X: "s", Y: "ms"}
	price := plot{Title: "Cost of a million tokens of answers", X: "endpoints", Y: "cost"}
	byPolicy := map[string]int{}
	for i := range runs {
		r := &runs[i]
		open.Lines = append(open.Lines, overTime(r, func(p *simulate.Point) (float64, bool) {
			return float64(p.Open), p.Served > 0
		}))
		cached.Lines = append(cached.Lines, overTime(r, func(p *simulate.Point) (float64, bool) {
			return 100 * float64(p.Cached) / float64(max(1, p.Prompt)), p.Prompt > 0
		}))
		wait.Lines = append(wait.Lines, overTime(r, func(p *simulate.Point) (float64, bool) {
			return 1e3 * p.TTFT / float64(max(1, p.First)), p.First > 0
		}))
		ttft.Lines = append(ttft.Lines, distribution(r))
		if r.Cost > 0 && r.Output > 0 {
			k, ok := byPolicy[r.Policy]
			if !ok {
				k = len(price.Lines)
				byPolicy[r.Policy] = k
				price.Lines = append(price.Lines, line{Name: r.Policy})
			}
			l := &price.Lines[k]
			l.X, l.Y = append(l.X, float64(r.Endpoints)), append(l.Y, r.perMillion())
		}
	}
	for _, p := range append([]*plot{&ttft, &wait, &open, &cached, &price}, regionPlots(runs)...) {
		if len(p.Lines) > 0 {
			all = append(all, p.svg())
		}
	}
	return all
}

// regionPlots returns plots of each run in regions: which of them has how many requests, and what it sends to others.
func regionPlots(runs []Run) (all []*plot) {
	for i := range runs {
		open := plot{Title: "Requests under way by region: " + label(&runs[i]), X: "s", Y: "requests"}
		sent := plot{Title: "Forwarded to other regions: " + label(&runs[i]), X: "s", Y: "%"}
		for _, of := range runs[i].Regions {
			r := Run{Result: of.Result}
			under := overTime(&r, func(p *simulate.Point) (float64, bool) { return float64(p.Open), p.Served > 0 })
			share := overTime(&r, func(p *simulate.Point) (float64, bool) {
				return 100 * float64(p.Forwarded) / float64(max(1, p.Sent)), p.Sent > 0
			})
			under.Name, share.Name = of.Name, of.Name
			open.Lines = append(open.Lines, under)
			if of.Forwarded > 0 {
				sent.Lines = append(sent.Lines, share)
			}
		}
		all = append(all, &open, &sent)
	}
	return all
}

// overTime returns a line of what the points of a run have, where they have it.
func overTime(r *Run, of func(*simulate.Point) (y float64, ok bool)) line {
	l := line{Name: label(r)}
	for i := range r.Points {
		if y, ok := of(&r.Points[i]); ok {
			l.X = append(l.X, (float64(i)+0.5)*r.Every.Seconds())
			l.Y = append(l.Y, y)
		}
	}
	return l
}

// distribution returns which share of the requests of a run had their first token within which time.
func distribution(r *Run) line {
	const steps = 200
	l := line{Name: label(r)}
	for i := range steps + 1 {
		if n := len(r.TTFTs); n > 0 {
			l.X = append(l.X, 1e3*float64(r.TTFTs[(n-1)*i/steps]))
			l.Y = append(l.Y, 100*float64(i)/steps)
		}
	}
	return l
}
