package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/child"
)

// process is an Envoy, as the kernel sees it.
type process struct{ *child.Process }

// stop ends the process with SIGTERM, and kills it when it still runs after the grace period.
func (p process) stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(grace):
		return p.Kill()
	}
}

// cpu returns the CPU time the process has used in user and kernel mode, in steps of 10 ms.
func (p process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0, err
	}
	// The command name may contain blanks; the fields after it do not. utime and stime are fields 14 and 15 of the
	// line.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("harness: /proc stat line is too short: %q", text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux architecture that Envoy is built for
	return time.Duration(ticks) * tick, nil
}

// rss returns the process's resident memory in bytes.
func (p process) rss() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("harness: /proc status has no VmRSS")
}
