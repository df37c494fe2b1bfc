package budget

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
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

// scale is how many times as long as here a call would take: 1 s to 2 min there are 10 ms to 1.2 s here. Rates are not
// scaled: buckets hold what a minute brings, so a minute remains one.
const scale = 100

// fleet returns the models. Weights are in proportion to the rates in tokens.
func fleet() []quotasim.Config {
	list := []quotasim.Config{
		{Name: "gpt-4o", Slots: 7, TokensPerMinute: 183_000, RequestsPerMinute: 197, Speed: 1.1},
		{Name: "gpt-4o-mini", Slots: 13, TokensPerMinute: 347_000, RequestsPerMinute: 371, Speed: 1},
		{Name: "gpt-4.1", Slots: 6, TokensPerMinute: 151_000, RequestsPerMinute: 163, Speed: 1.3},
		{Name: "gpt-4.1-mini", Slots: 9, TokensPerMinute: 229_000, RequestsPerMinute: 241, Speed: 1},
		{Name: "o4-mini", Slots: 5, TokensPerMinute: 107_000, RequestsPerMinute: 113, Speed: 2},
		{Name: "claude-opus", Slots: 4, TokensPerMinute: 89_000, RequestsPerMinute: 97, Speed: 1.9, Anthropic: true},
		{
			Name: "claude-sonnet", Slots: 7, TokensPerMinute: 173_000, RequestsPerMinute: 181, Speed: 1.4,
			Anthropic: true,
		},
		{Name: "claude-haiku", Slots: 11, TokensPerMinute: 293_000, RequestsPerMinute: 311, Speed: 1, Anthropic: true},
		{Name: "mistral-large", Slots: 5, TokensPerMinute: 113_000, RequestsPerMinute: 127, Speed: 1.6},
		{Name: "llama-70b", Slots: 4, TokensPerMinute: 97_000, RequestsPerMinute: 103, Speed: 1.7},
	}
	return list
}

// weightOf returns a model's weight, within what a configuration may have.
func weightOf(m *quotasim.Config) float64 { return min(m.TokensPerMinute/1000, 1000) }

// task is a prompt to be answered by any of the models.
type task struct {
	number int
	prompt int           // tokens
	limit  int           // tokens that the answer has at most
	output int           // tokens that it has
	time   time.Duration // that the answer takes at speed 1
}

// estimate is how many tokens the task may use, and used how many it does.
func (t *task) estimate() int { return t.prompt + t.limit }
func (t *task) used() int     { return t.prompt + t.output }

func (t *task) work() quotasim.Work {
	return quotasim.Work{Task: strconv.Itoa(t.number), Output: t.output, Time: t.time}
}

// The tasks' sizes and times are log-normal, within these bounds. A model's speed adds up to twice the time.
const (
	medianTokens, sigmaTokens, leastTokens, mostTokens = 1130, 0.9, 67, 21_300
	medianTime, sigmaTime, leastTime, mostTime         = 83, 0.9, 10, 600 // ms
)

// tasksOf returns n tasks. The same seed gives the same.
func tasksOf(seed uint64, n int) []task {
	r := rand.New(rand.NewPCG(seed, 0x6275646765740000))
	logNormal := func(median, sigma, least, most float64) float64 {
		return min(max(median*math.Exp(sigma*r.NormFloat64()), least), most)
	}
	out := make([]task, n)
	for i := range out {
		estimate := logNormal(medianTokens, sigmaTokens, leastTokens, mostTokens)
		prompt := max(1, int(estimate*(0.3+0.5*r.Float64())))
		limit := max(1, int(estimate)-prompt)
		out[i] = task{
			number: i, prompt: prompt, limit: limit,
			output: max(1, int(float64(limit)*(0.35+0.65*r.Float64()))),
			time:   time.Duration(logNormal(medianTime, sigmaTime, leastTime, mostTime) * float64(time.Millisecond)),
		}
	}
	return out
}

// bySize returns the numbers of the tasks from the smallest to the largest.
func bySize(tasks []task) []int {
	out := make([]int, len(tasks))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(tasks[a].estimate(), tasks[b].estimate()), cmp.Compare(a, b))
	})
	return out
}

// perfect returns a lower bound of the time in which the tasks can be done, whoever places them: tokens, requests and
// work are taken for fluids that flow into the models as fast as rates and slots allow. It knows what each task will
// use, and no task needs to wait for another.
func perfect(models []quotasim.Config, tasks []task) time.Duration {
	tokens, work := 0.0, 0.0
	for i := range tasks {
		tokens += float64(tasks[i].used())
		work += tasks[i].time.Seconds()
	}
	enough := func(seconds float64) bool {
		tokensFit, requestsFit, workFits := 0.0, 0.0, 0.0
		for i := range models {
			m := &models[i]
			minutes := seconds / 60
			tokensFit += m.TokensPerMinute * (1 + minutes)
			requestsFit += m.RequestsPerMinute * (1 + minutes)
			workFits += float64(m.Slots) * seconds / m.Speed
		}
		return tokensFit >= tokens && requestsFit >= float64(len(tasks)) && workFits >= work
	}
	low, high := 0.0, 1.0
	for !enough(high) {
		low, high = high, 2*high
	}
	for range 40 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return time.Duration(high * float64(time.Second))
}
