package prefix

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

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
	prompt := kib<<10/bytesPerToken + 21
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
