// Package wait waits: for a time or for something to become true, as long as a context lasts, or for several calls.
package wait

import (
	"context"
	"errors"
	"sync"
	"time"
)

// For waits for d, or until ctx ends, and returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Poll calls ready every step until it returns true or an error, or until ctx ends.
func Poll(ctx context.Context, step time.Duration, ready func() (bool, error)) error {
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// All calls f with the numbers below n, each in a goroutine of its own, waits for all and returns their errors.
func All(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = f(i)
		}()
	}
	group.Wait()
	return errors.Join(errs...)
}

// Until calls check, a step after each other, until it returns nil. When ctx ends first it returns the error of ctx and
// the last one of check.
func Until(ctx context.Context, step time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		if ended := For(ctx, step); ended != nil {
			return errors.Join(ended, err)
		}
	}
}
