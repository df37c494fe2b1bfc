package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// turn is one request of a script.
type turn struct {
	parent int               // index of the turn whose conversation this one continues; -1 = it begins one
	add    []loadgen.Message // what it adds to that conversation and to its answer
	answer int               // tokens asked for
	think  time.Duration     // from the answer of the parent to this request
}

// script is what one user does. A turn is sent when the answer of its parent is complete, so that the turns of a
// conversation follow each other and the branches of a tree run side by side.
type script struct {
	session string        // value of sessionHeader
	due     time.Duration // beginning, for an open loop
	turns   []turn        // a parent comes before its children
}

// children returns the turns that follow turn i.
func (s *script) children(i int) []int {
	var out []int
	for k := i + 1; k < len(s.turns); k++ {
		if s.turns[k].parent == i {
			out = append(out, k)
		}
	}
	return out
}

// workload is one kind of traffic and the servers that it meets.
type workload struct {
	name    string
	about   string // in words
	servers int
	server  vllmsim.Config // what all servers have in common
	users   int            // scripts under way at once, a closed loop; 0 = each begins when it is due, an open loop
	scripts func(seed uint64) []script
}

// requests returns how many requests the scripts have together.
func requests(scripts []script) int {
	n := 0
	for i := range scripts {
		n += len(scripts[i].turns)
	}
	return n
}

// workloads returns all that need no file.
func workloads() []workload {
	return []workload{sessions(), shared(), trees("trees2", 36, 6, 2), trees("trees24", 12, 3, 2, 4), forty()}
}

// engine is a server with the given numbers of sequences at once and of cached tokens. Against the simulator's default, which
// has about the speed of a 7B model on one GPU, its prefill takes 4/5 of the time and its decode step 1/14: decoding is what
// makes a run long, and the time to the first token must stay well above what this machine itself adds.
func engine(sequences, cachedTokens int) vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = sequences, -1
	c.NumBlocks = cachedTokens / c.BlockSize
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS = 2, 0.04
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 0.65, 0.04
	return c
}

// random returns the source of the texts of a workload.
func random(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(name)))
}

func user(text string) loadgen.Message   { return loadgen.Message{Role: "user", Content: text} }
func system(text string) loadgen.Message { return loadgen.Message{Role: "system", Content: text} }

func assistant(text string) loadgen.Message { return loadgen.Message{Role: "assistant", Content: text} }

// around returns n on average, at least half of it and at most as much again. Without it users whose answers are all of the
// same length keep in step, and the server that is least busy is always the one that a user has just heard from.
func around(r *rand.Rand, n int) int { return n - n/2 + r.IntN(2*(n/2)+1) }

// longestThought is the longest time that a user of a conversation takes before the next turn.
const longestThought = 100 * time.Millisecond

// conversation returns the turns of a conversation that begins with the given messages. The tokens of questions and answers
// are averages.
func conversation(r *rand.Rand, begin []loadgen.Message, turns, question, answer int) []turn {
	out := make([]turn, turns)
	for i := range out {
		out[i] = turn{parent: i - 1, add: []loadgen.Message{user(loadgen.Text(r, around(r, question)))}, answer: around(r, answer)}
		if i > 0 {
			out[i].think = time.Duration(r.Int64N(int64(longestThought)))
		}
	}
	out[0].add = append(begin, out[0].add...)
	return out
}

// sessions are long conversations without anything in common.
func sessions() workload {
	const n, turns, question, answer = 60, 5, 200, 800
	return workload{
		name:    "sessions",
		about:   fmt.Sprintf("%d sessions × %d turns, %d tokens in and %d out each, 20 at once", n, turns, question, answer),
		servers: 4, server: engine(16, 32<<10), users: 20,
		scripts: func(seed uint64) []script {
			r := random(seed, "sessions")
			out := make([]script, n)
			for i := range out {
				out[i] = script{session: strconv.Itoa(i), turns: conversation(r, nil, turns, question, answer)}
			}
			return out
		},
	}
}

// shared is traffic of which four in five requests begin with the same system prompt and worked example. The others have a
// system prompt and example of their own, which nobody repeats.
func shared() workload {
	const n, prompt, other, example, question, answer = 1000, 1500, 100, 50, 80, 40
	preamble := func(r *rand.Rand, prompt int) []loadgen.Message {
		return []loadgen.Message{
			system(loadgen.Text(r, prompt)), user(loadgen.Text(r, example)), assistant(loadgen.Text(r, example)),
		}
	}
	return workload{
		name: "shared",
		about: fmt.Sprintf("%d single requests, 80 %% of them with one system prompt of %d tokens and one example, the others with their own of %d; "+
			"question of %d tokens, answer of %d, 48 at once", n, prompt, other, question, answer),
		servers: 4, server: engine(12, 32<<10), users: 48,
		scripts: func(seed uint64) []script {
			r := random(seed, "shared")
			common := preamble(r, prompt)
			out := make([]script, n)
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

// trees are searches in the manner of Tree of Thoughts: each answer is continued in several ways at once. So many users each
// wait for the end of one tree before the next; the trees take their number of branches from the list in turn.
func trees(name string, n, users int, branches ...int) workload {
	const prompt, problem, step, answer = 300, 150, 24, 100
	return workload{
		name: name,
		about: fmt.Sprintf("%d trees of thoughts of depth %d with %v branches, one system prompt of %d tokens, problem of %d, "+
			"step of %d, answer of %d, %d trees at once", n, treeDepth, branches, prompt, problem, step, answer, users),
		servers: 4, server: engine(16, 16<<10), users: users,
		scripts: func(seed uint64) []script {
			r := random(seed, name)
			begin := system(loadgen.Text(r, prompt))
			out := make([]script, n)
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
	const n, prompts, prompt, turns, question, answer = 40, 4, 1000, 5, 150, 100
	return workload{
		name: "forty",
		about: fmt.Sprintf("%d conversations × %d turns over %d system prompts of %d tokens, %d tokens in and %d out each, 10 at once",
			n, turns, prompts, prompt, question, answer),
		servers: 4, server: engine(8, 16<<10), users: 10,
		scripts: func(seed uint64) []script {
			r := random(seed, "forty")
			var texts [prompts]string
			for i := range texts {
				texts[i] = loadgen.Text(r, prompt)
			}
			out := make([]script, n)
			for i := range out {
				begin := []loadgen.Message{system(texts[i%prompts])}
				out[i] = script{session: strconv.Itoa(i), turns: conversation(r, begin, turns, question, answer)}
			}
			return out
		},
	}
}
