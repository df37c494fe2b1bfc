package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// sample is one request that its server answers at once.
type sample struct {
	at   time.Time
	took time.Duration
}

// pulses measures, all through a scene, how long requests take that cost their server nothing.
type pulses struct {
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	samples []sample
	errs    []error
}

// pulsePeriod is the time between two pulses at one gateway.
const pulsePeriod = 10 * time.Millisecond

// startPulses begins to measure at the given gateways.
func startPulses(ctx context.Context, urls []string) *pulses {
	ctx, cancel := context.WithCancel(ctx)
	p := &pulses{cancel: cancel}
	for _, url := range urls {
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.run(ctx, url)
		}()
	}
	return p
}

func (p *pulses) run(ctx context.Context, url string) {
	tick := time.NewTicker(pulsePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			at := time.Now()
			took, err := pulse(context.WithoutCancel(ctx), url, true)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.samples = append(p.samples, sample{at, took})
			if err != nil {
				p.errs = append(p.errs, err)
			}
		}()
	}
}

// stop ends the measurement and returns how many pulses there were, and those that failed.
func (p *pulses) stop() (n int, errs []error) {
	p.cancel()
	p.wg.Wait()
	return len(p.samples), p.errs
}

// p99 returns the 99th percentile of the pulses that began within a time.
func (p *pulses) p99(from, to time.Time) float64 {
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
	return float64(loadgen.Quantile(took, 0.99)) / float64(time.Millisecond)
}

// pulse sends one request and returns how long its answer took.
func pulse(ctx context.Context, url string, keep bool) (time.Duration, error) {
	status, took, err := get(ctx, url, keep, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d", status)
	}
	return took, err
}
