package batch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pinned"
	"github.com/warmgate/warmgate/e2e/quotasim"
)

const (
	apiPath = "/warmgate/v1"
	token   = "only-for-this-test-of-batches"
	ttl     = 3 * time.Second // of leases
)

// lab is a gateway with an admission API before models, and the folder in which the pool runs.
type lab struct {
	dir     string
	python  string
	models  []*quotasim.Model
	gateway *harness.Gateway
}

// newLab starts models that are busy with each task for a time, and a gateway that knows their quotas.
func newLab(t *testing.T, busy time.Duration) *lab {
	l := &lab{dir: t.TempDir(), python: venv(t)}
	backends, targets, clusters := map[string]string{}, map[string]any{}, ""
	for i, c := range []quotasim.Config{
		{Name: "gpt-4o-mini", Slots: 7, TokensPerMinute: 23_000, RequestsPerMinute: 211, Speed: 1},
		{Name: "claude-haiku", Slots: 5, TokensPerMinute: 17_000, RequestsPerMinute: 173, Speed: 1.3, Anthropic: true},
		{Name: "llama-70b", Slots: 3, TokensPerMinute: 11_000, RequestsPerMinute: 127, Speed: 1.7},
	} {
		m := quotasim.New(c)
		l.models = append(l.models, m)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			quotasim.Work{Task: r.Header.Get("X-Task"), Output: 30 + 7*i, Time: busy}.Set(r.Header)
			m.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		backends[c.Name] = server.URL + "/v1/chat/completions"
		targets[c.Name] = map[string]any{
			"weight": c.TokensPerMinute / 1000, "max_concurrent_requests": c.Slots,
			"max_tokens_per_minute": c.TokensPerMinute, "max_requests_per_minute": c.RequestsPerMinute,
		}
		host, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
		clusters += fmt.Sprintf(`
- name: %s
  type: STATIC
  connect_timeout: 1s
  load_assignment:
    cluster_name: %s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]
`, c.Name, c.Name, host, port)
	}
	l.write(t, "backends.json", backends)
	config, err := json.Marshal(map[string]any{
		"lb_type": "cluster", "lb_policy": "token_budget", "lb_config": map[string]any{
			"targets": targets, "envoy": map[string]any{"admin_cluster": "warmgate-admin"},
			"api": map[string]any{"path": apiPath, "token": token, "lease_ttl": ttl.String()},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.gateway = harness.StartT(t, harness.Options{
		Config: string(config), Endpoints: harness.Models(t, 1),
		Edit: harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
			return harness.Insert(doc, "static_resources.clusters", "", 0, clusters)
		}),
	})
	harness.Await(t, func() error {
		_, err := l.inflight()
		return err
	})
	return l
}

// inflight returns how many tasks the gateway counts.
func (l *lab) inflight() (sum int, err error) {
	r, err := http.NewRequest(http.MethodGet, l.gateway.URL()+apiPath+"/models", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Models []struct {
			Inflight int `json:"in_flight"`
		}
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && len(answer.Models) != len(l.models) {
		err = fmt.Errorf("%d models: %s", len(answer.Models), text)
	}
	for _, m := range answer.Models {
		sum += m.Inflight
	}
	return sum, err
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(t *testing.T, name string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(l.path(name), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// command returns a Python command in the folder of the example.
func (l *lab) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(l.python, args...)
	cmd.Dir = harness.PathT(t, "examples/batch")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "WARMGATE_TOKEN="+token,
		"WARMGATE_API="+l.gateway.URL()+apiPath, "WARMGATE_BACKENDS="+l.path("backends.json"),
		"WARMGATE_LEASE_TTL="+strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64), "BATCH_TASKS="+l.path("tasks.db"))
	return cmd
}

// run runs Python code and returns what it prints.
func (l *lab) run(t *testing.T, code string) string {
	t.Helper()
	text, err := l.command(t, "-c", code).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w\n%s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// addTasks adds n tasks to the batch.
func (l *lab) addTasks(t *testing.T, n int) {
	t.Helper()
	l.run(t, fmt.Sprintf("from os import environ; from tasks import Tasks\n"+
		"Tasks(environ['BATCH_TASKS']).add(('word ' * (i %% 37 + 5), 61 + i %% 23) for i in range(%d))", n))
}

// left returns how many tasks are not solved.
func (l *lab) left(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(l.run(t, "from os import environ; from tasks import Tasks\n"+
		"print(Tasks(environ['BATCH_TASKS']).left())"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// venv returns a Python that has what the example requires, by hash. It is made once for each list of that.
func venv(t *testing.T) string {
	t.Helper()
	requirements := harness.PathT(t, "examples/batch/requirements.txt")
	sum := sha256.Sum256(harness.ReadT(t, "examples/batch/requirements.txt"))
	root := harness.PathT(t, ".cache/batch-"+hex.EncodeToString(sum[:6]))
	err := pinned.Once(root, func() error {
		return errors.Join(makeVenv(root+".part", requirements), os.Rename(root+".part", root))
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin", "python")
}

func makeVenv(at, requirements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", at},
		{
			filepath.Join(at, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--only-binary", ":all:", "--require-hashes", "--requirement", requirements,
		},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return nil
}
