package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/warmgate/warmgate/internal/live"
)

// Table returns a frame as lines of text, one gateway after the other, of at most so many columns.
func Table(f *live.Frame, s Style, width int) string {
	var b strings.Builder
	for i := range f.Gateways {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range s.gateway(&f.Gateways[i], orders[0], width) {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// gateway returns the lines of a gateway.
func (s Style) gateway(g *live.Gateway, sorted order, width int) []string {
	lines := []string{s.title(g, width)}
	add := func(label, text, color string) {
		for _, line := range wrapped(s.clean(text), width-11) {
			lines = append(lines, s.paint(s.fit(label, 9)+"  "+line, color))
			label = ""
		}
	}
	for _, p := range g.Problems {
		add("problem", p, red)
	}
	for i := range g.Clusters {
		c := &g.Clusters[i]
		lines = append(lines, "")
		lines = append(lines, s.cluster(c, width)...)
		if len(c.Classes) > 0 {
			add("queue", classes(c.Classes), "")
		}
		lines = append(lines, s.table(c.Endpoints, sorted, width)...)
	}
	if len(g.Reasons) > 0 || len(g.Regions) > 0 {
		lines = append(lines, "")
	}
	if len(g.Reasons) > 0 {
		add("decisions", reasons(g.Reasons), "")
	}
	for _, r := range g.Regions {
		add("region", region(&r), "")
	}
	return lines
}

// title names a gateway.
func (s Style) title(g *live.Gateway, width int) string {
	text := g.Name
	if g.Region != "" {
		text += " (" + g.Region + ")"
	}
	switch {
	case !g.Up:
		return s.paint(s.cut(text+": cannot be read", width), red)
	case g.Version != "":
		text += "  Warmgate " + g.Version
	}
	return s.paint(s.cut(text, width), bold)
}

// cluster returns the lines above a cluster's endpoints.
func (s Style) cluster(c *live.Cluster, width int) []string {
	first := c.Name
	for _, part := range []string{c.Policy, c.Unit, c.Store} {
		if part != "" {
			first += "  " + part
		}
	}
	second := fmt.Sprintf("%s/s  refused %s/s", number(c.PerS), number(c.RefusedS))
	if q := c.TTFT; q != nil {
		second += fmt.Sprintf("  TTFT p50 %s ms, p90 %s ms", number(q.P50), number(q.P90))
	}
	if c.Expected != nil || c.Reported != nil {
		second += fmt.Sprintf("  cached %s expected, %s reported", percent(c.Expected), percent(c.Reported))
	}
	if len(first)+2+len(second) <= width {
		return []string{s.paint(s.clean(first), cyan) + "  " + second}
	}
	lines := []string{s.paint(s.cut(first, width), cyan)}
	return append(lines, wrapped(second, width)...)
}

// cut returns a text in at most so many columns.
func (s Style) cut(text string, width int) string { return strings.TrimRight(s.fit(text, width), " ") }

// wrapped divides a text between words that stand two blanks apart.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Split(text, "  ") {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+2+ansi.StringWidth(word) <= width:
			line += "  " + word
		default:
			lines, line = append(lines, ansi.Truncate(line, width, "")), word
		}
	}
	return append(lines, ansi.Truncate(line, width, ""))
}

// classes shows who waits.
func classes(list []live.Class) string {
	var parts []string
	for _, c := range list {
		part := fmt.Sprintf("%s %s waiting", cmp.Or(c.Name, "all"), number(float64(c.Waiting)))
		if c.RefusedS > 0 {
			part += fmt.Sprintf(", %s/s refused", number(c.RefusedS))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "  ")
}

// reasons shows how requests are decided, the most frequent reason first.
func reasons(list []live.Reason) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b live.Reason) int {
		return cmp.Or(cmp.Compare(b.PerS, a.PerS), cmp.Compare(b.Total, a.Total))
	})
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf("%s %s/s, %s in all", r.Reason, number(r.PerS), number(float64(r.Total))))
	}
	return strings.Join(parts, "  ")
}

// region shows another region.
func region(r *live.Region) string {
	state := "away"
	switch {
	case r.Adopted:
		state = "adopted"
	case r.Available:
		state = "available"
	}
	return fmt.Sprintf("%s %s, %d ms  %s/s forwarded  %s/s served for it", r.Name, state, r.RTTMS, number(r.ForwardedS),
		number(r.ServedS))
}

// clock shows when a frame was made, in the time of the reader.
func clock(f *live.Frame) string { return time.UnixMilli(f.AtMS).Format("15:04:05") }
