package batch

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/pyenv"
	"github.com/warmgate/warmgate/e2e/quotasim"
)

const (
	apiPath = "/warmgate/v1"
	token   = "only-for-this-test-of-batches"
	ttl     = 3 * time.Second // of leases
	poison  = "poison"        // no model takes a prompt with this word
)

// lab is a gateway with an admission API before models, and the folder in which the pool runs.
type lab struct {
	dir      string
	tasks    string // where they are
	python   string
	models   []*quotasim.Model
	handlers []http.Handler // of the models
	gateway  *harness.Gateway

	poisoned atomic.Int64 // calls that models have rejected
	batches  atomic.Int64 // calls of /batch
	met      sync.Map     // odd tasks that were called for, by their numbers
}

// newLab starts models that are busy with each task for a time, and a gateway that knows their quotas.
func newLab(t *testing.T, busy time.Duration) *lab {
	l := &lab{dir: t.TempDir(), python: pyenv.T(t, "examples/batch/requirements.txt", pyenv.Any...)}
	l.tasks = l.path("tasks.db")
	backends, targets, clusters := map[string]string{}, map[string]any{}, ""
	for i, c := range []quotasim.Config{
		{Name: "gpt-4o-mini", Slots: 7, TokensPerMinute: 23_000, RequestsPerMinute: 211, Speed: 1},
		{Name: "claude-haiku", Slots: 5, TokensPerMinute: 17_000, RequestsPerMinute: 173, Speed: 1.3, Anthropic: true},
		{Name: "llama-70b", Slots: 3, TokensPerMinute: 11_000, RequestsPerMinute: 127, Speed: 1.7},
	} {
		m := quotasim.New(c)
		l.models = append(l.models, m)
		handler := l.handler(m, quotasim.Work{Output: 30 + 7*i, Time: busy})
		l.handlers = append(l.handlers, handler)
		server := httptest.NewServer(handler)
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

// handler returns a model that takes no poison, and is told by a header which task a call is for.
func (l *lab) handler(m *quotasim.Model, work quotasim.Work) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(poison)) {
			l.poisoned.Add(1)
			http.Error(w, `{"error":{"message":"The prompt cannot be processed."}}`, http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		work := work
		work.Task = r.Header.Get("X-Task")
		work.Set(r.Header)
		m.ServeHTTP(w, r)
	})
}

// target is what the gateway tells of one.
type target struct {
	ID         string
	Inflight   int `json:"in_flight"`
	Limit      int `json:"max_tokens_per_minute"`
	TokensLeft int `json:"tokens_left"`
}

// targets returns what the gateway tells of all.
func (l *lab) targets() ([]target, error) {
	r, err := http.NewRequest(http.MethodGet, l.gateway.URL()+apiPath+"/models", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct{ Models []target }
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && len(answer.Models) != len(l.models) {
		err = fmt.Errorf("%d models: %s", len(answer.Models), text)
	}
	return answer.Models, err
}

// inflight returns how many tasks the gateway counts.
func (l *lab) inflight() (sum int, err error) {
	targets, err := l.targets()
	for _, m := range targets {
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
		"WARMGATE_LEASE_TTL="+strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64), "BATCH_TASKS="+l.tasks)
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

// addTasks adds n tasks to the batch, and as many that no model takes.
func (l *lab) addTasks(t *testing.T, n, poisonous int) {
	t.Helper()
	l.run(t, fmt.Sprintf(`
import os
from warmgate_batch.tasks import open_tasks
tasks = open_tasks(os.environ["BATCH_TASKS"])
tasks.add([(%q, 5000)] * %d)
tasks.add(("word " * (i %% 37 + 5), 61 + i %% 23) for i in range(%d))`, poison, poisonous, n))
}

// counts is how many tasks there are of each status.
type counts struct{ Unsolved, Solved, Failed int }

func (l *lab) counts(t *testing.T) (c counts) {
	t.Helper()
	text := l.run(t, `
import json, os
from warmgate_batch.tasks import open_tasks
print(json.dumps(open_tasks(os.environ["BATCH_TASKS"]).counts()._asdict()))`)
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}
