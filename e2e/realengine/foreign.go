package main

import (
	"context"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
)

// Foreign load: requests that come to a server past the gateway, and are counted by no gateway.
const (
	foreignPrompt = 50   // tokens
	foreignAnswer = 6000 // longer than any wait
	settleTime    = 20 * time.Second
)

// occupy gives a server as many requests of others as it runs at once and as many again, which wait.
func (t *trial) occupy(ctx context.Context, s server) (stop func()) {
	return t.hold(ctx, s, model, 2*slots)
}

// hold gives a server requests for a model, past the gateway, with answers that do not end. It returns when they run,
// or wait because enough others do, and stop when they are gone.
func (t *trial) hold(ctx context.Context, s server, model string, n int) (stop func()) {
	before := s.scrape(ctx)
	leave := t.foreign(ctx, s, model, n, foreignAnswer, false)
	stop = func() {
		_ = leave() // all requests are broken off
		lab.About(s.url+" is not idle", func() {
			lab.Within(ctx, settleTime, func() {
				c := s.scrape(ctx)
				lab.FailIf(c.running+c.waiting > 0, "%v run, %v wait", c.running, c.waiting)
			})
		})
	}
	// As far as it has slots, with their prompts computed.
	runs := float64(min(n, slots))
	err := lab.Try(func() {
		lab.Within(ctx, settleTime, func() {
			c := s.scrape(ctx)
			busy := c.running == runs && c.waiting == float64(n)-runs
			lab.FailIf(!busy || c.minus(before).prompts() < runs*foreignPrompt, "%s is not busy with %d requests: %+v",
				s.url, n, c)
		})
	})
	if err != nil {
		lab.Check(err, lab.Try(stop))
	}
	return stop
}

// foreign has n clients send a server requests past the gateway until leave is called, each one or, with again, one
// after another. leave returns what has failed until then.
func (t *trial) foreign(ctx context.Context, s server, model string, n, answer int, again bool) (leave func() error) {
	t.prompts++
	p := newProber(target{url: s.url, servers: servers{s}, prompts: t.prompts})
	p.model = model
	ctx, cancel := context.WithCancel(ctx)
	prompts := p.prompts(n, foreignPrompt)
	ended := make(chan error, 1)
	go func() {
		ended <- lab.Try(func() {
			lab.All(n, func(i int) {
				for sends := true; sends && ctx.Err() == nil; sends = again {
					if err := lab.Try(func() { p.send(ctx, prompts[i], answer) }); ctx.Err() == nil {
						lab.Check(err)
					}
				}
			})
		})
	}()
	return sync.OnceValue(func() error {
		cancel()
		defer p.client.Close()
		return <-ended
	})
}

// prompts is how many tokens of prompts were taken in, computed or found in the cache.
func (c counters) prompts() float64 { return c.computed + c.cached }

// intake returns what each server has counted.
func (t *trial) intake(ctx context.Context) (list []counters) {
	for _, s := range t.servers {
		list = append(list, s.scrape(ctx))
	}
	return list
}

// since returns what each server has counted since then.
func (t *trial) since(ctx context.Context, then []counters) []counters {
	list := t.intake(ctx)
	for i := range list {
		list[i] = list[i].minus(then[i])
	}
	return list
}
