package budget

import (
	"context"
	"fmt"
)

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
		name: "proxy", own: true, play: playProxy,
		about: "requests go through the gateway and wait there; half as many again at once as there are slots",
	},
	{
		name: "sleeps", asks: true, play: playSleeps,
		about: fmt.Sprintf("the published service, first iteration, in this process; %d workers that sleep as long as "+
			"it says; mean quantum %d tokens", batchWorkers, publishedQuantum),
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
