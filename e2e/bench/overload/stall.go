package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// StallFound is of servers that serve on, but whose /metrics does not answer any more, at twice their capacity.
type StallFound struct {
	Overflow float64 `json:"stall_overflow_max"`       // the most in flight at a server, over its slots
	Stale    float64 `json:"stall_overflow_stale_max"` // the same once the last metrics are stale
	Before   float64 `json:"stall_before_max"`         // the same before the metrics stall
}

func stall(ctx context.Context, b *board, s settings) (f found, err error) {
	before, after := s.spanOf(30*time.Second, 3*time.Second), s.spanOf(22*time.Second, 7*time.Second)
	reqs, err := b.stream("batch", s.seed, 2, before+after, shippedClass, "batch")
	if err := errors.Join(err, b.begin(ctx, usual(s))); err != nil {
		return f, err
	}
	f.StallFound = &StallFound{}
	hang := func(hang bool) {
		for _, srv := range b.Servers {
			t := srv.Tuning()
			t.MetricsHang = hang
			err = errors.Join(err, srv.SetTuning(t))
		}
	}
	defer hang(false)
	for _, step := range []struct {
		at time.Duration
		do func()
	}{
		{before / 2, b.reset}, // what was learned takes a while: nothing is known of the servers at first
		{before, func() {
			f.Before = b.fullest()
			hang(true)
			b.reset()
		}},
		{before + staleAfter + time.Second, func() {
			f.Overflow = b.fullest()
			b.reset()
		}},
		// In the end clients leave, and servers count for a moment longer what they have left behind.
		{before + after - time.Second, func() { f.Stale = b.fullest() }},
	} {
		defer time.AfterFunc(step.at, step.do).Stop()
	}
	samples := b.open(ctx, 0, before+after, reqs)
	f.Overflow = max(f.Overflow, f.Stale)
	fmt.Printf("stall: at most %.2f of the slots in flight, %.2f once metrics are stale, %.2f before; %s\n", f.Overflow,
		f.Stale, f.Before, b.waitsOf("batch", reqs, samples))
	return f, errors.Join(ctx.Err(), err)
}

// staleAfter is the default of lb_config.metrics.stale_after.
const staleAfter = 3 * time.Second

func (b *board) reset() {
	for _, srv := range b.Servers {
		srv.Reset()
	}
}

// fullest returns the most that a server had in flight since the latest reset, over its slots.
func (b *board) fullest() (most float64) {
	for _, srv := range b.Servers {
		most = max(most, float64(srv.State().MaxInflight)/slots)
	}
	return most
}
