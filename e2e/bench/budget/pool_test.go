package budget

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fakeAPI admits every task to models in turn, and forgets those that are not renewed.
type fakeAPI struct {
	mu    sync.Mutex
	names []string
	ttl   time.Duration
	tasks map[string]time.Time // until when they live
	last  int
	keys  int // calls with an idempotency key
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ask struct {
		Task string `json:"task_id"`
		Key  string `json:"idempotency_key"`
	}
	_ = json.NewDecoder(r.Body).Decode(&ask) // a GET has no body
	for id, until := range f.tasks {
		if time.Now().After(until) {
			delete(f.tasks, id)
		}
	}
	_, known := f.tasks[ask.Task]
	var answer any
	switch r.URL.Path {
	case "/schedule":
		f.last++
		if ask.Key != "" {
			f.keys++
		}
		id := strconv.Itoa(f.last)
		f.tasks[id] = time.Now().Add(f.ttl)
		answer = map[string]any{"model_backend_id": f.names[f.last%len(f.names)], "task_id": id}
		if f.last%3 == 0 {
			delete(f.tasks, id)
			answer = map[string]any{"wait_for_ms": 1}
		}
	case "/complete":
		delete(f.tasks, ask.Task)
		answer = map[string]any{"ok": known}
	case "/heartbeat":
		if known {
			f.tasks[ask.Task] = time.Now().Add(f.ttl)
		}
		answer = map[string]any{"ok": known}
	case "/models":
		answer = map[string]any{"models": []any{map[string]any{"in_flight": len(f.tasks)}}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// A pool does all tasks once, with as many workers as it should have, whoever of them dies.
func TestPool(t *testing.T) {
	models := fleet()
	for i := range models {
		models[i].Slots = 100
	}
	g := newGame(models, tasksOf(3, 150))
	defer g.close()
	f := &fakeAPI{ttl: 600 * time.Millisecond, tasks: map[string]time.Time{}}
	for _, m := range models {
		f.names = append(f.names, m.Name)
	}
	server := httptest.NewServer(f)
	defer server.Close()
	p := &pool{game: g, ttl: f.ttl, router: router{base: server.URL, client: g.client}}
	killed := make(chan error, 1)
	go func() { killed <- p.killThirds(t.Context(), []time.Duration{300 * time.Millisecond}) }()
	if err := p.run(t.Context(), func(context.Context) (int, error) { return 12, nil }); err != nil {
		t.Fatal(err)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	var err error
	if g.counted, err = p.inflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := g.judge()
	if r.audit() != 0 || r.deaths.workers == 0 || r.asks < 150 {
		t.Errorf("%+v, %+v", r, r.deaths)
	}
}

// An answer that makes no sense ends the run with an error.
func TestPoolFails(t *testing.T) {
	g := newGame(fleet(), tasksOf(3, 10))
	defer g.close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"task_id":"1","model_backend_id":"none"}`))
	}))
	defer server.Close()
	p := &pool{game: g, router: router{base: server.URL, client: g.client}}
	err := p.run(t.Context(), func(context.Context) (int, error) { return 2, nil })
	if err == nil {
		t.Error("no error")
	}
}

// Only workers without keys send none.
func TestPoolWithoutKeys(t *testing.T) {
	g := newGame(fleet(), tasksOf(3, 1))
	defer g.close()
	f := &fakeAPI{ttl: time.Second, names: []string{g.models[0].Name}, tasks: map[string]time.Time{}}
	server := httptest.NewServer(f)
	defer server.Close()
	for _, keyless := range []bool{true, false} {
		p := &pool{game: g, ttl: f.ttl, keyless: keyless, router: router{base: server.URL, client: g.client}}
		if _, err := p.place(t.Context(), &g.tasks[0], 0, &worker{}); err != nil {
			t.Fatal(err)
		}
		if (f.keys == 0) != keyless {
			t.Errorf("without keys %v: %d calls have one", keyless, f.keys)
		}
	}
}
