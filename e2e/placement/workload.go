package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Turn is one request of a script.
type Turn struct {
	Parent int           // index of the turn whose conversation this one continues; -1 = it begins one
	Think  time.Duration // from the answer of the parent to this request
	Answer int           // tokens

	seed   uint64 // of the answer
	add    []loadgen.Message
	prompt []byte         // as the engine sees it
	chain  []uint64       // names of the engine's blocks
	blocks []prompt.Block // as the gateway sees them
	length int            // of the prompt, in the unit of the blocks' ends
}

// Script is what one user does: the branches of a tree run side by side.
type Script struct {
	Session string
	Due     time.Duration // beginning, for an open loop
	Turns   []Turn        // a parent comes before its children
}

// Workload is one kind of traffic and the servers that it meets.
type Workload struct {
	Name    string
	Servers int
	Server  vllmsim.Config
	Full    int  // scripts under way at once that fill the servers, a closed loop; 0 = an open loop
	Paced   bool // an open loop whose own pace is just served
	Rotate  bool // a user goes on with the script that has waited for longest after each turn
	Scripts func(seed uint64) []Script
}

// Engine is a server with the given numbers of sequences at once and of cached tokens, as make bench-prefix has it.
func Engine(sequences, cachedTokens int) vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.MaxNumSeqs, c.MaxQueued = sequences, -1
	c.NumBlocks = cachedTokens / c.BlockSize
	c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS = 2, 0.04
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 0.65, 0.04
	return c
}

// blockBytes is the plugin's default length of the first blocks.
const blockBytes = 512

// prepare computes what engines and gateways see of the prompts.
func prepare(scripts []Script, c vllmsim.Config) {
	v := vllmsim.NewVirtual(c)
	chainer := prompt.NewChainer([16]byte{1}, blockBytes)
	for s := range scripts {
		turns := scripts[s].Turns
		histories := make([][]loadgen.Message, len(turns))
		for i := range turns {
			t := &turns[i]
			if t.Parent >= 0 {
				p := &turns[t.Parent]
				answer := loadgen.Message{Role: "assistant", Content: vllmsim.AnswerOf(p.seed, p.Answer)}
				histories[i] = append(slices.Clone(histories[t.Parent]), answer)
			}
			histories[i] = append(histories[i], t.add...)
			t.seed = xxhash.Sum64String(scripts[s].Session + " " + strconv.Itoa(i))
			t.see(histories[i], chainer, v)
		}
	}
}

func (t *Turn) see(messages []loadgen.Message, chainer *prompt.Chainer, v *vllmsim.Virtual) {
	body, err := loadgen.ConversationBody("sim", messages, t.Answer, true)
	if err != nil {
		panic(err) // texts always marshal
	}
	if t.prompt, err = vllmsim.PromptOf(body); err != nil {
		panic(err)
	}
	_, parts, err := prompt.Read(body, true)
	if err != nil {
		panic(err)
	}
	t.blocks, t.length = chainer.Chain(body, &parts)
	t.blocks = slices.Clone(t.blocks)
	t.chain = v.ChainOf(t.prompt)
}

func user(text string) loadgen.Message   { return loadgen.Message{Role: "user", Content: text} }
func system(text string) loadgen.Message { return loadgen.Message{Role: "system", Content: text} }

// around returns n on average, at least half of it and at most as much again.
func around(r *rand.Rand, n int) int { return n - n/2 + r.IntN(2*(n/2)+1) }

// conversation returns the turns of a conversation that begins with the given messages.
func conversation(r *rand.Rand, begin []loadgen.Message, turns, question, answer int) []Turn {
	const longestThought = 100 * time.Millisecond
	out := make([]Turn, turns)
	for i := range out {
		add := []loadgen.Message{user(loadgen.Text(r, around(r, question)))}
		out[i] = Turn{Parent: i - 1, add: add, Answer: around(r, answer)}
		if i > 0 {
			out[i].Think = time.Duration(r.Int64N(int64(longestThought)))
		}
	}
	out[0].add = append(slices.Clone(begin), out[0].add...)
	return out
}

// conversations are n of them over so many system prompts, of which each conversation has one in turn.
func conversations(seed uint64, n, prompts, prompt, turns, question, answer int) []Script {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	texts := make([]string, prompts)
	for i := range texts {
		texts[i] = loadgen.Text(r, prompt)
	}
	out := make([]Script, n)
	for i := range out {
		var begin []loadgen.Message
		if prompts > 0 {
			begin = append(begin, system(texts[i%prompts]))
		}
		out[i] = Script{Session: strconv.Itoa(i), Turns: conversation(r, begin, turns, question, answer)}
	}
	return out
}

// Workloads returns all that need no file. Those with a name that make bench-prefix has, too, are like the ones there,
// with other numbers of users and other sizes of prompts and caches.
func Workloads() []Workload {
	return []Workload{
		{Name: "sessions", Servers: 4, Server: Engine(16, 32<<10), Full: 40, Scripts: func(seed uint64) []Script {
			return conversations(seed, 60, 0, 0, 5, 200, 800)
		}},
		{Name: "shared", Servers: 4, Server: Engine(12, 32<<10), Full: 48, Scripts: shared},
		{Name: "trees2", Servers: 4, Server: Engine(16, 16<<10), Full: 8, Scripts: func(seed uint64) []Script {
			return trees(seed, 36, 2)
		}},
		{Name: "trees24", Servers: 4, Server: Engine(16, 16<<10), Full: 2, Scripts: func(seed uint64) []Script {
			return trees(seed, 12, 2, 4)
		}},
		{Name: "forty", Servers: 4, Server: Engine(8, 16<<10), Full: 32, Scripts: func(seed uint64) []Script {
			return conversations(seed, 40, 4, 1000, 5, 150, 100)
		}},
		agents(16, 1), agents(16, 4), agents(64, 1), agents(64, 4),
		slots(), poisson(), single(), lone(),
	}
}

// agents are conversations behind long system prompts, of so many KiB, whose turns come back after all others had
// theirs.
func agents(kib, prompts int) Workload {
	return Workload{
		Name: fmt.Sprintf("agents%d×%d", kib, prompts), Servers: 4,
		Server: Engine(16, 64<<10+kib*256*prompts), Full: 48, Rotate: true,
		Scripts: func(seed uint64) []Script { return conversations(seed, 200, prompts, kib*256, 5, 150, 60) },
	}
}

// slots are conversations with servers that decode slowly, and do so for few requests at once.
func slots() Workload {
	c := Engine(8, 64<<10)
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 6, 0.3
	return Workload{Name: "slots", Servers: 8, Server: c, Full: 64, Scripts: func(seed uint64) []Script {
		return conversations(seed, 160, 0, 0, 5, 300, 150)
	}}
}

// poisson are conversations of long questions and short answers that begin at random, an open loop.
func poisson() Workload {
	const perSecond = 130
	w := Workload{Name: "poisson", Servers: 8, Server: Engine(16, 32<<10), Paced: true}
	w.Scripts = func(seed uint64) []Script {
		out := conversations(seed, 600, 0, 0, 4, 300, 12)
		r, due := rand.New(rand.NewPCG(seed, 7)), 0.0
		for i := range out {
			out[i].Due = time.Duration(due * float64(time.Second))
			due += r.ExpFloat64() / perSecond
		}
		return out
	}
	return w
}

// single are conversations with one system prompt, of which one turn is sent at a time.
func single() Workload {
	w := Workload{Name: "single", Servers: 4, Server: Engine(16, 16<<10), Full: 1, Rotate: true}
	w.Scripts = func(seed uint64) []Script { return conversations(seed, 40, 1, 1000, 5, 150, 60) }
	return w
}

// lone is one conversation, which nobody else disturbs.
func lone() Workload {
	return Workload{Name: "lone", Servers: 4, Server: Engine(16, 32<<10), Full: 1, Scripts: func(seed uint64) []Script {
		return conversations(seed, 1, 1, 1000, 60, 150, 60)
	}}
}

// shared is traffic of which four in five requests begin with the same system prompt.
func shared(seed uint64) []Script {
	const n, prompt, other = 1000, 1600, 200
	r := rand.New(rand.NewPCG(seed, 2))
	common := loadgen.Text(r, prompt)
	out := make([]Script, n)
	for i := range out {
		text := common
		if r.IntN(5) == 0 {
			text = loadgen.Text(r, other)
		}
		begin := []loadgen.Message{system(text)}
		out[i] = Script{Session: strconv.Itoa(i), Turns: conversation(r, begin, 1, 80, 40)}
	}
	return out
}

// trees are searches in the manner of Tree of Thoughts: each answer is continued in several ways at once. They take
// their number of branches from the list in turn.
func trees(seed uint64, n int, branches ...int) []Script {
	const prompt, problem, step, answer, depth = 300, 150, 24, 100, 4
	r := rand.New(rand.NewPCG(seed, 3))
	begin := system(loadgen.Text(r, prompt))
	out := make([]Script, n)
	for i := range out {
		root := []loadgen.Message{begin, user(loadgen.Text(r, around(r, problem)))}
		turns := []Turn{{Parent: -1, add: root, Answer: around(r, answer)}}
		for level, first := 1, 0; level < depth; level++ {
			last := len(turns)
			for parent := first; parent < last; parent++ {
				for range branches[i%len(branches)] {
					add := []loadgen.Message{user(loadgen.Text(r, around(r, step)))}
					turns = append(turns, Turn{Parent: parent, add: add, Answer: around(r, answer)})
				}
			}
			first = last
		}
		out[i] = Script{Session: strconv.Itoa(i), Turns: turns}
	}
	return out
}
