package overload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// stall is of servers that serve on, but whose /metrics does not answer any more, at twice their capacity: the most in
// flight at a server, over its slots, then, once the last metrics are stale, and before.
func stall(ctx context.Context, b *board, s settings) (f bench.Line, err error) {
	before, after := s.spanOf(30*time.Second, 3*time.Second), s.spanOf(22*time.Second, 7*time.Second)
	reqs, err := b.stream("batch", s.Seed, 2, before+after, shippedClass, "batch")
	if err := errors.Join(err, b.begin(ctx, usual(s))); err != nil {
		return f, err
	}
	var overflow, stale, fullBefore float64
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
			fullBefore = b.fullest()
			hang(true)
			b.reset()
		}},
		{before + staleAfter + time.Second, func() {
			overflow = b.fullest()
			b.reset()
		}},
		// In the end clients leave, and servers count for a moment longer what they have left behind.
		{before + after - time.Second, func() { stale = b.fullest() }},
	} {
		defer time.AfterFunc(step.at, step.do).Stop()
	}
	samples := b.open(ctx, 0, before+after, reqs)
	overflow = max(overflow, stale)
	fmt.Printf("stall: at most %.2f of the slots in flight, %.2f once metrics are stale, %.2f before; %s\n", overflow,
		stale, fullBefore, b.waitsOf("batch", reqs, samples))
	return bench.Line{
		"stall_overflow_max": overflow, "stall_overflow_stale_max": stale, "stall_before_max": fullBefore,
	}, errors.Join(ctx.Err(), err)
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
