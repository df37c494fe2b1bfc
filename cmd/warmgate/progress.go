package main

import (
	"fmt"
	"io"
	"strings"
)

// progress is a bar on a terminal; elsewhere it shows nothing.
type progress struct {
	out    io.Writer
	what   string
	before int // that were done in earlier runs
	all    int
	shown  int // percent, 1 more than there are
	drawn  bool
}

// begin names what is done next.
func (p *progress) begin(what string) { p.what, p.shown = what, 0 }

// at shows how many of the run are done. It has the run go on.
func (p *progress) at(done int) bool {
	percent := min(100, 100*(p.before+done)/max(1, p.all))
	if percent+1 != p.shown && isTerminal(p.out) {
		p.shown, p.drawn = percent+1, true
		const width = 30
		full := width * percent / 100
		bar := strings.Repeat("#", full) + strings.Repeat(".", width-full)
		fmt.Fprintf(p.out, "\r%s %3d %% %s\x1b[K", bar, percent, p.what)
	}
	return true
}

// clear removes the bar.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
