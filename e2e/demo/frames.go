package main

import (
	"context"
	"sync"
	"time"

	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/snapshot"
)

// every is the time between two frames.
const every = 500 * time.Millisecond

// playing says what is played, or was last, and since when.
type playing struct {
	note  string
	began time.Time
}

// watch shows frames of all columns, of the first gateway of each, until stop is called. It returns when nothing more
// is shown.
func (d *demo) watch(ctx context.Context) (stop func()) {
	var sources []snapshot.Source
	for _, c := range d.columns {
		sources = append(sources, c.source())
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Add(1)
	go func() {
		defer ended.Done()
		live.Poll(ctx, every, snapshot.NewReader("", sources, nil).Watch, d.frame)
	}()
	return func() {
		cancel()
		ended.Wait()
	}
}

// frame shows a frame.
func (d *demo) frame(f live.Frame) {
	now := time.Now()
	for i, c := range d.columns {
		c.complete(&f.Gateways[i], now)
	}
	p := d.playing.Load()
	if p != nil {
		f.Note = p.note
	}
	d.keepFrame(f)
	if err := d.page.Show(f); err != nil {
		d.screen.line("The page does not show this moment: %v", err)
	}
	if d.drawing.Load() {
		d.screen.draw(&f, now.Sub(p.began))
	}
}

// mostFrames is how many are kept for the record: more than all acts have.
const mostFrames = 2000

func (d *demo) keepFrame(f live.Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.frames) < mostFrames {
		d.frames = append(d.frames, f)
	}
}
