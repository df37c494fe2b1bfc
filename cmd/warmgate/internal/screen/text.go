// Package screen shows frames of gateways in a terminal.
package screen

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Style is what a terminal can show.
type Style struct {
	Unicode bool // its locale has more than ASCII
	Color   bool
}

// StyleOf returns what a terminal can show, by the variables of its environment. See https://no-color.org.
func StyleOf(getenv func(string) string) Style {
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // the first one that is set counts
		if locale = getenv(name); locale != "" {
			break
		}
	}
	locale = strings.ToLower(locale)
	return Style{
		Unicode: strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8"),
		Color:   getenv("NO_COLOR") == "",
	}
}

// clean returns a text of a gateway without what a terminal might obey: control characters, and those that change the
// direction of writing or are not seen.
func (s Style) clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar || !unicode.IsPrint(r) || !s.Unicode && r > unicode.MaxASCII:
			return '?'
		}
		return r
	}, text)
}

// fit returns a text in exactly so many columns. What is too long loses its middle: ends of names tell them apart.
func (s Style) fit(text string, width int) string {
	text = s.clean(text)
	if w := ansi.StringWidth(text); w <= width {
		return text + strings.Repeat(" ", width-w)
	}
	dots := "…"
	if !s.Unicode {
		dots = ".."
	}
	room := width - ansi.StringWidth(dots)
	if room < 2 {
		text = ansi.Truncate(text, width, "")
	} else {
		tail := room * 2 / 3
		text = ansi.Truncate(text, room-tail, "") + dots + ansi.TruncateLeft(text, ansi.StringWidth(text)-tail, "")
	}
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

// right is fit, on the right side.
func (s Style) right(text string, width int) string {
	text = strings.TrimRight(s.fit(text, width), " ")
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}

// Colors of a terminal, as parameters of SGR.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint colors a text that has been cleaned.
func (s Style) paint(text, color string) string {
	if !s.Color || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// bar draws a share of so many columns.
func (s Style) bar(share float64, width int) string {
	share = min(max(share, 0), 1)
	if !s.Unicode {
		full := int(math.Round(share * float64(width)))
		return strings.Repeat("#", full) + strings.Repeat("-", width-full)
	}
	const eighths = " ▏▎▍▌▋▊▉"
	parts := int(math.Round(share * float64(8*width)))
	full, rest := parts/8, ""
	if parts%8 > 0 {
		rest = string([]rune(eighths)[parts%8])
	}
	return strings.Repeat("█", full) + rest + strings.Repeat("░", width-full-len([]rune(rest)))
}

// number writes a number in about three digits.
func number(v float64) string {
	switch {
	case v >= 999.5e6: // which three digits write as 1000 million
		return fmt.Sprintf("%.3gG", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// percent writes a share, "-" if it is not known.
func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

// known writes a number that may not be known.
func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}
