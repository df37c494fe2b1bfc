package lab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

// sample is one request that its server answers at once.
type sample struct {
	at   time.Time
	took time.Duration
}

// Pulses measure, all through a scene, how long requests take that cost their server nothing.
type Pulses struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	samples []sample
	errs    []error
}

// pulsePeriod is the time between two pulses at one gateway.
const pulsePeriod = 10 * time.Millisecond

// StartPulses begins to measure at the given URLs, each of which leads to another gateway.
func StartPulses(ctx context.Context, urls ...string) *Pulses {
	ctx, cancel := context.WithCancel(ctx)
	p := &Pulses{cancel: cancel}
	for _, url := range urls {
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.run(ctx, url)
		}()
	}
	return p
}

func (p *Pulses) run(ctx context.Context, url string) {
	for wait.For(ctx, pulsePeriod) == nil {
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			at := time.Now()
			a, err := audit.Ask(context.WithoutCancel(ctx), url, true, nil)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("%d", a.Status)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.samples = append(p.samples, sample{at, a.Took})
			if err != nil {
				p.errs = append(p.errs, err)
			}
		}()
	}
}

// Stop ends the measurement and counts the pulses. One that has failed ends the scene.
func (p *Pulses) Stop(a *Act) error {
	p.cancel()
	p.wg.Wait()
	a.Result.Requests += len(p.samples)
	a.Result.Failed += len(p.errs)
	if len(p.errs) > 0 {
		return fmt.Errorf("%d of %d pulses failed, first: %w", len(p.errs), len(p.samples), p.errs[0])
	}
	return nil
}

// P99 returns the 99th percentile of the pulses that began within a time, in ms, 0 if there are none.
func (p *Pulses) P99(from, to time.Time) float64 {
	var took []time.Duration
	for _, x := range p.samples {
		if !x.at.Before(from) && x.at.Before(to) {
			took = append(took, x.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return bench.MS(loadgen.Quantile(took, 0.99))
}
