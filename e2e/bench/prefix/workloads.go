package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// sessions are long conversations without anything in common.
func sessions() workload {
	const turns, question, answer = 5, 200, 800
	return workload{
		name:    "sessions",
		about:   fmt.Sprintf("sessions × %d turns, %d tokens in and %d out each", turns, question, answer),
		servers: 4, server: engine(16, 32<<10), n: 60, users: 20,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, "sessions")
			out := make([]script, w.n)
			for i := range out {
				out[i] = script{session: strconv.Itoa(i), turns: conversation(r, nil, turns, question, answer)}
			}
			return out
		},
	}
}

// shared is traffic of which four in five requests begin with the same system prompt and worked example. The others
// have a system prompt and example of their own, which nobody repeats.
func shared() workload {
	const prompt, other, example, question, answer = 1500, 100, 50, 80, 40
	preamble := func(r *rand.Rand, prompt int) []loadgen.Message {
		return []loadgen.Message{
			system(loadgen.Text(r, prompt)), user(loadgen.Text(r, example)), assistant(loadgen.Text(r, example)),
		}
	}
	return workload{
		name: "shared",
		about: fmt.Sprintf("single requests, 80 %% of them with one system prompt of %d tokens and one example, "+
			"the others with their own of %d; question of %d tokens, answer of %d", prompt, other, question, answer),
		servers: 4, server: engine(12, 32<<10), n: 1000, users: 48,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, "shared")
			common := preamble(r, prompt)
			out := make([]script, w.n)
			for i := range out {
				begin := common
				if r.IntN(5) == 0 {
					begin = preamble(r, other)
				}
				out[i] = script{session: strconv.Itoa(i), turns: conversation(r, begin[:len(begin):len(begin)], 1, question, answer)}
			}
			return out
		},
	}
}

// treeDepth counts the levels of a tree, the root included.
const treeDepth = 4

// trees are searches in the manner of Tree of Thoughts: each answer is continued in several ways at once. So many users
// each wait for the end of one tree before the next; the trees take their number of branches from the list in turn.
func trees(name string, n, users int, branches ...int) workload {
	const prompt, problem, step, answer = 300, 150, 24, 100
	return workload{
		name: name,
		about: fmt.Sprintf("trees of thoughts of depth %d with %v branches, one system prompt of %d tokens, problem of %d, "+
			"step of %d, answer of %d", treeDepth, branches, prompt, problem, step, answer),
		servers: 4, server: engine(16, 16<<10), n: n, users: users,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, name)
			begin := system(loadgen.Text(r, prompt))
			out := make([]script, w.n)
			for i := range out {
				turns := tree(r, branches[i%len(branches)], step, answer)
				turns[0].add = []loadgen.Message{begin, user(loadgen.Text(r, around(r, problem)))}
				out[i] = script{session: strconv.Itoa(i), turns: turns}
			}
			return out
		},
	}
}

// tree returns a complete tree, level by level, whose branches differ in a step of so many tokens.
func tree(r *rand.Rand, branches, step, answer int) []turn {
	out := []turn{{parent: -1, answer: around(r, answer)}}
	for level, first := 1, 0; level < treeDepth; level++ {
		last := len(out)
		for parent := first; parent < last; parent++ {
			for range branches {
				out = append(out, turn{
					parent: parent, add: []loadgen.Message{user(loadgen.Text(r, around(r, step)))}, answer: around(r, answer),
				})
			}
		}
		first = last
	}
	return out
}

// forty are conversations of which ten each have the same system prompt.
func forty() workload {
	const prompts, prompt, turns, question, answer = 4, 1000, 5, 150, 100
	return workload{
		name: "forty",
		about: fmt.Sprintf("conversations × %d turns over %d system prompts of %d tokens, %d tokens in and %d out each",
			turns, prompts, prompt, question, answer),
		servers: 4, server: engine(8, 16<<10), n: 40, users: 10,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, "forty")
			var texts [prompts]string
			for i := range texts {
				texts[i] = loadgen.Text(r, prompt)
			}
			out := make([]script, w.n)
			for i := range out {
				begin := []loadgen.Message{system(texts[i%prompts])}
				out[i] = script{session: strconv.Itoa(i), turns: conversation(r, begin, turns, question, answer)}
			}
			return out
		},
	}
}
