package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/warmgate/warmgate/internal/live"
)

// column is one of the table of endpoints.
type column struct {
	head  string
	width int
	left  bool // text stands on the left
	// keep is how far the terminal may narrow until the column is left out: the smaller, the longer it stays.
	keep int
	text func(s Style, e *live.Endpoint) string
	// color returns the color of the text; nil: none.
	color func(e *live.Endpoint) string
}

const barWidth = 10

// columns are those behind the endpoint's address.
var columns = []column{
	{head: "zone", width: 10, left: true, keep: 8, text: func(_ Style, e *live.Endpoint) string { return e.Zone }},
	{
		head: "health", width: 9, left: true, keep: 2,
		text: func(_ Style, e *live.Endpoint) string { return e.Health }, color: healthColor,
	},
	{head: "in flight", width: 11, keep: 1, text: inFlight, color: func(e *live.Endpoint) string {
		if e.Cap > 0 && e.Requests >= e.Cap {
			return yellow
		}
		return ""
	}},
	{head: "tokens", width: 8, keep: 6, text: func(_ Style, e *live.Endpoint) string {
		return number(float64(e.Tokens))
	}},
	{head: "push limit", width: 10, keep: 7, text: func(_ Style, e *live.Endpoint) string {
		if e.PushLimit == 0 {
			return "-"
		}
		return number(float64(e.PushLimit))
	}},
	{head: "running", width: 7, keep: 3, text: func(_ Style, e *live.Endpoint) string { return known(e.Running) }},
	{head: "waiting", width: 7, keep: 4, text: func(_ Style, e *live.Endpoint) string { return known(e.Waiting) }},
	{head: "KV cache", width: barWidth + 6, left: true, keep: 5, text: kvCache},
}

func healthColor(e *live.Endpoint) string {
	switch e.Health {
	case "healthy":
		return green
	case "degraded", "draining":
		return yellow
	}
	return red
}

// inFlight shows the requests of an endpoint, and its cap.
func inFlight(_ Style, e *live.Endpoint) string {
	if e.Cap == 0 {
		return number(float64(e.Requests))
	}
	return fmt.Sprintf("%s/%s", number(float64(e.Requests)), number(float64(e.Cap)))
}

func kvCache(s Style, e *live.Endpoint) string {
	if e.KVCache == nil {
		return "-"
	}
	return fmt.Sprintf("%s %4s", s.bar(*e.KVCache, barWidth), fmt.Sprintf("%.0f%%", 100*min(*e.KVCache, 9.99)))
}

// minName is the least width of an endpoint's address.
const minName = 12

// shown returns the columns that fit, and the width of addresses in front of them.
func shown(endpoints []live.Endpoint, width int) ([]column, int) {
	name := minName
	for i := range endpoints {
		name = max(name, min(ansi.StringWidth(endpoints[i].Addr), 40))
	}
	fit := slices.Clone(columns)
	for {
		need := minName
		for _, c := range fit {
			need += 2 + c.width
		}
		if need <= width || len(fit) == 1 {
			return fit, min(name, max(minName, width-need+minName))
		}
		least := slices.MaxFunc(fit, func(a, b column) int { return cmp.Compare(a.keep, b.keep) })
		fit = slices.DeleteFunc(fit, func(c column) bool { return c.head == least.head })
	}
}

// table returns the lines of a cluster's endpoints.
func (s Style) table(endpoints []live.Endpoint, sorted order, width int) []string {
	if len(endpoints) == 0 {
		return []string{s.paint("  no endpoints", dim)}
	}
	fit, name := shown(endpoints, width)
	head := s.fit("endpoint", name)
	for _, c := range fit {
		head += "  " + s.cell(c, c.head)
	}
	lines := []string{s.paint(strings.TrimRight(head, " "), dim)}
	endpoints = slices.Clone(endpoints)
	slices.SortStableFunc(endpoints, sorted.compare)
	for i := range endpoints {
		e := &endpoints[i]
		line := s.fit(e.Addr, name)
		for _, c := range fit {
			text := s.cell(c, c.text(s, e))
			if c.color != nil {
				text = s.paint(text, c.color(e))
			}
			line += "  " + text
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (s Style) cell(c column, text string) string {
	if c.left {
		return s.fit(text, c.width)
	}
	return s.right(text, c.width)
}

// order is by what endpoints are sorted.
type order struct {
	key, name string
	compare   func(a, b live.Endpoint) int
}

// orders are what endpoints can be sorted by, the largest first. The first one is the default.
var orders = []order{
	{"a", "address", func(a, b live.Endpoint) int { return strings.Compare(a.Addr, b.Addr) }},
	{"f", "in flight", func(a, b live.Endpoint) int { return cmp.Compare(b.Requests, a.Requests) }},
	{"r", "running", func(a, b live.Endpoint) int { return cmp.Compare(value(b.Running), value(a.Running)) }},
	{"w", "waiting", func(a, b live.Endpoint) int { return cmp.Compare(value(b.Waiting), value(a.Waiting)) }},
	{"k", "KV cache", func(a, b live.Endpoint) int { return cmp.Compare(value(b.KVCache), value(a.KVCache)) }},
	{"h", "health", func(a, b live.Endpoint) int { return strings.Compare(sick(b.Health), sick(a.Health)) }},
}

// value returns a number, below all others if it is not known.
func value(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

// sick orders health: what is healthy comes last.
func sick(health string) string {
	if health == "healthy" {
		return ""
	}
	return health
}
