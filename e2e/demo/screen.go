package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// screen prints progress: in a terminal it redraws a bar in place, elsewhere it prints plain lines now and then.
type screen struct {
	out      io.Writer
	terminal bool
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{out: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"}
}

// line prints a line. Progress is a courtesy: a failing terminal does not stop the demo.
func (s *screen) line(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// bar is the progress of one phase.
type bar struct {
	*screen
	name  string
	total int

	mu       sync.Mutex
	latency  []time.Duration
	failed   int
	finished int
	shown    time.Time
	every    time.Duration
}

func (s *screen) bar(name string, total int) *bar {
	every := 5 * time.Second
	if s.terminal {
		every = 100 * time.Millisecond
	}
	return &bar{screen: s, name: name, total: total, every: every, shown: time.Now()}
}

// add counts a finished request and shows the progress if it is time to.
func (b *bar) add(x *loadgen.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished++
	if x.OK() {
		b.latency = append(b.latency, x.Total)
	} else {
		b.failed++
	}
	if time.Since(b.shown) >= b.every {
		b.show()
	}
}

// done shows the final state and leaves it on the screen.
func (b *bar) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show()
	if b.terminal {
		b.line("")
	}
}

func (b *bar) show() {
	b.shown = time.Now()
	if b.terminal {
		_, _ = fmt.Fprint(b.out, "\r\x1b[K"+b.text())
		return
	}
	b.line("%s", b.text())
}

func (b *bar) text() string {
	const width = 24
	full := width * b.finished / max(1, b.total)
	q := loadgen.QuantilesOf(b.latency)
	return fmt.Sprintf("%-13s [%s%s] %4d/%d  latency p50 %s  p99 %s  failed %d", b.name,
		strings.Repeat("=", full), strings.Repeat(" ", width-full), b.finished, b.total, seconds(q.P50),
		seconds(q.P99), b.failed)
}

// seconds renders a duration with a resolution fit for people.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
