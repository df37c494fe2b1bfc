package prefix

import (
	"fmt"
	"math/rand/v2"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// sessions are long conversations without anything in common.
func sessions() workload {
	const turns, question, answer = 5, 200, 800
	return workload{
		name:    "sessions",
		about:   fmt.Sprintf("sessions × %d turns, %d tokens in and %d out each", turns, question, answer),
		servers: 4, server: traffic.Engine(16, 32<<10), n: 60, users: 20,
		write: func(w *workload, seed uint64) []script {
			return traffic.Conversations(random(seed, "sessions"), w.n, nil, turns, question, answer)
		},
	}
}

// shared is traffic of which four in five requests begin with the same system prompt and worked example. The others
// have a system prompt and example of their own, which no other request repeats.
func shared() workload {
	const prompt, other, example, question, answer = 1500, 100, 50, 80, 40
	preamble := func(r *rand.Rand, prompt int) []loadgen.Message {
		return []loadgen.Message{
			traffic.System(loadgen.Text(r, prompt)), traffic.User(loadgen.Text(r, example)),
			traffic.Assistant(loadgen.Text(r, example)),
		}
	}
	return workload{
		name: "shared",
		about: fmt.Sprintf("single requests, 80 %% of them with one system prompt of %d tokens and one example, "+
			"the others with their own of %d; question of %d tokens, answer of %d", prompt, other, question, answer),
		servers: 4, server: traffic.Engine(12, 32<<10), n: 1000, users: 48,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, "shared")
			common := preamble(r, prompt)
			return traffic.Conversations(r, w.n, func(int) []loadgen.Message {
				if r.IntN(5) == 0 {
					return preamble(r, other)
				}
				return common
			}, 1, question, answer)
		},
	}
}

// trees are searches in the manner of Tree of Thoughts: each answer is continued in several ways at once. So many users
// each wait for the end of one tree before the next; the trees take their number of branches from the list in turn.
func trees(name string, n, users int, branches ...int) workload {
	const prompt, problem, step, answer = 300, 150, 24, 100
	return workload{
		name: name,
		about: fmt.Sprintf("trees of thoughts of depth %d with %v branches, one system prompt of %d tokens, "+
			"problem of %d, "+
			"step of %d, answer of %d", traffic.TreeDepth, branches, prompt, problem, step, answer),
		servers: 4, server: traffic.Engine(16, 16<<10), n: n, users: users,
		write: func(w *workload, seed uint64) []script {
			return traffic.Trees(random(seed, name), w.n, prompt, problem, step, answer, branches...)
		},
	}
}

// forty are conversations of which ten each have the same system prompt.
func forty() workload {
	const prompts, prompt, turns, question, answer = 4, 1000, 5, 150, 100
	return workload{
		name: "forty",
		about: fmt.Sprintf("conversations × %d turns over %d system prompts of %d tokens, %d tokens in and %d out each",
			turns, prompts, prompt, question, answer),
		servers: 4, server: traffic.Engine(8, 16<<10), n: 40, users: 10,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, "forty")
			var texts [prompts]string
			for i := range texts {
				texts[i] = loadgen.Text(r, prompt)
			}
			return traffic.Conversations(r, w.n, func(i int) []loadgen.Message {
				return []loadgen.Message{traffic.System(texts[i%prompts])}
			}, turns, question, answer)
		},
	}
}
