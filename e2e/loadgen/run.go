package loadgen

import (
	"context"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// OpenLoop plays the requests at their due times and returns one sample for each, in the same order. Requests that are
// not due before ctx ends are ErrNotSent. each, if not nil, is called with every sample as it completes, one call at a
// time.
func (c *Client) OpenLoop(ctx context.Context, reqs []Request, each func(Sample)) []Sample {
	out := make([]Sample, len(reqs))
	collect := serialized(each)
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
			collect(out[i])
		}()
	}
	wg.Wait()
	return out
}

func notSent(q *Request) Sample {
	return Sample{ID: q.ID, Due: q.Due, Error: ErrNotSent, MaxTokens: q.MaxTokens}
}

func serialized(f func(Sample)) func(Sample) {
	if f == nil {
		return func(Sample) {}
	}
	var mu sync.Mutex
	return func(s Sample) {
		mu.Lock()
		defer mu.Unlock()
		f(s)
	}
}
