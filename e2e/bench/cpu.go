package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
)

// CPU is a reading of the CPU time that this machine's cores have spent since it started.
type CPU struct{ busy, all float64 }

// ReadCPU takes a reading.
func ReadCPU() (CPU, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPU{}, err
	}
	return parseCPU(string(text))
}

// parseCPU reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal time of all
// cores together. What a guest used is in user time as well.
func parseCPU(text string) (CPU, error) {
	const idle, iowait, counted = 3, 4, 8
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) <= counted || fields[0] != "cpu" {
		return CPU{}, fmt.Errorf("bench: /proc/stat begins with %q", line)
	}
	var c CPU
	for i, field := range fields[1 : counted+1] {
		t, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return CPU{}, fmt.Errorf("bench: /proc/stat: %w", err)
		}
		c.all += t
		if i != idle && i != iowait {
			c.busy += t
		}
	}
	return c, nil
}

// Since returns the share of the machine's CPU time, 0 to 1, that was used between an earlier reading and this one, by
// whatever process.
func (c CPU) Since(before CPU) float64 {
	if c.all <= before.all {
		return 0
	}
	return (c.busy - before.busy) / (c.all - before.all)
}

// Used is CPU time that was used while something was done.
type Used struct {
	Gateways float64 // cores: of all Envoys together
	Own      float64 // cores: of this process, which has the clients and the servers
	Machine  float64 // the share of the machine's, 0 to 1, by everything
}

// Use measures what CPU time is used while something is done.
func Use(gateways []*harness.Gateway, do func()) (used Used, err error) {
	before, err := ReadCPU()
	if err != nil {
		return used, err
	}
	begin, err := sumCPU(gateways)
	if err != nil {
		return used, err
	}
	start, own := time.Now(), OwnCPU()
	do()
	seconds := time.Since(start).Seconds()
	used.Own = (OwnCPU() - own).Seconds() / seconds
	end, err := sumCPU(gateways)
	if err != nil {
		return used, err
	}
	used.Gateways = (end - begin).Seconds() / seconds
	after, err := ReadCPU()
	used.Machine = after.Since(before)
	return used, err
}

// sumCPU returns the CPU time that the gateways have used so far.
func sumCPU(gateways []*harness.Gateway) (sum time.Duration, err error) {
	for _, g := range gateways {
		used, err := g.CPU()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// OwnCPU returns the CPU time that this process has used so far, in user and kernel mode.
func OwnCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it fails for no process that calls it so
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
