package bench

import (
	"context"
	"sync"
)

// SideBySide plays n runs in their order, each in the lane that is free first. It returns the first error, after which
// no run begins, once those under way have ended.
func SideBySide(ctx context.Context, lanes, n int, play func(ctx context.Context, lane, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := take(); i < n && ctx.Err() == nil; i = take() {
				if err := play(ctx, lane, i); err != nil {
					cancel(err)
				}
			}
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}
