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

// record is what a test reads of a gateway's run: the log, the calls, and what no plugin should do.
type record struct {
	now        func() time.Time
	logs       []LogEntry
	calls      map[Call]*CallStat
	violations []string
}

func (r *record) log(thread string, level LogLevel, text string) {
	r.logs = append(r.logs, LogEntry{r.now(), thread, level, text})
}

// Logs returns all log entries of a level or higher, oldest first.
func (r *record) Logs(least LogLevel) []LogEntry {
	var out []LogEntry
	for _, e := range r.logs {
		if e.Level >= least {
			out = append(out, e)
		}
	}
	return out
}

// LogContains reports whether some log line of any level contains text.
func (r *record) LogContains(text string) bool {
	for _, e := range r.logs {
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
func (r *record) count(c Call) *CallStat {
	stat := r.calls[c]
	if stat == nil {
		stat = &CallStat{}
		r.calls[c] = stat
	}
	stat.Calls++
	return stat
}

// Calls returns the callbacks of the guests, and what they called, since the start or the last ResetCalls.
func (r *record) Calls() map[Call]CallStat {
	out := make(map[Call]CallStat, len(r.calls))
	for c, st := range r.calls {
		out[c] = *st
	}
	return out
}

// HostCalls returns what the guests called in that time, by name without "proxy_".
func (r *record) HostCalls() map[string]CallStat {
	out := make(map[string]CallStat, len(r.calls))
	for c, st := range r.calls {
		if c.Name != "" {
			sum := out[c.Name]
			out[c.Name] = CallStat{sum.Calls + st.Calls, sum.Bytes + st.Bytes}
		}
	}
	return out
}

// ResetCalls forgets the counts of Calls and HostCalls.
func (r *record) ResetCalls() { r.calls = map[Call]*CallStat{} }

// Violations returns what guests did that a real host swallows but no plugin should do, such as resuming a stream that
// was not paused, choosing a host after the router has, or pushing a gauge below zero.
func (r *record) Violations() []string { return r.violations }

// TakeViolations returns the violations and forgets them, for a test that provokes them.
func (r *record) TakeViolations() []string {
	v := r.violations
	r.violations = nil
	return v
}

// violate records what a real host ignores but no plugin should do.
func (r *record) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// stderr turns what a guest prints into log entries, line by line.
type stderr struct {
	record *record
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
		w.record.log(w.thread, LogStderr, line)
	}
}
