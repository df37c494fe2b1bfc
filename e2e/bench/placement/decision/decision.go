// Package decision measures what the plugin's code takes for a request, natively and as WebAssembly.
package decision

import (
	"fmt"
	"runtime"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
)

// Engines is how many engines there are.
const Engines = 64

// Measure returns what a request takes of the plugin's code, in microseconds by the clock: the plan, the choice with
// its count in the embedded store, what is amended and released, and what is learned from the answer; and if metrics
// are read, the pages of all engines, each second. Conversations of which most have their prompts cached are played in
// simulated time, by prefix_cache and by a policy that does nothing; the difference is what counts.
func Measure(seed uint64, metrics bool, clock func() time.Duration) (float64, error) {
	load := simulate.Sessions{
		Users: 6 * Engines, Requests: 6000, Prompts: 7, System: 2503, Turns: 5, Question: 147, Answer: 113,
		Think: 2 * time.Second,
	}
	fleet := simulate.Alike(Engines, simulate.Engine{
		Config: enginesim.Config{
			MaxNumSeqs: 16, MaxQueued: -1, NumBlocks: 2053, MaxModelLen: 1 << 17,
		}.WithDefaults(),
		Times: enginesim.DefaultTimes(),
	})
	took := func(name string) (float64, error) {
		of, err := simulate.OfPolicy(name)
		if err != nil {
			return 0, err
		}
		of.NoMetrics = !metrics
		runtime.GC()
		before := clock()
		r, err := simulate.Run(load.New(seed), fleet, of, seed, nil)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return float64(clock()-before) / float64(time.Microsecond) / float64(r.Requests), nil
	}
	idle, err := took("random")
	if err != nil {
		return 0, err
	}
	all, err := took("prefix_cache")
	return all - idle, err
}
