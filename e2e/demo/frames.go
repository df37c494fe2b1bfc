package main

import (
	"context"
	"time"

	"github.com/warmgate/warmgate/internal/live"
)

// every is the time between two frames.
const every = 500 * time.Millisecond

// playing is the act that is played, and since when.
type playing struct {
	*act
	began time.Time
}

// watch takes frames of all columns, and draws them while an act is played, until stop is called.
func (d *demo) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ticks := time.Tick(every); ; {
			select {
			case <-ctx.Done():
				return
			case now := <-ticks:
				d.take(ctx, now)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// take takes a frame.
func (d *demo) take(ctx context.Context, now time.Time) {
	f := &live.Frame{AtMS: now.UnixMilli()}
	for _, c := range d.columns {
		f.Gateways = append(f.Gateways, c.frame(ctx, now, every))
	}
	d.frames = append(d.frames, *f)
	if p := d.playing.Load(); p != nil {
		d.screen.draw(f, now.Sub(p.began))
	}
}
