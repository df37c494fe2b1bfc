package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// waitHeader is the plugin's debug header with the time that a request has waited in a queue.
const waitHeader = "x-warmgate-wait-ms"

// crowd is clients that arrive at the same moment, more than there is room for.
type crowd struct {
	client *loadgen.Client
	done   sync.WaitGroup // requests under way

	mu                   sync.Mutex
	sent, failed, waited int
	first                string // failure
}

func newCrowd(site *audit.Site, timeout time.Duration) *crowd {
	return &crowd{client: loadgen.NewClient(loadgen.Options{
		URL: site.Gateway.URL() + "/v1/chat/completions", Timeout: timeout, KeepHeaders: []string{waitHeader},
	})}
}

// arrive sends n requests at once.
func (c *crowd) arrive(ctx context.Context, n int) {
	for range n {
		c.mu.Lock()
		q := audit.Short(rand.New(rand.NewPCG(0, uint64(c.sent))), c.sent)
		c.sent++
		c.mu.Unlock()
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			c.count(c.client.Do(ctx, &q, time.Now()))
		}()
	}
}

func (c *crowd) count(s loadgen.Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ms := s.Header.Get(waitHeader); ms != "" && ms != "0" {
		c.waited++
	}
	if s.OK() {
		return
	}
	if c.failed++; c.first == "" {
		c.first = fmt.Sprintf("%s: %.200s", s.Error, s.Detail)
	}
}

// end waits for the end of all requests, and returns an error if one has failed.
func (c *crowd) end() error {
	c.done.Wait()
	c.client.Close()
	if c.failed > 0 {
		return fmt.Errorf("%d of %d requests that arrived at once failed, first: %s", c.failed, c.sent, c.first)
	}
	return nil
}
