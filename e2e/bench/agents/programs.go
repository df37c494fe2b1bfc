package agents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/placement"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/plugin/config"
)

// Programs of agents in simulated time: each agent is one session, and runs one program after another, which is turns
// with pauses in between. They have the shape that is published of coding agents: 33.6k tokens in and 445 out on
// average, of which 91 % are in the turns before.
const (
	programTurns                  = 16
	programSystem                 = 8500 // tokens of instructions and tools, which all share
	programQuestion, programReply = 2560, 445
)

// crew is a load of such agents. What it notes is of the time from its warm-up on.
type crew struct {
	scene    *scene
	seed     uint64
	agents   []agent
	programs int
	send     func(at time.Duration, number int)
	figures  figures
}

// agent is who runs programs.
type agent struct {
	rng     *rand.Rand
	program uint64
	turn    int
	prompt  []engine.Part
	tokens  int
	at      int     // server of the turn before, -1 for none
	served  float64 // tokens that were computed for it
}

// figures are of the answers to a crew.
type figures struct {
	ttft            []float64 // seconds
	behind, stays   int       // turns behind another one, and those of them at its server
	in, cached, out int
	refused         int
	span            time.Duration
	service         []float64 // by agent
}

func newCrew(seed uint64, s *scene) *crew {
	c := &crew{scene: s, seed: seed, agents: make([]agent, s.agents)}
	c.figures.span = s.until - s.warm
	for i := range c.agents {
		c.agents[i] = agent{rng: rand.New(rand.NewPCG(seed, uint64(i))), at: -1}
	}
	return c
}

// Begin implements [simulate.Load].
func (c *crew) Begin(send func(at time.Duration, number int)) {
	c.send = send
	for i := range c.agents {
		send(time.Duration(c.agents[i].rng.Float64()*float64(c.scene.warm)/4), i)
	}
}

// about returns a length of an agent's that is so many tokens on average: of all agents, and evenly between half and
// one and a half of that.
func (c *crew) about(number, mean int) int {
	scale := 1 + c.scene.unequal*float64(1-2*(number%2))
	return 1 + int(float64(mean)*scale*(0.5+c.agents[number].rng.Float64()))
}

// Send implements [simulate.Load].
func (c *crew) Send(now time.Duration, number int) *simulate.Request {
	if now >= c.scene.until {
		return nil
	}
	a := &c.agents[number]
	if a.turn == 0 {
		c.programs++
		a.program, a.at = enginesim.Mix(c.seed^uint64(c.programs)<<20), -1
		a.prompt, a.tokens = []engine.Part{{Name: enginesim.Mix(c.seed), Tokens: programSystem}}, programSystem
	}
	a.turn++
	question := engine.Part{
		Name: enginesim.Mix(a.program + 2*uint64(a.turn)), Tokens: c.about(number, programQuestion),
	}
	r := &simulate.Request{
		Session: enginesim.Mix(c.seed ^ uint64(number+1)), Prompt: append(a.prompt, question),
		Answer: c.about(number, programReply), Name: enginesim.Mix(question.Name),
	}
	a.prompt = append(r.Prompt, engine.Part{Name: r.Name, Tokens: r.Answer, Answer: true})
	a.tokens += question.Tokens
	return r
}

// Ended implements [simulate.Load].
func (c *crew) Ended(now time.Duration, number int, r *simulate.Request, served bool) {
	a := &c.agents[number]
	if served {
		c.note(now, a, r)
		a.at, a.tokens = r.Server(), a.tokens+r.Answer
	} else {
		c.figures.refused++
	}
	if !served || a.turn == programTurns {
		a.turn = 0
	}
	c.send(now+time.Duration(a.rng.ExpFloat64()*float64(c.scene.think)), number)
}

// note notes an answer to the agent.
func (c *crew) note(now time.Duration, a *agent, r *simulate.Request) {
	if now < c.scene.warm || now >= c.scene.until {
		return
	}
	f := &c.figures
	f.ttft = append(f.ttft, r.TTFT().Seconds())
	f.in, f.cached, f.out = f.in+a.tokens, f.cached+r.Cached(), f.out+r.Answer
	a.served += float64(a.tokens - r.Cached() + r.Answer)
	if a.at >= 0 {
		if f.behind++; a.at == r.Server() {
			f.stays++
		}
	}
}

// Columns of the table.
var programColumns = bench.Columns[figures]{
	bench.Col("TTFT mean s", "%.2f", (*figures).meanTTFT),
	bench.Col("p99", "%.1f", func(f *figures) float64 { return f.ttft[len(f.ttft)*99/100] }),
	bench.Col("cached share", "%.3f", func(f *figures) float64 { return float64(f.cached) / float64(f.in) }),
	bench.Col("turns that stay", "%.3f", (*figures).staying),
	bench.Col("service, max/min", "%.2f", (*figures).fairness),
	bench.Col("turns a second", "%.2f", func(f *figures) float64 { return float64(len(f.ttft)) / f.span.Seconds() }),
	bench.Col("refused", "%.0f", func(f *figures) float64 { return float64(f.refused) }),
}

func (f *figures) meanTTFT() (mean float64) {
	for _, t := range f.ttft {
		mean += t / float64(len(f.ttft))
	}
	return mean
}

func (f *figures) staying() float64 { return float64(f.stays) / float64(max(1, f.behind)) }

// fairness returns what the agent was served that was served most over what the one was that was least.
func (f *figures) fairness() float64 { return slices.Max(f.service) / max(1, slices.Min(f.service)) }

// scene is agents before four servers.
type scene struct {
	name        string
	agents      int
	blocks      int           // of a server's memory
	think       time.Duration // pause of an agent between two turns, on average (exponential)
	unequal     float64       // every other agent's questions and replies are larger by this part, or smaller
	warm, until time.Duration // when figures begin, and when nothing more is sent
	queue       string        // of the plugin, "" for none
	about       string
}

// programServers is how many servers there are, and programSequences how many requests one runs at once.
const programServers, programSequences = 4, 8

const (
	thinking, saturated = "thinking", "saturated"
	bySession           = "prefix_cache, by session"
)

var scenes = []scene{
	{
		name: thinking, agents: 48, blocks: 26_000, think: 8 * time.Second, warm: 5 * time.Minute,
		until: 25 * time.Minute,
		about: "each agent pauses for 8 s between two turns",
	},
	{
		name: saturated, agents: 96, blocks: 80_000, unequal: 0.6, warm: 5 * time.Minute, until: 45 * time.Minute,
		queue: `"max_inflight":8,"queue":{"max_wait":"1h","max_length":1000,"fair_by":"%s"}`,
		about: "agents do not pause, and wait for servers all the time",
	},
}

// contenders returns those of a scene.
func (s *scene) contenders() ([]simulate.Contender, error) {
	list, err := placement.Rivals()
	if err != nil {
		return nil, err
	}
	add := func(name, members string) {
		var c simulate.Contender
		if err == nil {
			c, err = simulate.ParseContender(name, []byte(`{"lb_policy":"prefix_cache","lb_config":{`+members+`}}`),
				config.Higress)
		}
		list = append(list, c)
	}
	if s.queue == "" {
		add("prefix_cache", "")
	} else {
		add("prefix_cache", fmt.Sprintf(s.queue, "tenant"))
		add(bySession, fmt.Sprintf(s.queue, "session"))
	}
	return list, err
}

// play has a contender serve the crew of the scene.
func (s *scene) play(c *simulate.Contender, seed uint64) (figures, error) {
	e := simulate.DefaultEngine()
	e.Config.MaxNumSeqs, e.Config.NumBlocks, e.Config.MaxModelLen = programSequences, s.blocks, 1<<17
	load := newCrew(seed, s)
	if _, err := simulate.Run(load, simulate.Alike(programServers, e), *c, seed, nil); err != nil {
		return figures{}, err
	}
	f := load.figures
	for i := range load.agents {
		f.service = append(f.service, load.agents[i].served)
	}
	slices.Sort(f.ttft)
	if len(f.ttft) == 0 {
		return f, fmt.Errorf("%s: nothing was served", s.name)
	}
	return f, nil
}

// programs plays all scenes.
func programs(s settings) (runs bench.Runs[figures], err error) {
	for i := range scenes {
		sc := &scenes[i]
		list, err := sc.contenders()
		if err != nil {
			return runs, err
		}
		names := bench.Names(list, func(c simulate.Contender) string { return c.Name })
		if err := bench.Play(&runs, programColumns, sc.name, s.Rounds, names,
			func(round int) (uint64, error) { return s.Seed + uint64(round), nil },
			func(seed uint64, i int) (figures, error) { return sc.play(&list[i], seed) }); err != nil {
			return runs, err
		}
	}
	return runs, nil
}

// describePrograms returns what was played, in words.
func describePrograms() (lines []string) {
	for i := range scenes {
		s := &scenes[i]
		line := fmt.Sprintf("%s: %d agents in simulated time, programs of %d turns; %s; %d servers of %d sequences "+
			"and %d tokens of KV cache; figures are of the time from %v to %v", s.name, s.agents, programTurns, s.about,
			programServers, programSequences, 16*s.blocks, s.warm, s.until)
		if s.queue != "" {
			line += "; the plugin with " + fmt.Sprintf(s.queue, "…")
		}
		lines = append(lines, line)
	}
	return lines
}
