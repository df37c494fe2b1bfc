package batch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// entry is a task as the service gets it, result what it says of one.
type entry struct {
	ID        int    `json:"id"`
	Model     string `json:"model_backend_id"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
}

type result struct {
	Answer string `json:"answer,omitempty"`
	Tokens int    `json:"tokens,omitempty"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	Wait   string `json:"retry-after-ms,omitempty"`
}

// serve starts a service before the models: /single solves a prompt, /batch several at once, and answers when it has
// solved all of them.
func (l *lab) serve(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /single", func(w http.ResponseWriter, r *http.Request) {
		var e entry
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := l.solve(r, e)
		if answer.Status != 0 {
			w.Header().Set("Retry-After-Ms", answer.Wait)
			http.Error(w, answer.Error, answer.Status)
			return
		}
		json.NewEncoder(w).Encode(answer)
	})
	mux.HandleFunc("POST /batch", func(w http.ResponseWriter, r *http.Request) {
		var batch struct{ Tasks []entry }
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.batches.Add(1)
		results := make([]any, len(batch.Tasks))
		var all sync.WaitGroup
		for i, e := range batch.Tasks {
			all.Add(1)
			go func() {
				defer all.Done()
				if results[i] = l.oddly(e); results[i] == nil {
					results[i] = l.solve(r, e)
				}
			}()
		}
		all.Wait()
		json.NewEncoder(w).Encode(map[string]any{"results": results})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// odd are results that say what the API does not take as it is.
var odd = []map[string]any{
	{"status": 400, "retry-after": 2},
	{"status": 500, "retry-after": "0.01"},
	{"status": 503, "retry-after-ms": 0.01},
	{"status": 529, "retry-after": "Sun Nov  6 08:49:37 1994"},
	{"status": 503, "retry-after": "Sun, 99 Foo 1994 08:49:37 GMT"},
	{"status": 700},
	{"status": "429"},
	{"answer": "so", "tokens": 2_000_001},
	{"answer": "so", "tokens": -1},
	{"answer": "so", "tokens": 7.5},
	{"answer": "so", "tokens": "7"},
}

// oddly returns the result of the first call for an odd task, and nil for any other.
func (l *lab) oddly(e entry) any {
	i := 0
	if _, err := fmt.Sscanf(e.Prompt, "odd %d", &i); err != nil {
		return nil
	}
	if _, again := l.met.LoadOrStore(e.ID, true); again {
		return nil
	}
	return odd[i]
}

// solve has a model solve a task.
func (l *lab) solve(r *http.Request, e entry) result {
	i := 0
	for i < len(l.models) && l.models[i].Name != e.Model {
		i++
	}
	if i == len(l.models) {
		return result{Status: http.StatusNotFound, Error: fmt.Sprintf("no model %q", e.Model)}
	}
	body, err := json.Marshal(map[string]any{
		"max_tokens": e.MaxTokens, "messages": []map[string]string{{"role": "user", "content": e.Prompt}},
	})
	if err != nil {
		return result{Status: http.StatusInternalServerError, Error: err.Error()}
	}
	call := httptest.NewRequestWithContext(r.Context(), http.MethodPost, "/", strings.NewReader(string(body)))
	call.Header.Set("X-Task", fmt.Sprint(e.ID))
	recorded := httptest.NewRecorder()
	l.handlers[i].ServeHTTP(recorded, call)
	if recorded.Code != http.StatusOK {
		return result{
			Status: recorded.Code, Error: recorded.Body.String(), Wait: recorded.Header().Get("Retry-After-Ms"),
		}
	}
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(recorded.Body.Bytes(), &answer); err != nil || len(answer.Choices) == 0 {
		return result{Status: http.StatusBadGateway, Error: fmt.Sprint(err, recorded.Body)}
	}
	return result{Answer: answer.Choices[0].Message.Content, Tokens: answer.Usage.Total}
}

// A service with /single and /batch is used like models with a URL of their own. Batches are as large as what is
// admitted at a time, and no model gets a call too many. What no model takes has failed after its attempts, and was
// charged no tokens.
func TestService(t *testing.T) {
	l := newLab(t, 0)
	service := l.serve(t)
	const poisonous, attempts, tasks = 5, 2, 40
	for round, by := range []string{"single", "batch"} {
		l.write(t, "backends.json", map[string]any{"service": map[string]string{by: service + "/" + by}})
		l.poisoned.Store(0)
		l.addTasks(t, 0, poisonous)
		l.pool(t, attempts)
		if n := l.poisoned.Load(); n != poisonous*attempts {
			t.Errorf("%s: %d calls of %d bad tasks with %d attempts", by, n, poisonous, attempts)
		}
		if round == 0 {
			l.isFull(t)
		}
		l.batches.Store(0)
		l.addTasks(t, tasks, 0)
		l.pool(t, attempts)
		if c := l.counts(t); c != (counts{0, (round + 1) * tasks, (round + 1) * poisonous}) {
			t.Errorf("%s: %+v", by, c)
		}
		if n := l.batches.Load(); (by == "batch") != (n > 0 && n < tasks) {
			t.Errorf("%s: %d tasks by %d batches", by, tasks, n)
		}
	}
	l.audit(t, 2*tasks, false)
	l.solvesOdd(t, counts{0, 2*tasks + len(odd), 2 * poisonous})
}

// solvesOdd checks that the pool, whatever is answered, tells the API nothing that it refuses, and solves all tasks by
// their second attempts.
func (l *lab) solvesOdd(t *testing.T, want counts) {
	t.Helper()
	l.run(t, fmt.Sprintf(`
import os
from warmgate_batch.tasks import open_tasks
open_tasks(os.environ["BATCH_TASKS"]).add((f"odd {i}", 7) for i in range(%d))`, len(odd)))
	if told := l.pool(t, 2); strings.Contains(told, "is completed without") {
		t.Error(told)
	}
	if c := l.counts(t); c != want {
		t.Errorf("odd answers: %+v, want %+v", c, want)
	}
}

// isFull checks that all tokens of all targets are left.
func (l *lab) isFull(t *testing.T) {
	t.Helper()
	targets, err := l.targets()
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if target.TokensLeft != target.Limit {
			t.Errorf("%s has %d of %d tokens left", target.ID, target.TokensLeft, target.Limit)
		}
	}
}
