package compose

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/e2e/wait"
)

// began starts a process that ends with the test.
func began(t *testing.T, cmd *exec.Cmd) *child.Process {
	t.Helper()
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// swap changes the one place in a file where a text is.
func swap(t *testing.T, file, old, text string) {
	t.Helper()
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(have), old); n != 1 {
		t.Fatalf("%s: %q is there %d times", filepath.Base(file), old, n)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(have), old, text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// engines runs the service of model servers, and returns the ports of its replicas.
func engines(t *testing.T, s types.ServiceConfig) (ports []string) {
	t.Helper()
	program := harness.ProgramT(t, t.TempDir())
	for range *s.Deploy.Replicas {
		port := harness.FreePortT(t)
		// The later of two flags counts.
		began(t, exec.Command(program, append(slices.Clone(s.Command), "--listen", "127.0.0.1", "--port", port)...))
		ports = append(ports, port)
	}
	return ports
}

// redis runs the service of the same name, and returns its port.
func redis(t *testing.T, s types.ServiceConfig) string {
	t.Helper()
	var lines []string
	for i := 1; i < len(s.Command); i += 2 {
		lines = append(lines, fmt.Sprintf("%s %q", strings.TrimPrefix(s.Command[i], "--"), s.Command[i+1]))
	}
	return fmt.Sprint(redisserver.StartT(t, redisserver.Options{Config: lines}).Port())
}

// gateway runs the service of the same name with other ports and addresses, and returns where it listens and has its
// statistics.
func gateway(t *testing.T, s types.ServiceConfig, statistics, redis string, engines []string) (url, page string) {
	t.Helper()
	dir, own := t.TempDir(), filepath.Join(t.TempDir(), "gateway")
	if err := os.CopyFS(own, os.DirFS(harness.PathT(t, example+"/gateway"))); err != nil {
		t.Fatal(err)
	}
	var servers []string
	for _, port := range engines {
		const server = "- {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}"
		servers = append(servers, fmt.Sprintf(server, port))
	}
	const named = "- {endpoint: {address: {socket_address: {address: engine, port_value: 8000}}}}"
	swap(t, filepath.Join(own, "clusters.yaml"), named, strings.Join(servers, "\n      "))
	_, port, err := net.SplitHostPort(statistics)
	if err != nil {
		t.Fatal(err)
	}
	listens, shows := harness.FreePortT(t), harness.FreePortT(t)
	const anywhere, here = "address: 0.0.0.0, port_value: %v", "address: 127.0.0.1, port_value: %s"
	swap(t, filepath.Join(own, "listeners.yaml"), fmt.Sprintf(anywhere, port), fmt.Sprintf(here, shows))
	start := filepath.Join(own, "start.sh")
	swap(t, start, fmt.Sprintf(anywhere, s.Ports[0].Target), fmt.Sprintf(here, listens))
	swap(t, start, "address: redis, port_value: 6379", fmt.Sprintf(here, redis))

	var paths []string // of the container, each followed by that on this machine
	for _, v := range s.Volumes {
		if v.Target == "/gateway" {
			v.Source = own
		}
		paths = append(paths, v.Target, v.Source)
	}
	toHere := strings.NewReplacer(paths...)
	for _, file := range []string{start, filepath.Join(own, "warmgate.yaml")} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(toHere.Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := harness.Envoy(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	// Two Envoys of one machine must not share what they need to be restarted.
	const wrapper = "#!/bin/sh\nexec %q \"$@\" --use-dynamic-base-id --log-level warning >envoy.log 2>&1\n"
	if err := os.WriteFile(filepath.Join(dir, "envoy"), []byte(fmt.Sprintf(wrapper, binary)), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.Command[0], toHere.Replace(s.Command[1]))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	began(t, cmd)
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(dir, "envoy.log")); t.Failed() {
			t.Logf("%s%v", log, err)
		}
	})
	return "http://127.0.0.1:" + listens, "http://127.0.0.1:" + shows
}

// TestRun runs the model servers, Redis and the gateway of the example by their commands and files, with other
// addresses alone, until requests are answered by all servers, queued in the gateway and counted in Redis.
func TestRun(t *testing.T) {
	p, targets := project(t), scraped(t)
	name, _, _ := net.SplitHostPort(targets["gateway"])
	s := p.Services
	port := "8000" // as clusters.yaml has it
	if name != "gateway" || targets["engine"] != "engine:"+port || !slices.Contains(s["engine"].Command, port) {
		t.Fatalf("Prometheus asks %v, the model servers are started by %v", targets, s["engine"].Command)
	}
	servers := engines(t, s["engine"])
	url, page := gateway(t, s["gateway"], targets["gateway"], redis(t, s["redis"]), servers)
	const body = `{"model":"demo","max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}`
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Patience)
	defer cancel()
	err := wait.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		if c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err != nil {
			return false, nil // it compiles the plugin
		} else if err := c.Close(); err != nil {
			return false, err
		}
		a := harness.Send(t, nil, "POST", url+"/v1/chat/completions", body)
		statistics := harness.Get(t, page+"/stats/prometheus").Body
		ready := a.Status == 200 && a.Reason() == "chosen"
		for _, line := range []string{
			`warmgate_decisions_total{policy="prefix_cache",reason="chosen"}`, "warmgate_redis_up{} 1",
			fmt.Sprintf(`warmgate_metrics_fresh_endpoints{cluster="llm"} %d`, len(servers)),
			`warmgate_queue_length{cluster="llm",class="batch"} 0`,
		} {
			ready = ready && strings.Contains(statistics, line)
		}
		return ready, nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, harness.Get(t, page+"/stats/prometheus").Body)
	}
	a, err := http.Get(page + "/server_info")
	if err != nil {
		t.Fatal(err)
	}
	if a.Body.Close(); a.StatusCode != http.StatusNotFound {
		t.Errorf("another page of the admin interface: %s", a.Status)
	}
}
