// Package outcome shows what has come of simulations: as a table, CSV, JSON, and a page of HTML with plots.
package outcome

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/warmgate/warmgate/internal/simulate"
)

// Formats are the formats that [Print] knows. The first one is the default.
var Formats = []string{"table", "csv", "json"}

// Run is one simulation.
type Run struct {
	*simulate.Result
	// Cost is what the endpoints have cost until the last answer, 0 if no price is known.
	Cost float64 `json:"cost,omitempty"`
	// Suffices reports whether the endpoints meet the limit of --within, nil without one.
	Suffices *bool `json:"suffices,omitempty"`
}

// withParts returns the runs with a row below its run for each region of the users, and for each class, of which only
// some figures are known. Of what has served nothing no times are known.
func withParts(runs []Run) (rows []Run) {
	nan := math.NaN()
	timesOf := func(served int, ttft simulate.Times) simulate.Times {
		if served == 0 {
			return simulate.Times{Mean: nan, P50: nan, P90: nan, P99: nan}
		}
		return ttft
	}
	add := func(r simulate.Result, cost float64) {
		if r.TTFT = timesOf(r.Served, r.TTFT); r.Served == 0 {
			r.PerToken, r.TokensPer, r.Cached, r.Waited, r.Queued, r.Uneven = nan, nan, nan, nan, nan, nan
		}
		rows = append(rows, Run{Result: &r, Cost: cost})
	}
	for _, run := range runs {
		r := *run.Result
		add(r, run.Cost)
		for _, of := range r.Regions {
			part := *of.Result
			part.Policy += ": " + of.Name
			add(part, nan)
		}
		for _, c := range r.Classes {
			rows = append(rows, Run{Cost: nan, Result: &simulate.Result{
				Policy: r.Policy + ": " + c.Name, Endpoints: r.Endpoints, Served: c.Served,
				Refused: map[string]int{"": c.Refused}, TTFT: timesOf(c.Served, c.TTFT), PerToken: nan, TokensPer: nan,
				Cached: nan, Waited: nan, Queued: nan, Uneven: nan, Preempted: -1, Forwarded: -1,
			}})
		}
	}
	return rows
}

// refused is how many requests were refused, for any reason.
func (r *Run) refused() (n int) {
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// perMillion is what a million tokens of answers have cost.
func (r *Run) perMillion() float64 {
	if r.Output == 0 {
		return math.NaN()
	}
	return r.Cost / float64(r.Output) * 1e6
}

// column is a column of the table and of CSV.
type column struct {
	table, csv string // heads
	digits     int    // behind the point in the table
	of         func(*Run) float64
	scale      float64 // of the table: 1000 for ms of what is in seconds
}

var columns = []column{
	{"endpoints", "endpoints", 0, func(r *Run) float64 { return float64(r.Endpoints) }, 1},
	{"served", "served", 0, func(r *Run) float64 { return float64(r.Served) }, 1},
	{"refused", "refused", 0, func(r *Run) float64 { return float64(r.refused()) }, 1},
	{"TTFT ms p50", "ttft_p50_s", 0, func(r *Run) float64 { return r.TTFT.P50 }, 1e3},
	{"p90", "ttft_p90_s", 0, func(r *Run) float64 { return r.TTFT.P90 }, 1e3},
	{"p99", "ttft_p99_s", 0, func(r *Run) float64 { return r.TTFT.P99 }, 1e3},
	{"ms/token", "per_token_s", 1, func(r *Run) float64 { return r.PerToken }, 1e3},
	{"tokens/s", "tokens_per_s", 0, func(r *Run) float64 { return r.TokensPer }, 1},
	{"cached %", "cached_share", 1, func(r *Run) float64 { return r.Cached }, 100},
	{"waited ms", "waited_s", 0, func(r *Run) float64 { return r.Waited }, 1e3},
	{"queued ms", "queued_s", 0, func(r *Run) float64 { return r.Queued }, 1e3},
	{"max/mean", "uneven", 2, func(r *Run) float64 { return r.Uneven }, 1},
	{"preempted", "preempted", 0, func(r *Run) float64 { return known(r.Preempted) }, 1},
}

// known is a number of events, unless it is below 0: then it is not known.
func known(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}

// regional are the columns of runs in regions.
var regional = []column{{"forwarded", "forwarded", 0, func(r *Run) float64 { return known(int64(r.Forwarded)) }, 1}}

// costs are the columns for those who know a price.
var costs = []column{
	{"cost", "cost", 2, func(r *Run) float64 { return r.Cost }, 1},
	{"per 1M tokens", "cost_per_million", 2, (*Run).perMillion, 1},
}

// cell returns what the table has in the column.
func (c *column) cell(r *Run) string {
	v := c.of(r) * c.scale
	if math.IsNaN(v) {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', c.digits, 64)
}

// columnsOf returns those that the runs have.
func columnsOf(runs []Run) []column {
	all := slices.Clone(columns)
	if slices.ContainsFunc(runs, func(r Run) bool { return len(r.Regions) > 0 }) {
		all = append(all, regional...)
	}
	if slices.ContainsFunc(runs, func(r Run) bool { return r.Cost > 0 }) {
		all = append(all, costs...)
	}
	return all
}

// Print prints runs in a format, one a line.
func Print(w io.Writer, format string, runs []Run) error {
	switch format {
	case "table":
		return printTable(w, withParts(runs))
	case "csv":
		return printCSV(w, withParts(runs))
	case "json":
		e := json.NewEncoder(w)
		for i := range runs {
			if err := e.Encode(&runs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("no format %q, want one of %q", format, Formats)
}

func printTable(w io.Writer, runs []Run) error {
	const between = 2 // columns
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, between, ' ', tabwriter.AlignRight)
	all := columnsOf(runs)
	width := len("policy")
	for i := range runs {
		width = max(width, len(runs[i].Policy))
	}
	fmt.Fprintf(t, "%-*s\t", width, "policy")
	for _, c := range all {
		fmt.Fprintf(t, "%s\t", c.table)
	}
	for i := range runs {
		fmt.Fprintf(t, "\n%-*s\t", width, runs[i].Policy)
		for _, c := range all {
			fmt.Fprintf(t, "%s\t", c.cell(&runs[i]))
		}
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, line[between:]); err != nil {
			return err
		}
	}
	return nil
}

func printCSV(w io.Writer, runs []Run) error {
	c, all := csv.NewWriter(w), columnsOf(runs)
	row := []string{"policy"}
	for _, col := range all {
		row = append(row, col.csv)
	}
	rows := [][]string{row}
	for i := range runs {
		row := []string{runs[i].Policy}
		for _, col := range all {
			cell := ""
			if v := col.of(&runs[i]); !math.IsNaN(v) {
				cell = strconv.FormatFloat(v, 'g', 6, 64)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return c.WriteAll(rows)
}
