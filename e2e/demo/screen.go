package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/internal/live"
)

// screen prints what happens: in a terminal it redraws the lanes of all servers in place, elsewhere it prints a line
// every few seconds.
type screen struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	drawn int // lines that are redrawn next
	shown time.Time
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{out: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"}
}

// line prints a line. Progress is a courtesy: a failing terminal does not stop the demo.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = 0
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// pause is the time between two lines where nothing can be redrawn.
const pause = 5 * time.Second

// draw shows a frame of the time since an act began.
func (s *screen) draw(f *live.Frame, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.terminal {
		if time.Since(s.shown) >= pause {
			s.shown = time.Now()
			_, _ = fmt.Fprintln(s.out, sentence(f, since))
		}
		return
	}
	lines := lanes(f, since)
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K" + l + "\n")
	}
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String())
}

// sentence is a frame in a line.
func sentence(f *live.Frame, since time.Duration) string {
	text := fmt.Sprintf("%4.0f s  first token, p90:", since.Seconds())
	for i := range f.Gateways {
		g := &f.Gateways[i]
		waiting := 0.
		for _, e := range g.Clusters[0].Endpoints {
			waiting += *e.Waiting
		}
		text += fmt.Sprintf("  %s %s, %.0f wait", g.Clusters[0].Policy, p90(&g.Clusters[0]), waiting)
	}
	return text
}

// p90 is the time to first token.
func p90(c *live.Cluster) string {
	if c.TTFT == nil {
		return "-"
	}
	return seconds(time.Duration(c.TTFT.P90 * float64(time.Millisecond)))
}

// wide is the width of a gateway's lanes.
const wide = 22

// lanes are the gateways side by side: of each server what runs there as #, and what waits as a dot.
func lanes(f *live.Frame, since time.Duration) []string {
	lines := []string{fmt.Sprintf("%4.0f s", since.Seconds())}
	for i := range f.Gateways[0].Clusters[0].Endpoints {
		lines = append(lines, fmt.Sprintf("server %d", i))
	}
	lines = append(lines, "queue", "TTFT p90")
	for i := range lines {
		lines[i] = fmt.Sprintf("%-10s", lines[i])
	}
	queue, ttft := &lines[len(lines)-2], &lines[len(lines)-1]
	for i := range f.Gateways {
		c := &f.Gateways[i].Clusters[0]
		lines[0] += cell(c.Policy)
		for k, e := range c.Endpoints {
			lines[1+k] += cell(strings.Repeat("#", int(*e.Running)) + strings.Repeat(".", int(*e.Waiting)))
		}
		queued := 0
		for _, class := range c.Classes {
			queued += int(class.Waiting)
		}
		*queue += cell(strings.Repeat(".", queued))
		*ttft += cell(p90(c))
	}
	return lines
}

// cell is a text as wide as a gateway's lanes.
func cell(text string) string {
	if len(text) > wide {
		text = text[:wide-1] + "+"
	}
	return fmt.Sprintf("%-*s ", wide, text)
}

// seconds renders a duration with a resolution fit for people.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
