package budget

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/warmgate/warmgate/e2e/bench"
)

// How it was before there was anything that places tasks: so many workers, so many tasks in each of their batches.
const batchWorkers, batchSize = 20, 10

// playBatches has each worker send its part of the tasks in batches, each when all answers to the last one are there.
// Tasks go to the models in turn. What a model has refused is sent again when it says, to that model or, with
// elsewhere, to the next one in turn.
func playBatches(elsewhere bool) func(ctx context.Context, s settings, g *game) error {
	return func(ctx context.Context, _ settings, g *game) error {
		var turn atomic.Int64
		next := func() string { return g.servers[int(turn.Add(1)-1)%len(g.servers)].URL }
		parts := slices.Collect(slices.Chunk(g.left, max(1, (len(g.left)+batchWorkers-1)/batchWorkers)))
		return bench.SideBySide(ctx, len(parts), len(parts), func(ctx context.Context, _, k int) error {
			for batch := range slices.Chunk(parts[k], batchSize) {
				if err := g.sendBatch(ctx, batch, next, elsewhere); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// sendBatch returns when all tasks of a batch are answered.
func (g *game) sendBatch(ctx context.Context, batch []int, next func() string, elsewhere bool) error {
	return bench.SideBySide(ctx, len(batch), len(batch), func(ctx context.Context, _, k int) error {
		where := next
		if at := next(); !elsewhere {
			where = func() string { return at }
		}
		return g.callUntil(ctx, batch[k], where)
	})
}
