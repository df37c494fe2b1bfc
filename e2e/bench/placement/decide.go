package placement

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/internal/simulate"
)

// decision is what the plugin's code takes for a request: see decide.
type decision struct{ micros float64 }

// decide measures what a request takes of the plugin's code before 64 engines, in microseconds of CPU time: the plan,
// the choice with its count in the embedded store, and what is learned from the answer. The code is native: in the
// gateway it is WebAssembly, which takes longer, and hashes the prompt's text besides. It is the least of some runs,
// less what they take with a policy that does nothing.
func decide(seed uint64) (*decision, error) {
	const engines, times = 64, 3
	c := chat{
		sessions: 1201, prompts: sevenLengths, turns: around(5), question: around(147), answer: around(113),
		think: 2 * time.Second, users: 6 * engines,
	}
	fleet := simulate.Alike(engines, small(16, 2053))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // garbage collection is counted where it is caused
	least := map[string]float64{}
	for range times {
		for _, name := range []string{"random", "prefix_cache"} {
			of, err := simulate.OfPolicy(name)
			if err != nil {
				return nil, err
			}
			runtime.GC()
			before := used()
			r, err := simulate.Run(c.new(seed), fleet, of, seed, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			took := float64((used() - before).Microseconds()) / float64(r.Requests)
			if before, ok := least[name]; !ok || took < before {
				least[name] = took
			}
		}
	}
	return &decision{least["prefix_cache"] - least["random"]}, nil
}

// used returns the CPU time of the process so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
