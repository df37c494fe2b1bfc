package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Quiet takes out of the shipped layout what would disturb a measurement of Envoy's CPU time, as harness.Options.Edit:
// the health checks of hundreds of endpoints by several gateways, and the access log. Both cost the same with and
// without a plugin.
func Quiet(file string, doc *yaml.Node) error {
	switch file {
	case "clusters.yaml":
		return harness.Remove(doc, "resources[name=llm].health_checks")
	case "envoy.yaml":
		return harness.Remove(doc, harness.ManagerPath+".access_log")
	}
	return nil
}

// TargetHeader names the cluster that a request is for, where a route of [Clusters] leads to several.
const TargetHeader = "x-higress-target-cluster"

// Clusters adds clusters to the shipped layout, by their names, each with the one server at ip:port, and in front of
// its routes one that takes the cluster from [TargetHeader], and further ones, YAML.
func Clusters(names, addrs []string, routes string) func(doc *yaml.Node) error {
	return func(doc *yaml.Node) error {
		clusters := ""
		for i, name := range names {
			host, port, err := net.SplitHostPort(addrs[i])
			if err != nil {
				return err
			}
			clusters += fmt.Sprintf(`
- name: %[1]s
  type: STATIC
  connect_timeout: 1s
  circuit_breakers: {thresholds: [{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}]}
  load_assignment:
    cluster_name: %[1]s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[2]s, port_value: %[3]s}}}}]}]
`, name, host, port)
		}
		return errors.Join(harness.Insert(doc, harness.RoutesPath, "", 0, `
- match: {prefix: /, headers: [{name: `+TargetHeader+`, present_match: true}]}
  name: llm
  route: {cluster_header: `+TargetHeader+`, timeout: 120s}
`+routes), harness.Insert(doc, "static_resources.clusters", "", 0, clusters))
	}
}

// Probe builds the plugin that does parts of Warmgate's work, and returns its path: see e2e/bench/probe.
func Probe(ctx context.Context) (string, error) { return harness.BuildWasm(ctx, "./e2e/bench/probe") }

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
