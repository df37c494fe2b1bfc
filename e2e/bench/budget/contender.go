package budget

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	bench.Settings
	tasks      int
	quick      bool
	ttl        time.Duration
	contenders string
	parts      string
}

// contender is one way to have the tasks done.
type contender struct {
	name  string
	about string
	own   bool // Warmgate places the tasks
	asks  bool // workers ask before they send
	play  func(ctx context.Context, s settings, g *game) error
}

func nameOf(c contender) string { return c.name }

// Names of the contenders that figures are compared with.
const (
	batchesName = "batches"
	apiName     = "api"
	killedName  = "api killed"
	crowdName   = "api crowd"
	keylessName = "api crowd keyless"
)

// crowd is how many workers there are for 71 slots where nobody follows the advice. With as few calls in a tick as
// else, there are more than twice the mean in some by chance alone.
const crowd = 307

var contenders = []contender{
	{
		name: apiName, own: true, asks: true, play: callersOf{}.play(),
		about: "the admission API of a gateway with its own store; as many workers as it advises, 25 % more of them " +
			"every 100 ms at most",
	},
	{
		name: killedName, own: true, asks: true, play: callersOf{kill: true}.play(),
		about: "the same; a third of the workers is killed twice",
	},
	{
		name: "api with Redis", own: true, asks: true, play: callersOf{redis: true}.play(),
		about: "the admission API of a gateway with the store in Redis",
	},
	{
		name: crowdName, own: true, asks: true, play: callersOf{crowd: crowd}.play(),
		about: fmt.Sprintf("the same as api with %d workers, whatever is advised: most of them wait", crowd),
	},
	{
		name: keylessName, own: true, asks: true, play: callersOf{crowd: crowd, keyless: true}.play(),
		about: "the same without idempotency keys: nobody is remembered",
	},
	{
		name: "proxy", own: true, play: playProxy,
		about: "requests go through the gateway and wait there; half as many again at once as there are slots",
	},
	{
		name: "sleeps", asks: true, play: playPublished(false),
		about: fmt.Sprintf("the published service, first iteration, in this process; %d workers that sleep as long as "+
			"it says; mean quantum %d tokens", batchWorkers, publishedQuantum),
	},
	{
		name: "sleeps advised", asks: true, play: playPublished(true),
		about: "its second iteration: waits with a jitter of 10 % that end with a tick of 100 ms, deficits that grow " +
			"with the time since a model was served, and as many workers as it advises",
	},
	{
		name: batchesName, play: playBatches(false),
		about: fmt.Sprintf("%d workers, each with its part of the tasks in batches of %d; models in turn; what is "+
			"refused goes to the same model again when it says", batchWorkers, batchSize),
	},
	{
		name: "batches elsewhere", play: playBatches(true),
		about: "the same; what is refused goes to the next model in turn, when the one before has said",
	},
}

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
