package higresshost

import (
	"fmt"
	"strings"
	"time"
)

// LogLevel is a level of proxy_log.
type LogLevel uint32

// The levels of guests, and two more: for what a VM prints and for messages of the host.
const (
	LogTrace LogLevel = iota
	LogDebug
	LogInfo
	LogWarn
	LogError
	LogCritical
	// LogStderr is what the guest wrote to its standard output or error, such as the stack of a panic.
	LogStderr
	// LogHost is a message of the host: a trap, a recovery, a refused configuration.
	LogHost
)

// String returns the lower-case name.
func (l LogLevel) String() string {
	names := [...]string{"trace", "debug", "info", "warn", "error", "critical", "stderr", "host"}
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("level %d", uint32(l))
}

// LogEntry is one line of the gateway's log.
type LogEntry struct {
	At     time.Time
	Thread string // "main", "worker 0", … or "canary"
	Level  LogLevel
	Text   string
}

// String formats the entry as one line.
func (e LogEntry) String() string {
	return fmt.Sprintf("%s [%s] %s: %s", e.At.Format("15:04:05.000"), e.Level, e.Thread, e.Text)
}

func (g *Gateway) log(thread string, level LogLevel, text string) {
	g.logs = append(g.logs, LogEntry{g.clock.now, thread, level, text})
}

// Logs returns all log entries of a level or higher, oldest first.
func (g *Gateway) Logs(least LogLevel) []LogEntry {
	var out []LogEntry
	for _, e := range g.logs {
		if e.Level >= least {
			out = append(out, e)
		}
	}
	return out
}

// LogContains reports whether some log line of any level contains text.
func (g *Gateway) LogContains(text string) bool {
	for _, e := range g.logs {
		if strings.Contains(e.Text, text) {
			return true
		}
	}
	return false
}

// CallStat counts one host call.
type CallStat struct {
	Calls int
	Bytes int // copied between host and guest, both ways
}

// Call is a host call in a callback of the guest, both without "proxy_"; a callback itself where Name is "".
type Call struct{ Callback, Name string }

// count counts a call, and returns its statistic.
func (g *Gateway) count(c Call) *CallStat {
	stat := g.calls[c]
	if stat == nil {
		stat = &CallStat{}
		g.calls[c] = stat
	}
	stat.Calls++
	return stat
}

// Calls returns the callbacks of the guests, and what they called, since the start or the last ResetCalls.
func (g *Gateway) Calls() map[Call]CallStat {
	out := make(map[Call]CallStat, len(g.calls))
	for c, st := range g.calls {
		out[c] = *st
	}
	return out
}

// HostCalls returns what the guests called in that time, by name without "proxy_".
func (g *Gateway) HostCalls() map[string]CallStat {
	out := make(map[string]CallStat, len(g.calls))
	for c, st := range g.calls {
		if c.Name != "" {
			sum := out[c.Name]
			out[c.Name] = CallStat{sum.Calls + st.Calls, sum.Bytes + st.Bytes}
		}
	}
	return out
}

// ResetCalls forgets the counts of Calls and HostCalls.
func (g *Gateway) ResetCalls() { g.calls = map[Call]*CallStat{} }

// stderr turns what a guest prints into log entries, line by line.
type stderr struct {
	gw     *Gateway
	thread string
	rest   string
}

func (w *stderr) Write(b []byte) (int, error) {
	w.rest += string(b)
	for {
		line, rest, ok := strings.Cut(w.rest, "\n")
		if !ok {
			return len(b), nil
		}
		w.rest = rest
		w.gw.log(w.thread, LogStderr, line)
	}
}
