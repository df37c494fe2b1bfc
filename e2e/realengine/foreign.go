package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Foreign load: requests that come to a server past the gateway, and are counted by no gateway.
const (
	foreignPrompt = 50   // tokens
	foreignAnswer = 6000 // longer than any wait
	settleTime    = 20 * time.Second
)

// occupy gives a server as many requests of others as it runs at once and as many again, which wait.
func (t *trial) occupy(ctx context.Context, s server) (stop func() error, err error) {
	return t.hold(ctx, s, model, 2*slots)
}

// hold gives a server requests for a model, past the gateway, with answers that do not end. It returns when they run,
// or wait because enough others do, and stop when they are gone.
func (t *trial) hold(ctx context.Context, s server, model string, n int) (stop func() error, err error) {
	t.prompts++
	p := newProber(target{url: s.url, servers: servers{s}, prompts: t.prompts})
	p.model = model
	before, err := s.scrape(ctx)
	if err != nil {
		return nil, err
	}
	leave := p.sendForeign(ctx, n)
	stop = func() error {
		leave()
		return s.awaitIdle(ctx)
	}
	if err := s.awaitBusy(ctx, before, n); err != nil {
		return nil, fmt.Errorf("%w; %w", err, stop())
	}
	return stop, nil
}

// sendForeign sends n requests, which last until leave is called.
func (p *prober) sendForeign(ctx context.Context, n int) (leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range n {
		ids := p.tokens(foreignPrompt)
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, _ = p.send(ctx, ids, foreignAnswer) // they are all broken off
		}()
	}
	return func() {
		cancel()
		wg.Wait()
		p.client.Close()
	}
}

func (s server) awaitIdle(ctx context.Context) error {
	return await(ctx, s.url+" is idle", settleTime, func() (bool, error) {
		c, err := s.scrape(ctx)
		return c.running+c.waiting == 0, err
	})
}

// awaitBusy waits until a server has n requests that were sent after before was read, as far as it has slots with their
// prompts computed.
func (s server) awaitBusy(ctx context.Context, before counters, n int) error {
	runs := float64(min(n, slots))
	return await(ctx, s.url+" is busy", settleTime, func() (bool, error) {
		c, err := s.scrape(ctx)
		return c.running == runs && c.waiting == float64(n)-runs && c.minus(before).prompts() >= runs*foreignPrompt, err
	})
}

// prompts is how many tokens of prompts were taken in, computed or found in the cache.
func (c counters) prompts() float64 { return c.computed + c.cached }

// intake returns what each server has counted.
func (t *trial) intake(ctx context.Context) ([]counters, error) {
	var list []counters
	for _, s := range t.servers {
		c, err := s.scrape(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// since returns what each server has counted since then.
func (t *trial) since(ctx context.Context, then []counters) ([]counters, error) {
	list, err := t.intake(ctx)
	for i := range list {
		list[i] = list[i].minus(then[i])
	}
	return list, err
}
