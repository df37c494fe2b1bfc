package main

import (
	"fmt"
	"io"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// row is one line of the table: a quantity under each policy.
type row struct {
	head string
	cell func(*compare.Result) string
}

var rows = []row{
	{"time to first token  p50", func(r *compare.Result) string { return seconds(r.Summary.TTFT.P50) }},
	{"                     p90", func(r *compare.Result) string { return seconds(r.Summary.TTFT.P90) }},
	{"                     p99", func(r *compare.Result) string { return seconds(r.Summary.TTFT.P99) }},
	{"latency              p50", func(r *compare.Result) string { return seconds(r.Summary.Latency.P50) }},
	{"                     p90", func(r *compare.Result) string { return seconds(r.Summary.Latency.P90) }},
	{"                     p99", func(r *compare.Result) string { return seconds(r.Summary.Latency.P99) }},
	{"waited in servers' queues, all requests together", func(r *compare.Result) string {
		return fmt.Sprintf("%.0f s", r.Queued)
	}},
	{"sent to a queue while another server was idle", func(r *compare.Result) string {
		return share(r.Placement.BesideIdle, r.Placement.Requests)
	}},
	{"fullest server over the average (1 = even)", func(r *compare.Result) string {
		return fmt.Sprintf("%.1f", r.Imbalance)
	}},
	{"failed requests", func(r *compare.Result) string { return fmt.Sprint(r.Summary.Failed()) }},
}

func share(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, of))) }

// report prints the table with the policies side by side, a sentence about it, and the first failure of every kind.
func report(w io.Writer, show *show, results []compare.Result) {
	t := &bench.Table{Head: []string{""}}
	for i := range results {
		t.Head = append(t.Head, results[i].Policy)
	}
	for _, line := range rows {
		cells := []string{line.head}
		for i := range results {
			cells = append(cells, line.cell(&results[i]))
		}
		t.Add(cells...)
	}
	fmt.Fprintf(w, "\nThe same %d requests, %s:\n\n", results[0].Summary.Requests, show.title)
	lab.Check(t.Write(w))
	fmt.Fprintf(w, "\n%s\n%s\n", summary(results), show.lesson)
	for i := range results {
		for _, text := range failures(&results[i]) {
			fmt.Fprintln(w, text)
		}
	}
}

// summary compares the last policy with the others.
func summary(results []compare.Result) string {
	own := &results[len(results)-1]
	text := own.Policy + ": p99 latency"
	for i := range results[:len(results)-1] {
		other := &results[i]
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %.0f %% of %s's",
			100*float64(own.Summary.Latency.P99)/float64(max(1, other.Summary.Latency.P99)), other.Policy)
	}
	return text + "."
}

// failures describes the first failure of every kind.
func failures(r *compare.Result) []string {
	var out []string
	seen := map[string]bool{}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Error != "" && !seen[s.Error] {
			seen[s.Error] = true
			out = append(out, r.Policy+": "+describe(s))
		}
	}
	return out
}

func describe(s *loadgen.Sample) string {
	return fmt.Sprintf("request %d failed: %s: %s", s.ID, s.Error, s.Detail)
}
