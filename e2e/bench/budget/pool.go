package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// pool is workers that each do one task after another at the models that a router names.
type pool struct {
	*game
	router
	ttl     time.Duration // of leases; 0: there are none
	keyless bool          // tasks have no keys

	mu      sync.Mutex
	working map[*worker]bool
	wanted  int // workers
	live    int // tasks that are placed and not completed, but for those of dead workers
	failed  error
	ended   sync.WaitGroup
	cancel  context.CancelFunc
}

// worker does tasks until there are too many workers.
type worker struct {
	stop   context.CancelFunc
	task   int  // that it has, -1 for none
	placed bool // that task is placed
	dead   bool
}

// look is how often the pool adjusts the number of its workers, and growth how many more they may be each time: all
// workers that begin at once would ask at once.
const look, growth = 100 * time.Millisecond, 1.25

// run does all tasks, with as many workers as advice says.
func (p *pool) run(ctx context.Context, advice func(ctx context.Context) (int, error)) error {
	ctx, p.cancel = context.WithCancel(ctx)
	defer p.cancel()
	p.working = map[*worker]bool{}
	for {
		n, err := advice(ctx)
		if err != nil {
			p.fail(err)
		}
		p.adjust(ctx, n)
		select {
		case <-p.allDone:
			p.cancel()
			p.ended.Wait()
			return nil
		case <-ctx.Done():
			p.ended.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			return errors.Join(p.failed, ctx.Err())
		case <-time.After(look):
		}
	}
}

// fail ends the run with an error, unless it has ended.
func (p *pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil && !errors.Is(err, context.Canceled) {
		p.failed = err
		p.cancel()
	}
}

// adjust starts workers, or has some end when their task is done.
func (p *pool) adjust(ctx context.Context, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = n
	most := max(4, int(growth*float64(len(p.working))))
	for len(p.working) < min(n, most) {
		ctx, stop := context.WithCancel(ctx)
		w := &worker{stop: stop, task: -1}
		p.working[w] = true
		p.ended.Add(1)
		go func() {
			defer p.ended.Done()
			defer stop()
			if err := p.work(ctx, w); err != nil && !p.isDead(w) {
				p.fail(err)
			}
		}()
	}
}

// leave has a worker end if there are too many.
func (p *pool) leave(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.working) > p.wanted {
		delete(p.working, w)
		return true
	}
	return false
}

func (p *pool) isDead(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.dead
}

// idle is how long a worker waits that finds no task: one of a worker that has died may come back.
const idle = 50 * time.Millisecond

// work does tasks.
func (p *pool) work(ctx context.Context, w *worker) error {
	for !p.leave(w) {
		i, ok := p.take()
		if !ok {
			if wait.For(ctx, idle) != nil {
				return nil
			}
			continue
		}
		if !p.change(w, func() { w.task = i }) {
			p.putBack(i)
			return errDead
		}
		for attempt := 0; ; attempt++ {
			done, err := p.attempt(ctx, w, attempt)
			if err != nil {
				return fmt.Errorf("task %d: %w", i, err)
			}
			if done {
				break
			}
		}
	}
	return nil
}

// change changes what is known of a worker, and reports whether it lives.
func (p *pool) change(w *worker, f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.dead {
		f()
	}
	return !w.dead
}

// errDead ends a worker that was killed.
var errDead = errors.New("killed")

// attempt has the worker's task placed and calls the model. It reports false if that has refused it.
func (p *pool) attempt(ctx context.Context, w *worker, attempt int) (done bool, err error) {
	t := &p.tasks[w.task]
	at, err := p.place(ctx, t, attempt, w)
	if err != nil {
		return false, err
	}
	url, err := p.url(at.Model)
	if err != nil {
		return false, err
	}
	stop := p.renew(ctx, at.Task)
	r, err := p.call(ctx, url, t)
	stop()
	if err != nil {
		return false, err
	}
	if done = r.status == http.StatusOK; !done && r.status != http.StatusTooManyRequests {
		return false, fmt.Errorf("%s: status %d", at.Model, r.status)
	}
	if !p.change(w, func() {
		if w.placed = false; done {
			w.task = -1
		}
	}) {
		return false, errDead
	}
	if done {
		p.finish(t.number)
	}
	used := r.used
	if !done { // the model has less left than is known: what it was charged stays
		used = unknown
	}
	err = p.complete(context.WithoutCancel(ctx), at.Task, used) // even when that was the last one
	p.change(w, func() { p.live-- })
	if errors.Is(err, errLost) { // on a busy machine heartbeats come late: it was answered all the same
		err = nil
	}
	if err == nil && !done {
		err = wait.For(ctx, r.pause)
	}
	return done, err
}

// place asks for a model until there is one.
func (p *pool) place(ctx context.Context, t *task, attempt int, w *worker) (placement, error) {
	key := ""
	if p.ttl > 0 && !p.keyless {
		key = fmt.Sprintf("%d-%d-%p", t.number, attempt, w)
	}
	for {
		p.ask(t.number)
		at, err := p.schedule(ctx, t.estimate(), key)
		if err != nil {
			return at, err
		}
		if at.admitted() {
			if !p.change(w, func() { w.placed, p.live = true, p.live+1 }) {
				return at, errDead
			}
			return at, nil
		}
		if err := wait.For(ctx, time.Duration(at.Wait)*time.Millisecond); err != nil {
			return at, err
		}
	}
}

// renew renews a task until stop is called.
func (p *pool) renew(ctx context.Context, id string) (stop func()) {
	if p.ttl == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for wait.For(ctx, p.ttl/3) == nil {
			if found, err := p.heartbeat(ctx, id); err != nil || !found { // complete says so as well
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// deaths is what became of workers that were killed.
type deaths struct {
	workers int
	back    time.Duration // from a death until nothing is counted for the dead, the longest
}

// deathTimes are when a third of the workers is killed.
func (s *settings) deathTimes() []time.Duration { return []time.Duration{2 * s.ttl / 3, 4 * s.ttl} }

// killThirds kills a third of the workers each time, until there is nothing to do.
func (p *pool) killThirds(ctx context.Context, times []time.Duration) error {
	r := rand.New(rand.NewPCG(uint64(len(p.tasks)), 0x6b696c6c))
	for _, at := range times {
		select {
		case <-p.allDone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(at - p.now()):
		}
		if err := p.killThird(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// killThird kills a third of the workers as a power cut would: they stop, tell nobody, and their connections are
// closed. Their tasks are taken up by others when the leases are over. It returns when nothing is counted for the dead.
func (p *pool) killThird(ctx context.Context, r *rand.Rand) error {
	p.mu.Lock()
	die := (len(p.working) + 2) / 3
	for w := range p.working {
		if die == 0 {
			break
		}
		if r.IntN(2) == 0 { // maps give their elements in no fair order
			continue
		}
		die--
		p.deaths.workers++
		w.dead = true
		w.stop()
		delete(p.working, w)
		if w.placed {
			p.live--
		}
		if task := w.task; task >= 0 {
			time.AfterFunc(p.ttl, func() { p.putBack(task) })
		}
	}
	p.mu.Unlock()
	began := time.Now()
	limit, cancel := context.WithTimeout(ctx, p.ttl+10*time.Second)
	defer cancel()
	err := wait.Until(limit, 20*time.Millisecond, func() error {
		before := p.liveTasks()
		counted, err := p.inflight(limit)
		if most := max(before, p.liveTasks()); err == nil && counted > most {
			err = fmt.Errorf("%d tasks are counted, %d workers have one", counted, most)
		}
		return err
	})
	p.deaths.back = max(p.deaths.back, time.Since(began))
	return err
}

func (p *pool) liveTasks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}
