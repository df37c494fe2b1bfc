package fleet

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warmgate/warmgate/e2e/child"
	"github.com/warmgate/warmgate/e2e/harness"
)

// ProgramT returns a program of Debian's package prometheus, or skips the test.
func ProgramT(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no %s in the PATH: build/prometheus.sh installs it", name)
		}
		t.Skipf("no %s in the PATH: build/prometheus.sh installs it", name)
	}
	return path
}

// pageOf leads to the gateway's page of statistics, which is at a Unix socket.
func pageOf(g *harness.Gateway) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := g.Prometheus(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("content-type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text)
	}
}

// PrometheusT runs a Prometheus that scrapes the gateway, and returns its URL. global is the beginning of its
// configuration; files are in its folder.
func PrometheusT(t testing.TB, g *harness.Gateway, global string, files map[string]string) (url string) {
	t.Helper()
	program, dir := ProgramT(t, "prometheus"), t.TempDir()
	page := harness.ServeT(t, pageOf(g))
	const config = "prometheus.yml"
	all := map[string]string{config: fmt.Sprintf(`%s
scrape_configs:
- job_name: gateway
  metrics_path: /
  static_configs: [{targets: [%q], labels: {instance: gateway-1}}]
`, global, page.Addr)}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + harness.FreePortT(t)
	command := exec.Command(program, "--config.file="+filepath.Join(dir, config),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	command.Stdout, command.Stderr = log, log
	process, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Kill()
		<-process.Done()
		log.Close()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("Prometheus's log ends:\n%s", text[max(0, len(text)-2000):])
		}
	})
	url = "http://" + address
	harness.Await(t, func() error {
		resp, err := http.Get(url + "/-/ready")
		if err != nil {
			return err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		return nil
	})
	return url
}
