package prefix

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
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

type (
	turn       = traffic.Turn
	script     = traffic.Script
	prediction = scripted.Prediction
)

// workload is one kind of traffic and its servers.
type workload struct {
	name    string
	kind    string // the name without the load
	about   string // in words
	servers int
	server  vllmsim.Config // what all servers have in common
	n       int            // scripts
	users   int            // scripts under way at once, a closed loop; 0 = an open loop
	span    time.Duration  // of the open loop: in which all scripts begin, each when it is due
	inTurns bool           // a script continues when all others have had their turn; else as soon as it can
	plain   bool           // the completions API: a prompt is one text; else chats
	warm    int            // first turns of each script that are not in the figures: they fill the caches
	write   func(w *workload, seed uint64) []script

	capacity capacity
}

func (w workload) title() string { return w.name }

// scripts returns the traffic. The same seed gives the same.
func (w *workload) scripts(seed uint64) []script { return w.write(w, seed) }

// path returns where requests go, "" for chats.
func (w *workload) path() string {
	if w.plain {
		return "/v1/completions"
	}
	return ""
}

// workloads returns all that need no trace.
func workloads() []workload {
	list := []workload{
		sessions(), shared(), trees("trees2", 36, 6, 2), trees("trees24", 12, 3, 2, 4), forty(),
		agents("agents16", 16, 1), agents("agents64", 64, 1), agents("agents16x4", 16, 4), agents("agents64x4", 64, 4),
		completions(), slots(),
		behindPrompts("odd7", 67, oddLengths...), behindPrompts("one11k", 67, 2839), behindPrompts("one30k", 67, 7717),
	}
	for i := range list {
		list[i].kind = list[i].name
	}
	return list
}

// usual names those that are played unless -workload names others: all take hours.
const usual = "sessions,shared,trees2,trees24,forty,agents16,completions,trace"

// random returns the source of the texts of a workload.
func random(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, hash(name)))
}

// slower returns the engine with all its times so many times as long.
func slower(c vllmsim.Config, by float64) vllmsim.Config {
	t := &c.Tuning
	for _, ms := range []*float64{&t.PrefillOverheadMS, &t.PrefillTokenMS, &t.DecodeStepMS, &t.DecodeSeqMS} {
		*ms *= by
	}
	return c
}

// agents are conversations behind system prompts with tools, of about so many KiB each. A conversation continues when
// all others had their turn, as those of many users do, so that a cache has it on its return only if it holds all of
// them.
//
// A server has room for its fair part of all conversations, a fifth more, and one of the prompts, or two if there are
// several: what is computed on many servers, or collects on one, displaces what comes back next.
func agents(name string, kib, prompts int) workload {
	const servers, n, turns, question, answer = 4, 200, 5, 153, 61
	prompt := kib<<10/enginesim.BytesPerToken + 21
	tails := n * turns * (question + answer) / servers * 6 / 5
	server := slower(traffic.Engine(12, prompt*min(prompts, 2)+tails), 2.5)
	server.MaxModelLen = 2*prompt + 8<<10
	return workload{
		name: name,
		about: fmt.Sprintf("conversations × %d turns, %d different beginnings of system prompt and tools "+
			"of %d tokens, %d tokens in and %d out each; each goes on when all others had their turn; "+
			"first turns fill the caches and are not in the figures",
			turns, prompts, prompt, question, answer),
		servers: servers, server: server, n: n, users: 37, inTurns: true, warm: 1,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, name)
			begins, tools := beginnings(r, prompts, prompt)
			out := traffic.Conversations(r, w.n, func(i int) []loadgen.Message {
				return begins[i%prompts : i%prompts+1]
			}, turns, question, answer)
			for i := range out {
				out[i].Tools = tools[i%prompts]
			}
			return out
		},
	}
}

// beginnings returns n system prompts and the tools of each, of about so many tokens together.
func beginnings(r *rand.Rand, n, tokens int) ([]loadgen.Message, []json.RawMessage) {
	begins, tools := make([]loadgen.Message, n), make([]json.RawMessage, n)
	for i := range begins {
		begins[i], tools[i] = traffic.System(loadgen.Text(r, tokens/4)), traffic.Tools(r, tokens-tokens/4)
	}
	return begins, tools
}

// completions are conversations as clients of the completions API hold them: a prompt is one text with all turns so
// far, so that no message shows where the common beginning ends, or a turn.
func completions() workload {
	const common, turns, question, answer = 1370, 5, 133, 73
	return workload{
		name: "completions",
		about: fmt.Sprintf("conversations × %d turns in the completions API behind %d tokens that all share, "+
			"%d tokens in and %d out each", turns, common, question, answer),
		servers: 4, server: traffic.Engine(12, 13_000), n: 90, users: 26, plain: true,
		write: func(w *workload, seed uint64) []script {
			r := random(seed, w.kind)
			begin := []loadgen.Message{traffic.System(loadgen.Text(r, common))}
			return traffic.Conversations(r, w.n, func(int) []loadgen.Message { return begin }, turns, question, answer)
		},
	}
}

// fewSlots is a server that runs few requests at once and decodes slowly: what is scarce there is the slots, not the
// time that prompts take.
func fewSlots() vllmsim.Config {
	c := traffic.Engine(8, 19_000)
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 5.3, 0.21
	return c
}

// slots are conversations with long answers on servers of few slots.
func slots() workload {
	const turns, question, answer = 5, 170, 230
	return workload{
		name: "slots",
		about: fmt.Sprintf("conversations × %d turns, %d tokens in and %d out each, on servers with few slots",
			turns, question, answer),
		servers: 8, server: fewSlots(), n: 90, users: 49,
		write: func(w *workload, seed uint64) []script {
			return traffic.Conversations(random(seed, w.kind), w.n, nil, turns, question, answer)
		},
	}
}
