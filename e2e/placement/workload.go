package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/lb/prompt"
)

// Turn is one request of a script, with what engines and gateways see of it.
type Turn struct {
	traffic.Turn

	seed   uint64         // of the answer
	prompt []byte         // as the engine sees it
	chain  []uint64       // names of the engine's blocks
	blocks []prompt.Block // as the gateway sees them
	length int            // bytes of the prompt
}

// Script is what one user does.
type Script struct {
	Session string
	Due     time.Duration // beginning, for an open loop
	Turns   []Turn        // a parent comes before its children
}

// Workload is one kind of traffic and its servers.
type Workload struct {
	Name    string
	Servers int
	Server  vllmsim.Config
	Full    int  // scripts under way at once that fill the servers, a closed loop; 0 = an open loop
	Paced   bool // an open loop whose own pace is just served
	Rotate  bool // a user continues with the script that has waited for longest after each turn
	Scripts func(seed uint64) []traffic.Script
}

// blockBytes is the plugin's default length of the first blocks.
const blockBytes = 512

// prepare computes what engines and gateways see of the prompts.
func prepare(scripts []traffic.Script, c vllmsim.Config) []Script {
	e := enginesim.New(c.Config, c.Tuning.Times)
	chainer := prompt.NewChainer([16]byte{1}, blockBytes)
	out := make([]Script, len(scripts))
	for k, s := range scripts {
		turns := make([]Turn, len(s.Turns))
		histories := make([][]loadgen.Message, len(turns))
		for i := range turns {
			t := &turns[i]
			t.Turn = s.Turns[i]
			if t.Parent >= 0 {
				p := &turns[t.Parent]
				answer := traffic.Assistant(enginesim.Text(p.seed, p.Answer))
				histories[i] = append(slices.Clone(histories[t.Parent]), answer)
			}
			histories[i] = append(histories[i], t.Add...)
			t.seed = xxhash.Sum64String(s.Session + " " + strconv.Itoa(i))
			t.see(histories[i], chainer, e.Config())
		}
		out[k] = Script{Session: s.Session, Due: s.Due, Turns: turns}
	}
	return out
}

func (t *Turn) see(messages []loadgen.Message, chainer *prompt.Chainer, c enginesim.Config) {
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
	t.chain = c.Chain(0, t.prompt)
}

// conversations are n of them over so many system prompts, of which each conversation has one in turn.
func conversations(seed uint64, n, prompts, prompt, turns, question, answer int) []traffic.Script {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	texts := make([]string, prompts)
	for i := range texts {
		texts[i] = loadgen.Text(r, prompt)
	}
	var begin func(i int) []loadgen.Message
	if prompts > 0 {
		begin = func(i int) []loadgen.Message { return []loadgen.Message{traffic.System(texts[i%prompts])} }
	}
	return traffic.Conversations(r, n, begin, turns, question, answer)
}

// Workloads returns all that need no file. Those with a name that make bench-prefix has, too, are like the ones there,
// with other numbers of users and other sizes of prompts and caches.
func Workloads() []Workload {
	return []Workload{
		{
			Name: "sessions", Servers: 4, Server: traffic.Engine(16, 32<<10), Full: 40,
			Scripts: func(seed uint64) []traffic.Script { return conversations(seed, 60, 0, 0, 5, 200, 800) },
		},
		{Name: "shared", Servers: 4, Server: traffic.Engine(12, 32<<10), Full: 48, Scripts: shared},
		{
			Name: "trees2", Servers: 4, Server: traffic.Engine(16, 16<<10), Full: 8,
			Scripts: func(seed uint64) []traffic.Script { return trees(seed, 36, 2) },
		},
		{
			Name: "trees24", Servers: 4, Server: traffic.Engine(16, 16<<10), Full: 2,
			Scripts: func(seed uint64) []traffic.Script { return trees(seed, 12, 2, 4) },
		},
		{
			Name: "forty", Servers: 4, Server: traffic.Engine(8, 16<<10), Full: 32,
			Scripts: func(seed uint64) []traffic.Script { return conversations(seed, 40, 4, 1000, 5, 150, 100) },
		},
		agents(16, 1), agents(16, 4), agents(64, 1), agents(64, 4),
		slots(), poisson(), single(), lone(),
	}
}

// agents are conversations behind long system prompts, of so many KiB, whose turns come back after all others had
// theirs.
func agents(kib, prompts int) Workload {
	return Workload{
		Name: fmt.Sprintf("agents%d×%d", kib, prompts), Servers: 4,
		Server: traffic.Engine(16, 64<<10+kib*256*prompts), Full: 48, Rotate: true,
		Scripts: func(seed uint64) []traffic.Script { return conversations(seed, 200, prompts, kib*256, 5, 150, 60) },
	}
}

// slots are conversations with servers that decode slowly, and do so for few requests at once.
func slots() Workload {
	c := traffic.Engine(8, 64<<10)
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS = 6, 0.3
	return Workload{Name: "slots", Servers: 8, Server: c, Full: 64, Scripts: func(seed uint64) []traffic.Script {
		return conversations(seed, 160, 0, 0, 5, 300, 150)
	}}
}

// poisson are conversations of long questions and short answers that begin at random, an open loop.
func poisson() Workload {
	const perSecond = 130
	w := Workload{Name: "poisson", Servers: 8, Server: traffic.Engine(16, 32<<10), Paced: true}
	w.Scripts = func(seed uint64) []traffic.Script {
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
	w := Workload{Name: "single", Servers: 4, Server: traffic.Engine(16, 16<<10), Full: 1, Rotate: true}
	w.Scripts = func(seed uint64) []traffic.Script { return conversations(seed, 40, 1, 1000, 5, 150, 60) }
	return w
}

// lone is one conversation, without any other traffic.
func lone() Workload {
	return Workload{
		Name: "lone", Servers: 4, Server: traffic.Engine(16, 32<<10), Full: 1,
		Scripts: func(seed uint64) []traffic.Script {
			return conversations(seed, 1, 1, 1000, 60, 150, 60)
		},
	}
}

// shared is traffic of which four in five requests begin with the same system prompt.
func shared(seed uint64) []traffic.Script {
	const n, prompt, other = 1000, 1600, 200
	r := rand.New(rand.NewPCG(seed, 2))
	common := loadgen.Text(r, prompt)
	return traffic.Conversations(r, n, func(int) []loadgen.Message {
		text := common
		if r.IntN(5) == 0 {
			text = loadgen.Text(r, other)
		}
		return []loadgen.Message{traffic.System(text)}
	}, 1, 80, 40)
}

// trees are those of make bench-prefix.
func trees(seed uint64, n int, branches ...int) []traffic.Script {
	return traffic.Trees(rand.New(rand.NewPCG(seed, 3)), n, 300, 150, 24, 100, branches...)
}
