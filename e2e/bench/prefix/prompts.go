package prefix

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// oddLengths are of system prompts, in tokens.
var oddLengths = []int{1523, 1811, 2203, 2477, 2903, 3319, 3701}

// longestPause is what users of these workloads take before the next turn at most.
const longestPause = 1400 * time.Millisecond

// behindPrompts are conversations behind one of some system prompts, whose users think between the turns: without
// pauses the server with the fewest requests is the one that has just answered, and has what comes next.
func behindPrompts(name string, users int, prompts ...int) workload {
	const turns, question, answer = 5, 147, 113
	server := traffic.Engine(16, 32<<10)
	server.MaxModelLen = 1 << 14
	return workload{
		name: name,
		about: fmt.Sprintf("conversations × %d turns over system prompts of %v tokens, %d tokens in and %d out each, "+
			"with pauses of up to %v", turns, prompts, question, answer, longestPause),
		servers: 4, server: server, n: 201, users: users,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, name)
			texts := make([]string, len(prompts))
			for i, tokens := range prompts {
				texts[i] = loadgen.Text(r, tokens)
			}
			out := traffic.Conversations(r, w.n, func(i int) []loadgen.Message {
				return []loadgen.Message{traffic.System(texts[i%len(texts)])}
			}, turns, question, answer)
			pause(r, out)
			return out
		},
	}
}

// pause has users think before all turns but the first.
func pause(r *rand.Rand, scripts []script) {
	for i := range scripts {
		for k := range scripts[i].Turns[1:] {
			scripts[i].Turns[k+1].Think = time.Duration(r.Int64N(int64(longestPause)))
		}
	}
}
