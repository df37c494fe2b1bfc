package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/quotasim"
)

type settings struct {
	bench.Settings
	tasks      int
	quick      bool
	ttl        time.Duration
	contenders string
	parts      string
}

// contender is one way to have the tasks done.
type contender struct {
	name  string
	about string
	own   bool // Warmgate places the tasks
	asks  bool // workers ask before they send
	play  func(ctx context.Context, s settings, g *game) error
}

func nameOf(c contender) string { return c.name }

// Names of the contenders that figures are compared with.
const (
	batchesName = "batches"
	apiName     = "api"
	killedName  = "api killed"
	crowdName   = "api crowd"
)

// crowd is how many workers there are for 71 slots where nobody follows the advice. With as few calls in a tick as
// else, there are more than twice the mean in some by chance alone.
const crowd = 307

var contenders = []contender{
	{
		name: apiName, own: true, asks: true, play: callersOf{}.play(),
		about: "the admission API of a gateway with its own store; as many workers as it advises, 25 % more of them " +
			"every 100 ms at most",
	},
	{
		name: killedName, own: true, asks: true, play: callersOf{kill: true}.play(),
		about: "the same; a third of the workers is killed twice",
	},
	{
		name: "api with Redis", own: true, asks: true, play: callersOf{redis: true}.play(),
		about: "the admission API of a gateway with the store in Redis",
	},
	{
		name: crowdName, own: true, asks: true, play: callersOf{crowd: crowd}.play(),
		about: fmt.Sprintf("the same as api with %d workers, whatever is advised: most of them wait", crowd),
	},
	{
		name: "proxy", own: true, play: playProxy,
		about: "requests go through the gateway and wait there; half as many again at once as there are slots",
	},
	{
		name: "sleeps", asks: true, play: playSleeps,
		about: fmt.Sprintf("the published service, first iteration, in this process; %d workers that sleep as long as "+
			"it says; mean quantum %d tokens", batchWorkers, publishedQuantum),
	},
	{
		name: batchesName, play: playBatches(false),
		about: fmt.Sprintf("%d workers, each with its part of the tasks in batches of %d; models in turn; what is "+
			"refused goes to the same model again when it says", batchWorkers, batchSize),
	},
	{
		name: "batches elsewhere", play: playBatches(true),
		about: "the same; what is refused goes to the next model in turn, when the one before has said",
	},
}

// How it was before there was anything that places tasks: so many workers, so many tasks in each of their batches.
const batchWorkers, batchSize = 20, 10

// playBatches has each worker send its part of the tasks in batches, each when all answers to the last one are there.
// Tasks go to the models in turn. What a model has refused is sent again when it says, to that model or, with
// elsewhere, to the next one in turn.
func playBatches(elsewhere bool) func(ctx context.Context, s settings, g *game) error {
	return func(ctx context.Context, _ settings, g *game) error {
		var turn atomic.Int64
		next := func() string { return g.servers[int(turn.Add(1)-1)%len(g.servers)].URL }
		parts := slices.Collect(slices.Chunk(g.left, max(1, (len(g.left)+batchWorkers-1)/batchWorkers)))
		return bench.SideBySide(ctx, len(parts), len(parts), func(ctx context.Context, _, k int) error {
			for batch := range slices.Chunk(parts[k], batchSize) {
				if err := g.sendBatch(ctx, batch, next, elsewhere); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// sendBatch returns when all tasks of a batch are answered.
func (g *game) sendBatch(ctx context.Context, batch []int, next func() string, elsewhere bool) error {
	return bench.SideBySide(ctx, len(batch), len(batch), func(ctx context.Context, _, k int) error {
		where := next
		if at := next(); !elsewhere {
			where = func() string { return at }
		}
		return g.callUntil(ctx, batch[k], where)
	})
}

// published places tasks as the first iteration of the published service does, by its pseudocode: weighted deficit
// round robin in which each call adds its weight to every deficit, waits that are the same for all who ask, and charges
// that nothing corrects. It is a server of this process, so that it costs less than a service.
type published struct {
	mu     sync.Mutex
	models []publishedModel
	last   time.Time
	after  int // the model that was served last
	tasks  map[string]int
	number int
}

// publishedModel is the state of a model.
type publishedModel struct {
	name            string
	quantum         float64 // tokens that a call adds to the deficit
	slots           int
	rate            float64 // tokens a minute
	deficit, tokens float64
	inflight        int
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
			rate: c.TokensPerMinute, tokens: c.TokensPerMinute,
		})
	}
	return p
}

// schedule places a task or returns how many ms to wait.
func (p *published) schedule(now time.Time, tokens float64) placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := max(0, now.Sub(p.last).Minutes())
	p.last = now
	for i := range p.models {
		m := &p.models[i]
		m.tokens = min(m.rate, m.tokens+passed*m.rate)
		m.deficit += m.quantum
	}
	for k := range p.models {
		i := (p.after + 1 + k) % len(p.models)
		m := &p.models[i]
		if m.deficit >= tokens && m.inflight < m.slots && m.tokens >= tokens {
			m.deficit -= tokens
			m.tokens -= tokens
			m.inflight++
			p.after = i
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

// playSleeps has the workers of before ask the published service for each task, and sleep as long as it says.
func playSleeps(ctx context.Context, _ settings, g *game) error {
	var fleet []quotasim.Config
	for _, m := range g.models {
		fleet = append(fleet, m.Config)
	}
	server := httptest.NewServer(newPublished(fleet, time.Now()))
	defer server.Close()
	p := &pool{game: g, router: router{base: server.URL, client: g.client}}
	return p.run(ctx, func(context.Context) (int, error) { return batchWorkers, nil })
}
