package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A board is one dashboard: rows of panels.
type board struct {
	name  string // of its file, and the end of its uid
	title string
	about string
	vars  []string // of cluster, model, policy: those that its queries use
	rows  []row
}

type row struct {
	title  string
	panels []panel
}

// A panel answers one question. All of what is said of it becomes its description.
type panel struct {
	title  string
	ask    string // the question
	normal string // what is seen if all is well
	act    string // what to do if it is not
	page   string // of the documentation, with its anchor: docs/…
	kind   kind
	unit   string // Grafana's name of it
	width  uint32 // of 24; 0: 8
	needs  string // what has to be configured, or to happen, before there is data
	well   string // of a tile: what it says if nothing is wrong

	queries []query
}

// A kind is how a panel is drawn.
type kind int

const (
	lines   kind = iota
	stacked      // only where the sum is the message: what moves at the bottom moves all above it
	number
	tile // red with the names of what is wrong, amber with those of what was, green with a word while nothing is
)

type query struct{ expr, legend string }

// Native balancing chose for these reasons, apart from disabled and shadow, which somebody has configured.
const native = `no_rule|config_invalid|no_cluster.*|no_endpoints|subset|no_healthy_.*|panic.*|no_metrics|store_error`

// Which series a panel shows: those of the chosen cluster, and of the model.
const (
	inCluster = `cluster=~"$cluster"`
	ofModel   = inCluster + `, model=~"$model"`
)

// server is what a server has: a request is counted at one cluster's endpoint.
const server = "cluster, endpoint"

// perSecond is the rate of a counter with these labels, added up by some of its labels.
func perSecond(counter, where, by string) string {
	return sum(by, fmt.Sprintf("rate(%s[$__rate_interval])", selector(counter, where)))
}

// recent is the same over a time that does not depend on what the dashboard shows.
func recent(counter, where, by, over string) string {
	return sum(by, fmt.Sprintf("rate(%s[%s])", selector(counter, where), over))
}

// rises is what was counted in the last two minutes, if anything was.
func rises(counter, where, by string) string { return recent(counter, where, by, "2m") + " > 0" }

// latest is what a gauge was when it was last scraped, in the last two minutes: where a scrape fails, the gauge itself
// is gone until the next one.
func latest(gauge, where string) string {
	return fmt.Sprintf("last_over_time(%s[2m])", selector(gauge, where))
}

// happened is how often a rare event was counted in the last two minutes. A counter that appears with its first event
// has not increased by it: so it counts what was not there before, if its gateway was scraped then.
func happened(counter, where, by string) string {
	s := selector(counter, where)
	return fmt.Sprintf("(%s > 0) or (%s > 0)", sum(by, "increase("+s+"[2m])"), sum(by, latest(s, "")+
		" unless last_over_time("+s+"[2m] offset 2m)"+
		" and on (job, instance) last_over_time(warmgate_config_valid[2m] offset 2m)"))
}

// said is a query whose label has a value in words.
func said(expr, label, value, words string) string {
	return fmt.Sprintf(`label_replace(%s, "%s", "%s", "%s", "%s")`, expr, label, words, label, value)
}

// still is what is so over a longer time, as it takes that to tell it from chance, and in the last two minutes: so it
// is over soon after its cause. Before there is data of that time, nothing is known.
func still(over string, is func(over string) string) string {
	return fmt.Sprintf("(%s) and (%s) and on () group(last_over_time(warmgate_config_valid[2m] offset %s))",
		is(over), is("2m"), over)
}

// quantile is that of a histogram, over all gateways.
func quantile(q, histogram, where, by string) string {
	return fmt.Sprintf("histogram_quantile(%s, %s)", q,
		perSecond(histogram+"_bucket", where, strings.TrimPrefix(by+", le", ", ")))
}

// quantiles are three of a histogram.
func quantiles(histogram, where string) []query {
	return []query{
		{quantile("0.5", histogram, where, ""), "half of them"},
		{quantile("0.9", histogram, where, ""), "90 %"},
		{quantile("0.99", histogram, where, ""), "99 %"},
	}
}

// share is a part of a whole, where there is a whole.
func share(part, whole string) string { return fmt.Sprintf("%s / (%s > 0)", part, whole) }

// shareOrNone is that where the part may have no series yet: then it is 0.
func shareOrNone(part, whole string) string {
	return share(fmt.Sprintf("(%s or 0 * %s)", part, whole), whole)
}

func sum(by, what string) string {
	if by == "" {
		return "sum(" + what + ")"
	}
	return fmt.Sprintf("sum by (%s) (%s)", by, what)
}

func selector(name, where string) string {
	if where == "" {
		return name
	}
	return name + "{" + where + "}"
}

// lastSeen is how many minutes ago what a tile asks for was so: 0 while it is, and nothing once that was longer ago
// than a quarter of an hour. What it asks for goes back two minutes at most, so that it is over as soon after its
// cause. Scrapes are 15 s apart, or more: none is missed.
func (q query) lastSeen() query {
	return query{fmt.Sprintf("(time() - timestamp(%s)) or ceil((time() - max_over_time(timestamp(%s)[15m:15s])) / 60)",
		q.expr, q.expr), q.legend}
}

// healthy is what a tile shows, as -1, while none of its queries finds anything. Without the plugin it shows nothing,
// so that nobody takes that for health.
func (p *panel) healthy() query {
	found := make([]string, len(p.queries))
	for i, q := range p.queries {
		found[i] = " unless on () (" + q.expr + ")"
	}
	return query{"0 * group(" + latest("warmgate_config_valid", "") + ") - 1" + strings.Join(found, ""), p.well}
}

// all are the queries as they are made.
func (p *panel) all() []query {
	if p.kind != tile {
		return p.queries
	}
	made := []query{}
	for _, q := range p.queries {
		made = append(made, q.lastSeen())
	}
	return append(made, p.healthy())
}

var inLegend = regexp.MustCompile(`{{(\w+)}}`)

// labels are those that the query's legend shows.
func (q query) labels() []string {
	labels := []string{}
	for _, m := range inLegend.FindAllStringSubmatch(q.legend, -1) {
		labels = append(labels, m[1])
	}
	return labels
}
