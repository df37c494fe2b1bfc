package budget

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/quotasim"
)

// published places tasks as the published service does, by its pseudocode: weighted deficit round robin in which each
// call adds its weight to every deficit, waits that are the same for all who ask, and charges that nothing corrects. It
// is a server of this process, so that it costs less than a service. Leases of the second iteration are left out: no
// caller of it dies.
type published struct {
	mu     sync.Mutex
	second bool // iteration
	models []publishedModel
	last   time.Time
	after  int // the model that was served last
	tasks  map[string]int
	number int
	recent []publishedCall // of the last minute, for the advice; only of the second iteration
}

// publishedCall is a call to schedule: how long it was told to wait, in ms, none if it was admitted.
type publishedCall struct {
	at   time.Time
	wait int
}

// publishedModel is the state of a model.
type publishedModel struct {
	name            string
	quantum         float64 // tokens that a call adds to the deficit
	slots           int
	rate            float64 // tokens a minute
	deficit, tokens float64
	inflight        int
	served          time.Time
}

// What the pseudocode leaves open: how long to wait for a slot, and when nothing has to be waited for. Of its range,
// 100 to 250 ms, and more than that for the second.
const shortBackoff, defaultRetry = 100, 100 // ms

// publishedQuantum is the mean quantum: the size of the task in the published example. Weights as such are far too
// small for tasks that are counted in tokens.
const publishedQuantum = 1800

func newPublished(fleet []quotasim.Config, now time.Time) *published {
	p := &published{last: now, after: -1, tasks: map[string]int{}}
	sum := 0.0
	for i := range fleet {
		sum += weightOf(&fleet[i])
	}
	for i := range fleet {
		c := &fleet[i]
		p.models = append(p.models, publishedModel{
			name: c.Name, quantum: publishedQuantum * weightOf(c) / sum * float64(len(fleet)), slots: c.Slots,
			rate: c.TokensPerMinute, tokens: c.TokensPerMinute, served: now,
		})
	}
	return p
}

// schedule places a task or returns how many ms to wait.
func (p *published) schedule(now time.Time, tokens float64) placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.place(now, tokens)
	if p.second {
		if !at.admitted() {
			at.Wait = smoothed(at.Wait)
		}
		p.recent = append(p.recent, publishedCall{now, at.Wait})
	}
	return at
}

func (p *published) place(now time.Time, tokens float64) placement {
	passed := max(0, now.Sub(p.last).Minutes())
	p.last = now
	for i := range p.models {
		m := &p.models[i]
		m.tokens = min(m.rate, m.tokens+passed*m.rate)
		m.deficit += m.quantum
		if p.second { // the bonus of a model's age: a quantum for each second without a task
			m.deficit += m.quantum * now.Sub(m.served).Seconds()
		}
	}
	for k := range p.models {
		i := (p.after + 1 + k) % len(p.models)
		m := &p.models[i]
		if m.deficit >= tokens && m.inflight < m.slots && m.tokens >= tokens {
			m.deficit -= tokens
			m.tokens -= tokens
			m.inflight++
			m.served, p.after = now, i
			p.number++
			id := strconv.Itoa(p.number)
			p.tasks[id] = i
			return placement{Model: m.name, Task: id}
		}
	}
	return placement{Wait: p.wait(tokens)}
}

// wait returns the shortest wait of a model that needs one, in ms.
func (p *published) wait(tokens float64) int {
	least := 0
	for i := range p.models {
		m := &p.models[i]
		wait := 0
		if need := tokens - m.tokens; need > 0 {
			wait = int(need/m.rate*60_000) + 1
		}
		if m.inflight >= m.slots {
			wait = max(wait, shortBackoff)
		}
		if wait > 0 && (least == 0 || wait < least) {
			least = wait
		}
	}
	if least == 0 {
		return defaultRetry
	}
	return least
}

// smoothed is a wait of the second iteration, in ms: within a tenth of the first one's, until the next tick.
func smoothed(wait int) int {
	const tick, least = 100, 50
	jittered := float64(wait) * (0.9 + 0.2*rand.Float64())
	return max(least, int(math.Ceil(jittered/tick))*tick)
}

// advice returns how many workers there should be, by the calls of the last minute.
func (p *published) advice(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = slices.DeleteFunc(p.recent, func(c publishedCall) bool { return now.Sub(c.at) > time.Minute })
	inflight, slots := 0, 0
	for i := range p.models {
		inflight, slots = inflight+p.models[i].inflight, slots+p.models[i].slots
	}
	if len(p.recent) == 0 {
		return slots
	}
	waits, admitted := make([]int, len(p.recent)), 0.0
	for i, c := range p.recent {
		if waits[i] = c.wait; c.wait == 0 {
			admitted++
		}
	}
	slices.Sort(waits)
	p95 := float64(waits[len(waits)*95/100])
	pressure := 0.5*min(max((p95-25)/(1000-25), 0), 1) + 0.5*(1-admitted/float64(len(waits)))
	return min(max(inflight+int(math.Round(float64(slots-inflight)*(1-pressure))), 4), slots)
}

// complete ends a task, and reports whether there was one.
func (p *published) complete(task string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := p.tasks[task]
	if ok {
		delete(p.tasks, task)
		p.models[i].inflight = max(0, p.models[i].inflight-1)
	}
	return ok
}

// ServeHTTP implements http.Handler.
func (p *published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Tokens int    `json:"estimated_tokens"`
		Task   string `json:"task_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer any
	switch r.URL.Path {
	case "/schedule":
		if at := p.schedule(time.Now(), float64(ask.Tokens)); at.admitted() {
			answer = map[string]any{"model_backend_id": at.Model, "task_id": at.Task}
		} else {
			answer = map[string]any{"wait_for_ms": at.Wait}
		}
	case "/complete":
		answer = map[string]any{"ok": true}
		if !p.complete(ask.Task) {
			answer = map[string]any{"error": "Task not found"}
		}
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // a caller that has left does not read it
}

// playPublished has workers ask the published service for each task, and sleep as long as it says: in its first
// iteration those of before, in its second one as many as it advises.
func playPublished(second bool) func(ctx context.Context, s settings, g *game) error {
	return func(ctx context.Context, _ settings, g *game) error {
		var fleet []quotasim.Config
		for _, m := range g.models {
			fleet = append(fleet, m.Config)
		}
		service := newPublished(fleet, time.Now())
		service.second = second
		server := httptest.NewServer(service)
		defer server.Close()
		p := &pool{game: g, router: router{base: server.URL, client: g.client}}
		return p.run(ctx, func(context.Context) (int, error) {
			if second {
				return service.advice(time.Now()), nil
			}
			return batchWorkers, nil
		})
	}
}
