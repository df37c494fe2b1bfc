package outcome

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// line is one line of a plot.
type line struct {
	Name string
	X, Y []float64
}

// plot is lines over one axis.
type plot struct {
	Title, X, Y string // units of the axes
	Log         bool   // the axis x is logarithmic
	Lines       []line
}

// Sizes of a plot, in pixels.
const (
	width, height = 720, 300
	left, right   = 60, 200 // of the axes: right has the names of the lines
	top, bottom   = 30, 40
)

// colors tell lines apart, also for those who see few colors (Okabe and Ito, 2008).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}

// svg draws the plot.
func (p *plot) svg() template.HTML {
	x, y := p.axes()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><text x="%d" y="18" class="title">%s</text>`,
		width, height, html.EscapeString(p.Title), left, html.EscapeString(p.Title))
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" class="grid"/><text x="%d" y="%.1f" class="y">%s</text>`,
			left, at, width-right, left-6, at+4, number(v))
	}
	for _, v := range x.ticks() {
		at := x.at(v)
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" class="grid"/><text x="%.1f" y="%d" class="x">%s</text>`,
			at, top, height-bottom, at, height-bottom+16, number(v))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" class="x">%s</text><text x="%d" y="%d" class="y">%s</text>`,
		(left+width-right)/2, height-6, html.EscapeString(p.X), left-6, top-8, html.EscapeString(p.Y))
	for i, l := range p.Lines {
		color := colors[i%len(colors)]
		fmt.Fprintf(&b, `<path fill="none" stroke-width="1.5" stroke="%s" d="`, color)
		for k := range l.X {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(k, 1)], x.at(l.X[k]), y.at(l.Y[k]))
		}
		fmt.Fprintf(&b, `"/><text x="%d" y="%d" fill="%s">%s</text>`, width-right+8, top+10+16*i, color,
			html.EscapeString(l.Name))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// axis maps values to pixels.
type axis struct {
	least, most float64
	from, to    float64
	log         bool
}

// axes returns those that all lines fit between.
func (p *plot) axes() (x, y axis) {
	x = axis{least: math.Inf(1), most: math.Inf(-1), from: left, to: width - right, log: p.Log}
	y = axis{most: math.Inf(-1), from: height - bottom, to: top}
	for _, l := range p.Lines {
		for k := range l.X {
			x.least, x.most, y.most = min(x.least, l.X[k]), max(x.most, l.X[k]), max(y.most, l.Y[k])
		}
	}
	if x.least > x.most { // there is nothing
		x.least, x.most = 1, 10
	}
	if x.log {
		x.least = max(x.least, x.most/1e6, 1e-3)
	}
	if !(x.most > x.least) {
		x.most = x.least + 1
	}
	if !(y.most > 0) {
		y.most = 1
	}
	return x, y
}

// at returns the pixel of a value.
func (a *axis) at(v float64) float64 {
	share := (v - a.least) / (a.most - a.least)
	if a.log {
		share = math.Log(max(v, a.least)/a.least) / math.Log(a.most/a.least)
	}
	return a.from + share*(a.to-a.from)
}

// ticks returns round values on the axis.
func (a *axis) ticks() (all []float64) {
	if a.log {
		for decade := math.Pow(10, math.Floor(math.Log10(a.least))); decade <= a.most; decade *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v := m * decade; v >= a.least && v <= a.most {
					all = append(all, v)
				}
			}
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.most-a.least)))
	for (a.most-a.least)/step < 4 {
		step /= 2
	}
	for v := math.Ceil(a.least/step) * step; v <= a.most+step/1e6; v += step {
		all = append(all, v)
	}
	return all
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
