package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/quotasim"
	"github.com/warmgate/warmgate/e2e/wait"
)

// game is one run of a contender: models with full buckets, the tasks, and what happened to them.
type game struct {
	models  []*quotasim.Model
	servers []*httptest.Server
	client  *http.Client
	tasks   []task
	start   time.Time

	mu      sync.Mutex
	left    []int           // tasks that nobody has taken, the next one first
	open    int             // tasks that are not done
	allDone chan struct{}   // closed when all are
	asked   []time.Duration // of each task, when somebody first asked for a model for it; none if nobody has
	done    []time.Duration // when it was answered; none if it was not
	twice   int             // tasks that were answered again
	asks    []time.Duration // when whoever places tasks was asked
	deaths  deaths
	counted int // tasks that are still counted at the end
}

// none is the time of what did not happen.
const none = -1

func newGame(fleet []quotasim.Config, tasks []task) *game {
	g := &game{
		tasks: tasks, open: len(tasks), allDone: make(chan struct{}),
		asked: slices.Repeat([]time.Duration{none}, len(tasks)), done: slices.Repeat([]time.Duration{none}, len(tasks)),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: 5 * time.Minute},
	}
	for i := range tasks {
		g.left = append(g.left, i)
	}
	for _, c := range fleet {
		m := quotasim.New(c)
		g.models, g.servers = append(g.models, m), append(g.servers, httptest.NewServer(m))
	}
	g.start = time.Now()
	return g
}

func (g *game) close() {
	g.client.CloseIdleConnections()
	for _, s := range g.servers {
		s.Close()
	}
}

// now returns the time since the beginning of the run.
func (g *game) now() time.Duration { return time.Since(g.start) }

// take returns the number of the next task; false if there is none now.
func (g *game) take() (int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.left) == 0 {
		return 0, false
	}
	i := g.left[0]
	g.left = g.left[1:]
	return i, true
}

// putBack has a task taken again, before all others.
func (g *game) putBack(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = slices.Insert(g.left, 0, i)
}

// ask records that a model is asked for, for a task.
func (g *game) ask(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.now()
	g.asks = append(g.asks, at)
	if g.asked[i] < 0 {
		g.asked[i] = at
	}
}

// finish records that a task is answered.
func (g *game) finish(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done[i] >= 0 {
		g.twice++
		return
	}
	g.done[i] = g.now()
	if g.open--; g.open == 0 {
		close(g.allDone)
	}
}

// reply is the answer to a call.
type reply struct {
	status int
	pause  time.Duration // after which a refused call may be repeated
	used   int           // tokens
}

// request returns a task's call.
func (g *game) request(ctx context.Context, url string, t *task) (*http.Request, error) {
	body, err := json.Marshal(map[string]any{
		"model": "any", "max_tokens": t.limit,
		"messages": []map[string]string{{"role": "user", "content": quotasim.Prompt(t.prompt)}},
	})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	t.work().Set(r.Header)
	return r, nil
}

// call sends a task's call.
func (g *game) call(ctx context.Context, url string, t *task) (reply, error) {
	r, err := g.request(ctx, url, t)
	if err != nil {
		return reply{}, err
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	out := reply{status: resp.StatusCode, pause: pauseOf(resp.Header)}
	if resp.StatusCode != http.StatusOK {
		return out, nil
	}
	var answer struct {
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	err = json.Unmarshal(text, &answer)
	out.used = answer.Usage.Total
	return out, err
}

// defaultPause is how long a caller waits that is not told how long.
const defaultPause = 500 * time.Millisecond

// pauseOf reads how long to wait, as OpenAI's clients do.
func pauseOf(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		return time.Duration(s) * time.Second
	}
	return defaultPause
}

// callUntil sends a task's call until it is answered: where says where, at each attempt.
func (g *game) callUntil(ctx context.Context, i int, where func() string) error {
	for {
		g.ask(i)
		r, err := g.call(ctx, where(), &g.tasks[i])
		switch {
		case err != nil:
			return err
		case r.status == http.StatusOK:
			g.finish(i)
			return nil
		case r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable:
			return fmt.Errorf("task %d: status %d", i, r.status)
		}
		if err := wait.For(ctx, r.pause); err != nil {
			return err
		}
	}
}

// url returns where a model is, by its name.
func (g *game) url(name string) (string, error) {
	for i, m := range g.models {
		if m.Name == name {
			return g.servers[i].URL, nil
		}
	}
	return "", fmt.Errorf("there is no model %q", name)
}
