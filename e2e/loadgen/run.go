package loadgen

import (
	"context"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// OpenLoop plays the requests at their due times and returns one sample for each, in the same order. Requests that are
// not due before ctx ends are ErrNotSent.
func (c *Client) OpenLoop(ctx context.Context, reqs []Request) []Sample {
	out := make([]Sample, len(reqs))
	var wg sync.WaitGroup
	start := time.Now()
	for i := range reqs {
		q := &reqs[i]
		if wait.For(ctx, time.Until(start.Add(q.Due))) != nil {
			out[i] = notSent(q)
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			out[i] = c.Do(ctx, q, start)
		}()
	}
	wg.Wait()
	return out
}

func notSent(q *Request) Sample {
	return Sample{ID: q.ID, Due: q.Due, Error: ErrNotSent, MaxTokens: q.MaxTokens}
}
