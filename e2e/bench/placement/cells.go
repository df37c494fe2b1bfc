package placement

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/prefix"
	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// cell is a load before engines.
type cell struct {
	name, about string
	fleet       []simulate.Engine
	loads       func(seed uint64) func() simulate.Load // makes the load of a seed, as often as it is wanted
	halves      time.Duration                          // when the speed of the first engine halves, 0 for never
	short       bool                                   // it is in the short form
}

// cells returns all. Those of a trace are there if it is.
func cells(trace []mooncake.Request) []cell {
	all := slices.Concat(
		oddPrompts(), onePrompt(), completions(), realEngines(), published(), agentic(), unequal(), others(),
	)
	if len(trace) > 0 {
		all = append(all, fewSlots(trace)...)
	}
	return append(all, ofPrefix(trace)...)
}

// ofChat returns a cell of conversations.
func ofChat(name string, fleet []simulate.Engine, c chat) cell {
	how := fmt.Sprintf("%d users", c.users)
	switch {
	case c.timed:
		how = fmt.Sprintf("%g sessions a second, turns at times of their own", c.rate)
	case c.users == 0:
		how = fmt.Sprintf("%g sessions a second", c.rate)
	}
	return cell{
		name: name, fleet: fleet,
		about: fmt.Sprintf("%d conversations over %d system prompts, pauses of %v, %s; %d engines of %d slots and "+
			"%d tokens of cache", c.sessions, len(c.prompts), c.think, how, len(fleet), fleet[0].Config.MaxNumSeqs,
			fleet[0].Config.NumBlocks*fleet[0].Config.BlockSize),
		loads: func(seed uint64) func() simulate.Load { return func() simulate.Load { return c.new(seed) } },
	}
}

// Engines. small is about a 7B model on one GPU; card has the times of a quarter of an H200, with more memory; node is
// about a large model on eight.
func small(slots, blocks int) simulate.Engine {
	return simulate.Engine{
		Config: enginesim.Config{
			MaxNumSeqs: slots, MaxQueued: -1, NumBlocks: blocks, MaxModelLen: 1 << 17,
		}.WithDefaults(),
		Times: enginesim.DefaultTimes(),
	}
}

func card() simulate.Engine {
	e := simload.H200()
	e.Shares = nil
	e.Config.NumBlocks, e.Config.MaxNumSeqs, e.Config.MaxModelLen = 24103, 256, 1<<17
	return e
}

func node() simulate.Engine {
	return simulate.Engine{
		Config: enginesim.Config{
			MaxNumSeqs: 256, MaxQueued: -1, NumBlocks: 40009, MaxBatchedTokens: 8192, MaxModelLen: 1 << 18,
		}.WithDefaults(),
		Times: enginesim.Times{
			Speed: 1, PrefillOverheadMS: 3, PrefillTokenMS: 0.033, DecodeStepMS: 11.3, DecodeSeqMS: 0.17,
		},
	}
}

// halfAsLarge returns engines with half the cache.
func halfAsLarge(fleet []simulate.Engine) []simulate.Engine {
	fleet = slices.Clone(fleet)
	for i := range fleet {
		fleet[i].Config.NumBlocks /= 2
	}
	return fleet
}

var sevenLengths = []int{1523, 1811, 2203, 2477, 2903, 3319, 3701}

// oddPrompts are seven prompts of odd lengths, at three loads, without pauses, and with caches half as large.
func oddPrompts() (all []cell) {
	c := chat{
		sessions: 611, prompts: sevenLengths, turns: around(5), question: around(147), answer: around(113),
		think: 2 * time.Second,
	}
	fleet := simulate.Alike(10, small(16, 2053))
	for _, users := range []int{23, 67, 113} {
		c.users = users
		all = append(all, ofChat(fmt.Sprintf("odd7-%d", users), fleet, c))
	}
	all = append(all, ofChat("odd7-113-half", halfAsLarge(fleet), c))
	all[1].short = true
	c.users, c.think = 31, 0
	return append(all, ofChat("odd7-closed", fleet, c))
}

// onePrompt is one prompt for all, of 11 and of 30 KB.
func onePrompt() (all []cell) {
	for _, of := range []struct {
		name          string
		tokens, users int
	}{{"one11k", 2839, 27}, {"one11k", 2839, 89}, {"one30k", 7717, 27}, {"one30k", 7717, 71}} {
		all = append(all, ofChat(fmt.Sprintf("%s-%d", of.name, of.users), simulate.Alike(10, small(16, 2053)), chat{
			sessions: 613, prompts: []int{of.tokens}, turns: around(5), question: around(141), answer: around(97),
			think: 1700 * time.Millisecond, users: of.users,
		}))
	}
	return all
}

// completions are conversations that are one text each, of 30 to 60 KB: behind three prompts, or with a context of
// their own behind one that all have.
func completions() []cell {
	c := chat{
		plain: true, sessions: 409, prompts: []int{7993, 10501, 13007}, turns: around(7),
		question: lognormal(101, 0.7, 5, 1500), answer: lognormal(127, 0.7, 5, 1500), think: 1900 * time.Millisecond,
		users: 31,
	}
	fleet := simulate.Alike(8, small(16, 4099))
	behind := ofChat("texts3-31", fleet, c)
	c.prompts, c.context, c.users = []int{5003}, lognormal(4001, 0.5, 700, 11000), 43
	return []cell{behind, ofChat("texts-own-43", fleet, c)}
}

// realEngines are what the engines on an H200 had: four turns over four prompts, in an open and in a closed loop.
func realEngines() []cell {
	c := chat{
		sessions: 577, prompts: []int{2903, 3517, 4211, 4979}, turns: exactly(4),
		question: lognormal(900, 0.6, 60, 4000), answer: lognormal(70, 0.5, 8, 400),
		think: 700 * time.Millisecond, rate: 2.43,
	}
	fleet := simulate.Alike(4, simload.H200())
	open := ofChat("h200-open", fleet, c)
	c.timed = true
	timed := ofChat("h200-timed", fleet, c)
	c.rate, c.timed, c.users = 0, false, 37
	think := ofChat("h200-37", fleet, c)
	half := ofChat("h200-37-half", halfAsLarge(fleet), c)
	c.think = 0
	open.short = true
	return []cell{open, timed, think, half, ofChat("h200-37-closed", fleet, c)}
}

// published are the shapes that llm-d has published figures for: scenarios A to D, and one of production.
func published() []cell {
	c := chat{answer: normal(1000, 300), turns: around(4), think: 3 * time.Second}
	prompts := func(n, tokens int) (all []int) { return slices.Repeat([]int{tokens}, n) }
	fleet := simulate.Alike(10, card())
	a, b, cc, d := c, c, c, c
	a.sessions, a.rate, a.prompts, a.question = 503, 2.3, prompts(6, 1000), normal(30, 9)
	b.sessions, b.rate, b.prompts, b.question = 499, 1.7, prompts(6, 1000), normal(3000, 900)
	cc.sessions, cc.rate, cc.prompts, cc.question = 509, 1.9, prompts(150, 6000), normal(1200, 360)
	d.sessions, d.rate, d.prompts, d.question = 487, 1.3, prompts(150, 1000), normal(6200, 1860)
	p := chat{
		sessions: 331, rate: 2.9, prompts: prompts(1, 1000), turns: around(11), think: 5 * time.Second,
		context: lognormalMean(5100, 9000, 60000), question: lognormalMean(729, 13550, 65536),
		answer: lognormalMean(300, 2213, 8192),
	}
	all := []cell{
		ofChat("llmd-A", fleet, a), ofChat("llmd-B", fleet, b), ofChat("llmd-C", fleet, cc),
		ofChat("llmd-D", fleet, d), ofChat("llmd-production", simulate.Alike(13, node()), p),
	}
	all[2].short = true
	return all
}

// agentic is the shape of coding agents: long prompts, of which a turn adds little, and many turns.
func agentic() []cell {
	c := chat{
		sessions: 131, prompts: []int{6101, 7013, 8111}, context: lognormal(2900, 0.8, 300, 30000), turns: around(19),
		question: lognormal(900, 1.1, 30, 20000), answer: lognormal(80, 1.85, 8, 8192), think: 2300 * time.Millisecond,
		users: 29,
	}
	e := node()
	e.Config.NumBlocks = 20011
	fleet := simulate.Alike(6, e)
	think := ofChat("agents-29", fleet, c)
	half := ofChat("agents-29-half", halfAsLarge(fleet), c)
	c.users, c.rate, c.timed = 0, 0.26, true
	think.short = true
	return []cell{think, half, ofChat("agents-timed", fleet, c)}
}

// unequal are engines of different speeds, and one that slows down.
func unequal() []cell {
	c := chat{
		sessions: 797, prompts: slices.Repeat([]int{1501}, 30), turns: around(5), question: around(293),
		answer: around(197), think: 2 * time.Second,
	}
	of := func(speeds ...float64) (fleet []simulate.Engine) {
		for _, s := range speeds {
			e := small(64, 8209)
			e.Times.Speed = s
			fleet = append(fleet, e)
		}
		return fleet
	}
	c.users = 41
	low := ofChat("speeds2.5-41", of(1, 1, 1, 2.5, 2.5, 2.5), c)
	c.users = 97
	high := ofChat("speeds2.5-97", of(1, 1, 1, 2.5, 2.5, 2.5), c)
	c.users = 67
	far := ofChat("speeds4.4-67", of(1, 1, 2.1, 4.4), c)
	c.sessions, c.users, c.rate, c.timed = 1009, 0, 3.1, true
	slows := of(1, 1, 1, 1)
	slows[0].Changes = []simulate.Change{{At: halvesAt, Speed: 0.5}}
	slowing := ofChat("slow-down", slows, c)
	slowing.halves, slowing.short, far.short = halvesAt, true, true
	return []cell{low, high, far, slowing}
}

// halvesAt is when an engine's speed halves, by when caches are full.
const halvesAt = 101 * time.Second

// others are many short answers, long conversations that have nothing in common, and few slots.
func others() (all []cell) {
	short := chat{
		sessions: 1511, prompts: slices.Repeat([]int{3001}, 60), turns: around(2), question: around(103),
		answer: around(31), think: 2 * time.Second,
	}
	own := chat{
		sessions: 251, prompts: []int{7}, context: around(997), turns: around(11), question: around(883),
		answer: around(307), think: time.Second,
	}
	for _, users := range []int{61, 157} {
		short.users = users
		all = append(all, ofChat(fmt.Sprintf("short-%d", users), simulate.Alike(6, small(32, 4099)), short))
	}
	for _, users := range []int{41, 97} {
		own.users = users
		all = append(all, ofChat(fmt.Sprintf("own-%d", users), simulate.Alike(6, small(64, 8209)), own))
	}
	return all
}

// fewSlots is the conversation trace on eight servers of eight slots, which compute batches or, as the simulators of
// engines without a GPU, each request apart.
func fewSlots(trace []mooncake.Request) (all []cell) {
	const servers, requests = 8, 3001
	e := small(8, 16411)
	e.Config.MaxBatchedTokens, e.Config.MaxModelLen = 8192, 1<<18
	apart := e
	apart.Apart, apart.Config.MaxBatchedTokens = true, int(10/apart.Times.PrefillTokenMS)
	of := func(name string, e simulate.Engine, speed float64) cell {
		r := simulate.FromMooncake(trace[:min(len(trace), requests)])
		r.Speed = speed
		return cell{
			name: name, fleet: simulate.Alike(servers, e),
			about: fmt.Sprintf("the first %d requests of the trace, %g times as fast; %d engines of %d slots",
				r.Requests, speed, servers, e.Config.MaxNumSeqs),
			loads: func(seed uint64) func() simulate.Load { return func() simulate.Load { return r.New(seed) } },
		}
	}
	for _, speed := range []float64{1.1, 1.6, 2.0} {
		all = append(all, of(fmt.Sprintf("mooncake-%g", speed), e, speed))
	}
	for _, speed := range []float64{2.1, 3.3, 4.3} {
		all = append(all, of(fmt.Sprintf("mooncake-apart-%g", speed), apart, speed))
	}
	return all
}

// ofPrefix are the workloads of the benchmark prefix, at a share of the capacity.
func ofPrefix(trace []mooncake.Request) (all []cell) {
	const capacity = 0.77
	for _, s := range prefix.Simulations(trace, capacity) {
		all = append(all, cell{name: "prefix-" + s.Name, about: s.About, fleet: s.Fleet, loads: s.Loads})
	}
	return all
}
