package main

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
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
	session string          // value of sessionHeader
	due     time.Duration   // beginning, for an open loop
	tools   json.RawMessage // sent with every turn; nil = none
	turns   []turn          // a parent comes before its children
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
	kind    string // the name without the load
	about   string // in words
	servers int
	server  vllmsim.Config // what all servers have in common
	n       int            // scripts
	users   int            // scripts under way at once, a closed loop; 0 = an open loop
	span    time.Duration  // of the open loop: in which all scripts begin, each when it is due
	inTurns bool           // a script goes on when all others have had their turn; else as soon as it can
	plain   bool           // the completions API: a prompt is one text; else chats
	warm    int            // first turns of each script that are not in the figures: they fill the caches
	write   func(w *workload, seed uint64) []script

	capacity capacity
}

func (w workload) title() string { return w.name }

// scripts returns the traffic. The same seed gives the same.
func (w *workload) scripts(seed uint64) []script { return w.write(w, seed) }

// path returns where requests go.
func (w *workload) path() string {
	if w.plain {
		return "/v1/completions"
	}
	return compare.Path
}

// requests returns how many requests the scripts have together.
func requests(scripts []script) int {
	n := 0
	for i := range scripts {
		n += len(scripts[i].turns)
	}
	return n
}

// workloads returns all that need no trace.
func workloads() []workload {
	list := []workload{
		sessions(), shared(), trees("trees2", 36, 6, 2), trees("trees24", 12, 3, 2, 4), forty(),
		agents("agents16", 16, 1), agents("agents64", 64, 1), agents("agents16x4", 16, 4), agents("agents64x4", 64, 4),
		completions(), slots(),
	}
	for i := range list {
		list[i].kind = list[i].name
	}
	return list
}

// usual names those that are played unless -workload names others: all take hours.
const usual = "sessions,shared,trees2,trees24,forty,agents16,completions,trace"

// engine is a server with the given numbers of sequences at once and of cached tokens. Against the simulator's default,
// which has about the speed of a 7B model on one GPU, its prefill takes 4/5 of the time and its decode step 1/14:
// decoding is what makes a run long, and the time to the first token must stay well above what this machine itself
// adds.
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

// around returns n on average, at least half of it and at most as much again. Without it users whose answers are all of
// the same length keep in step, and the server that is least busy is always the one that has just answered.
func around(r *rand.Rand, n int) int { return n - n/2 + r.IntN(2*(n/2)+1) }

// longestThought is the longest time that a user of a conversation takes before the next turn.
const longestThought = 100 * time.Millisecond

// conversation returns the turns of a conversation that begins with the given messages. The tokens of questions and
// answers are averages.
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
