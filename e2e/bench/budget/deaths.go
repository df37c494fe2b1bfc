package budget

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

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
