// Package traffic writes what the users of a benchmark send: conversations, trees and replays of traces.
package traffic

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Turn is one request of a script.
type Turn struct {
	Parent int               // index of the turn whose conversation this one continues; -1 = it begins one
	Add    []loadgen.Message // what it adds to that conversation and to its answer
	Answer int               // tokens of its answer
	Think  time.Duration     // from the answer of the parent to this request
}

// Script is what one user does. A turn is sent when the answer of its parent is complete, so that the turns of a
// conversation follow each other and the branches of a tree run side by side.
type Script struct {
	Session string
	Due     time.Duration   // beginning, for an open loop
	Tools   json.RawMessage // sent with every turn; nil = none
	Turns   []Turn          // a parent comes before its children
}

// Children returns the turns that follow turn i.
func (s *Script) Children(i int) []int {
	var out []int
	for k := i + 1; k < len(s.Turns); k++ {
		if s.Turns[k].Parent == i {
			out = append(out, k)
		}
	}
	return out
}

// Depth returns the number of turns that follow each other at most.
func (s *Script) Depth() int {
	deepest := 0
	depth := make([]int, len(s.Turns))
	for i, t := range s.Turns {
		depth[i] = 1
		if t.Parent >= 0 {
			depth[i] += depth[t.Parent]
		}
		deepest = max(deepest, depth[i])
	}
	return deepest
}

// Longest returns about how many tokens the longest conversation in it becomes, in a simulated server.
func (s *Script) Longest() int {
	held := make([]int, len(s.Turns))
	longest := 0
	for i, t := range s.Turns {
		for _, m := range t.Add {
			held[i] += len(m.Content)/4 + 8 // and what the template adds
		}
		held[i] += t.Answer
		if t.Parent >= 0 {
			held[i] += held[t.Parent]
		}
		longest = max(longest, held[i])
	}
	return longest
}

// Engine is a server with the given numbers of sequences at once and of cached tokens. Against the simulator's default,
// which has about the speed of a 7B model on one GPU, its prefill takes 4/5 of the time and its decode step 1/14:
// decoding is what makes a run long, and the time to the first token must stay well above what this machine itself
// adds.
func Engine(sequences, cachedTokens int) vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = sequences, -1
	c.NumBlocks = cachedTokens / c.BlockSize
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS = 2, 0.04
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 0.65, 0.04
	return c
}

// User is a message of the user.
func User(text string) loadgen.Message { return loadgen.Message{Role: "user", Content: text} }

// System is a system prompt.
func System(text string) loadgen.Message { return loadgen.Message{Role: "system", Content: text} }

// Assistant is an answer of the model.
func Assistant(text string) loadgen.Message { return loadgen.Message{Role: "assistant", Content: text} }

// Around returns n on average, at least half of it and at most as much again. Without it users whose answers are all of
// the same length keep in step, and the server that is least busy is always the one that has just answered.
func Around(r *rand.Rand, n int) int { return n - n/2 + r.IntN(2*(n/2)+1) }

// LongestThought is the longest time that a user of a conversation takes before the next turn.
const LongestThought = 100 * time.Millisecond

// Conversations returns n of them. The tokens of questions and answers are averages. begin returns the messages that
// conversation i begins with; nil = none.
func Conversations(
	r *rand.Rand, n int, begin func(i int) []loadgen.Message, turns, question, answer int,
) []Script {
	out := make([]Script, n)
	for i := range out {
		var first []loadgen.Message
		if begin != nil {
			first = begin(i)
		}
		out[i] = Script{Session: strconv.Itoa(i), Turns: Conversation(r, first, turns, question, answer)}
	}
	return out
}

// Conversation returns the turns of a conversation that begins with the given messages.
func Conversation(r *rand.Rand, begin []loadgen.Message, turns, question, answer int) []Turn {
	out := make([]Turn, turns)
	for i := range out {
		add := []loadgen.Message{User(loadgen.Text(r, Around(r, question)))}
		out[i] = Turn{Parent: i - 1, Add: add, Answer: Around(r, answer)}
		if i > 0 {
			out[i].Think = time.Duration(r.Int64N(int64(LongestThought)))
		}
	}
	out[0].Add = append(slices.Clone(begin), out[0].Add...)
	return out
}

// TreeDepth is the number of levels of a tree, the root included.
const TreeDepth = 4

// Trees returns n searches in the manner of Tree of Thoughts: each answer is continued in several ways at once, which
// differ in a step. All begin with one system prompt; they take their number of branches from the list in turn.
func Trees(r *rand.Rand, n, prompt, problem, step, answer int, branches ...int) []Script {
	begin := System(loadgen.Text(r, prompt))
	out := make([]Script, n)
	for i := range out {
		root := []loadgen.Message{begin, User(loadgen.Text(r, Around(r, problem)))}
		turns := []Turn{{Parent: -1, Add: root, Answer: Around(r, answer)}}
		for level, first := 1, 0; level < TreeDepth; level++ {
			last := len(turns)
			for parent := first; parent < last; parent++ {
				for range branches[i%len(branches)] {
					add := []loadgen.Message{User(loadgen.Text(r, Around(r, step)))}
					turns = append(turns, Turn{Parent: parent, Add: add, Answer: Around(r, answer)})
				}
			}
			first = last
		}
		out[i] = Script{Session: strconv.Itoa(i), Turns: turns}
	}
	return out
}

// Redraw replaces the lengths of all answers by numbers that are drawn from the distributions, in turn: each for so
// many scripts.
func Redraw(r *rand.Rand, scripts []Script, each int, from ...loadgen.Lengths) {
	for i := range scripts {
		drawn := from[i/each%len(from)]
		for k := range scripts[i].Turns {
			scripts[i].Turns[k].Answer = drawn.Draw(r)
		}
	}
}

// TraceScale is how many tokens of a trace become one when it is replayed. So a block of the trace becomes 16 tokens,
// which is a block of the simulated cache, and all lengths shrink with it.
const TraceScale = 32

// bytesPerToken is how long a token of [loadgen.Text] is.
const bytesPerToken = 4

// textOf returns the text of a prompt of a trace, with so many tokens as one: that of each block follows from its id
// and the seed.
func textOf(t *mooncake.Request, seed uint64, scale int) string {
	var b strings.Builder
	for _, id := range t.HashIDs {
		b.WriteString(loadgen.Text(rand.New(rand.NewPCG(seed, uint64(id))), mooncake.Block/scale))
	}
	return b.String()[:max(1, t.Input/scale)*bytesPerToken]
}

// Replay returns a script for each request of a trace, with so many tokens of its answers as one. Its own pace is that
// of the trace.
func Replay(trace []mooncake.Request, seed uint64, answers int) []Script {
	out := make([]Script, len(trace))
	for i := range trace {
		t := &trace[i]
		add := []loadgen.Message{User(textOf(t, seed, TraceScale))}
		out[i] = Script{
			Session: t.Session(i), Due: time.Duration(t.Timestamp-trace[0].Timestamp) * time.Millisecond,
			Turns: []Turn{{Parent: -1, Add: add, Answer: max(1, t.Output/answers)}},
		}
	}
	return out
}

// Sessions returns the sessions of a trace in the order of their beginning, each a conversation whose next question
// follows the answer, with so many tokens as one. A request that is no longer than the one before it begins another
// conversation, and those of more than longest tokens are left out.
func Sessions(trace []mooncake.Request, seed uint64, scale, longest int) []Script {
	var out []Script
	last := map[string]*sessionEnd{}
	for i := range trace {
		t := &trace[i]
		if (t.Input+t.Output)/scale > longest {
			continue
		}
		name, text := t.Session(i), textOf(t, seed, scale)
		turn := Turn{Parent: -1, Answer: max(1, t.Output/scale)}
		end := last[name]
		if end == nil || len(text) <= end.held {
			out = append(out, Script{Session: strconv.Itoa(i)})
			end = &sessionEnd{script: len(out) - 1}
			last[name] = end
		} else {
			turn.Parent, text = len(out[end.script].Turns)-1, text[end.held:]
		}
		turn.Add = []loadgen.Message{User(text)}
		out[end.script].Turns = append(out[end.script].Turns, turn)
		end.held += len(text) + turn.Answer*bytesPerToken
	}
	return out
}

// sessionEnd is how far a conversation of a trace has come: bytes that its last prompt and the answer to it have.
type sessionEnd struct{ script, held int }
