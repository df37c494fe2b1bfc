package redis

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/pipe"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// promptEndpoints is the size of the cluster that prompts are sent to.
	promptEndpoints = 64
	// promptTTL is for how long prompts are remembered.
	promptTTL = 10 * time.Minute
	// firstBlock is the length of the first blocks of a prompt that is cut.
	firstBlock = 512
	// blockBytes of a prompt are a block; all of it counts for promptTokens of the requestTokens.
	blockBytes, promptTokens, requestTokens = 2048, 900, 1000
	// stay is the value of a cached prompt: a conversation continues where it began, whatever the load there.
	stay = 1e6
	// promptRoom is how many bytes of the server's memory Warmgate may use for prompts. It is so little that the pages
	// are soon full of other prompts, as they are in a store that has been in use for a while; memoryRoom is the
	// default.
	promptRoom, memoryRoom = 2 << 20, 64 << 20
	// memoryBlocks are in each conversation by which memory is measured, and memoryTalks is how many there are, of two
	// turns.
	memoryBlocks, memoryTalks = 64, 300
)

// Names of the contenders that are given prompts, besides warmgate.
const (
	blockXOR  = "xor"
	blockKeys = "keys"
)

var (
	//go:embed prompt_xor.lua
	luaPromptXOR string
	//go:embed prompt_keys.lua
	luaPromptKeys string
)

// promptContenders are compared in this order, over prompts of n blocks.
func promptContenders(n int) []contender {
	return contendersOver(func() *prompts { return newPrompts(n) })
}

// contendersOver are compared over the prompts that draw makes for each client.
func contendersOver(draw func() *prompts) []contender {
	return []contender{
		{
			warmgate, "redisclient.Store: match, choice, count and record in one step, blocks in pages",
			func(c *pipe.Conn, s settings, owner uint64, endpoints []string) client {
				w := openWarmgate(c, s, owner, endpoints).(*warmgateClient)
				w.prompts, w.room = draw(), promptRoom
				w.plan.Unit, w.plan.Tokens = lb.Tokens, requestTokens
				return w
			}, loadsOfTable,
		},
		promptContender(blockXOR, "prompt_xor.lua by EVAL with its text each time, as it is published", luaPromptXOR,
			true, draw),
		promptContender(blockKeys, "prompt_keys.lua by EVALSHA: what the published way costs at its best",
			luaPromptKeys, false, draw),
	}
}

// promptContender is a plainContender that sends prompts along.
func promptContender(name, what, script string, whole bool, draw func() *prompts) contender {
	plain := plainContender(name, what, script, whole)
	open := plain.open
	plain.open = func(c *pipe.Conn, s settings, owner uint64, endpoints []string) client {
		p := open(c, s, owner, endpoints).(*plainClient)
		words := append(p.words[:len(p.words)-len(endpoints):len(p.words)-len(endpoints)],
			strconv.Itoa(int(promptTTL.Seconds())), strconv.Itoa(len(endpoints)))
		p.words = append(words, p.endpoints...)
		p.endpoints = p.words[len(words):]
		p.prompts = draw()
		return p
	}
	return plain
}

// prompts draws prompts of n blocks: by turns one that is unknown, and the same once more with another last block, as
// when a conversation continues.
type prompts struct {
	blocks []prompt.Block
	ends   int // how many blocks differ when a prompt comes once more
	turns  int // blocks of the published scheme
	drawn  int
}

func newPrompts(n int) *prompts {
	p := &prompts{ends: 1, turns: n}
	for i := range n {
		p.blocks = append(p.blocks, prompt.Block{End: (i + 1) * blockBytes})
	}
	return p
}

// next draws a prompt. It is valid until the next call.
func (p *prompts) next() []prompt.Block {
	from := 0
	if p.drawn%2 == 1 {
		from = len(p.blocks) - p.ends
	}
	p.drawn++
	for i := range p.blocks[from:] {
		p.blocks[from+i].Key = rand.Uint64() >> 8
	}
	return p.blocks
}

// prefix draws a prompt for a plan. Where it is cached, most of a request's tokens need not be computed.
func (p *prompts) prefix(room int) lb.Prefix {
	blocks := p.next()
	return lb.Prefix{
		Blocks: blocks, Bytes: blocks[len(blocks)-1].End, Tokens: promptTokens, Credit: stay, TTL: promptTTL,
		IndexMemory: lb.IndexMemory{Remote: room},
	}
}

// digests returns a SHA-1 in hex for each block, or another value of that form: its content is never read.
func (p *prompts) digests() []string {
	var out []string
	for _, b := range p.next()[:p.turns] {
		out = append(out, fmt.Sprintf("%016x%016x%08x", b.Key, b.Key*0x9e3779b97f4a7c15, uint32(b.Key>>7)))
	}
	return out
}

// comparePrompts measures every contender over the prompts that draw makes for each client.
func comparePrompts(ctx context.Context, s settings, server *redisserver.Server, endpoints int, draw func() *prompts) (
	*cell, error,
) {
	return compare(ctx, s, server, endpoints, contendersOver(draw), []part{
		{1, (*stage).warm}, {1, (*stage).crowd}, {1, (*stage).timePhase}, {1, (*stage).drain},
	})
}

// crowd sends Warmgate twice as many blocks of others as it remembers.
func (r *stage) crowd() error {
	w, ok := r.clients[0].(*warmgateClient)
	if !ok {
		return nil
	}
	own := w.prompts
	defer func() { w.prompts = own }()
	return w.flood(2 * w.room / boundEntry)
}

// flood sends so many blocks in prompts of which nothing is known.
func (w *warmgateClient) flood(blocks int) error {
	for range (blocks + boundBlocks - 1) / boundBlocks {
		w.prompts = newPrompts(boundBlocks)
		for _, do := range []func(client){client.reserve, client.release} {
			do(w)
			if err := w.settle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// promptMemory returns how many bytes a server needs for a million blocks, by contender, extrapolated from a sample of
// them.
func promptMemory(s settings, server *redisserver.Server) (map[string]float64, error) {
	out := map[string]float64{}
	for _, con := range promptContenders(memoryBlocks) {
		if _, err := server.Do("FLUSHALL", "SYNC"); err != nil {
			return nil, err
		}
		took, err := memoryOf(s, server, con)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", con.name, err)
		}
		out[con.name] = took * 1e6 / ((memoryBlocks + 1) * memoryTalks)
	}
	return out, nil
}

// memoryOf returns by how much the server's memory grows with the conversations.
func memoryOf(s settings, server *redisserver.Server, con contender) (float64, error) {
	s.owners, s.depth = 1, 1
	st, err := start(s, server, con, promptEndpoints)
	if err != nil {
		return 0, err
	}
	defer st.close()
	if err := st.warm(); err != nil {
		return 0, err
	}
	if w, ok := st.clients[0].(*warmgateClient); ok {
		w.room = memoryRoom
	}
	return memoryDuring(server, func() error {
		for range 2 * memoryTalks {
			if err := together(st.clients[0], 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// memoryDuring returns by how many bytes the server's memory grows while f runs.
func memoryDuring(server *redisserver.Server, f func() error) (float64, error) {
	before, err := usedMemory(server)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := usedMemory(server)
	return after - before, err
}

// promptBound is what the server's memory grows by when far more prompts come than Warmgate may remember.
type promptBound struct {
	room, blocks int     // bytes that may be used, and blocks that were sent
	took         float64 // bytes
}

const (
	// The room is filled boundTimes over by prompts of boundBlocks blocks of which nothing is known.
	boundTimes, boundBlocks = 4, 128
	// boundEntry is at most what a block needs.
	boundEntry = 32
)

// measureBound sends far more prompts than there is room for.
func measureBound(s settings, server *redisserver.Server) (promptBound, error) {
	b := promptBound{room: s.room}
	if _, err := server.Do("FLUSHALL", "SYNC"); err != nil {
		return b, err
	}
	s.owners, s.depth = 1, 1
	st, err := start(s, server, promptContenders(boundBlocks)[0], promptEndpoints)
	if err != nil {
		return b, err
	}
	defer st.close()
	if err := st.warm(); err != nil {
		return b, err
	}
	w := st.clients[0].(*warmgateClient)
	w.room, b.blocks = s.room, boundTimes*s.room/boundEntry
	b.took, err = memoryDuring(server, func() error { return w.flood(b.blocks) })
	return b, err
}

func usedMemory(server *redisserver.Server) (float64, error) {
	info, err := server.Info("memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(info["used_memory"], 64)
}

// promptCell is what prompts of one kind cost.
type promptCell struct {
	about  string
	blocks int // Warmgate's
	bytes  int // of one message, a single block of the published scheme; 0 = there are many messages
	*cell
}

func (c promptCell) String() string {
	text := c.about + ": server µs per reservation"
	for _, name := range []string{warmgate, blockXOR, blockKeys} {
		text += fmt.Sprintf("; %s %s and %.0f bytes", name, c.spread(name, reserveOf).Format("%.1f"),
			c.spread(name, bothWays).Median)
	}
	return text + fmt.Sprintf("; warmgate over xor %s, over keys %s",
		c.ratio(warmgate, blockXOR, reserveOf).Format("%.4f"), c.ratio(warmgate, blockKeys, reserveOf).Format("%.2f"))
}

func bothWays(m *measurement) float64 { return m.sent + m.received }

// addPrompts adds what was measured with prompts to the last line: warmgate over xor and over keys by blocks of the
// prompt, bytes both ways with the release, and memory.
func (rep *report) addPrompts(l bench.Line) {
	for name, contender := range map[string]string{
		"prefix_memory_per_million_blocks": warmgate, "prefix_memory_per_million_blocks_xor": blockXOR,
	} {
		if took, ok := rep.memory[contender]; ok {
			l[name] = took
		}
	}
	if rep.bound.room > 0 { // when four times as much comes as there is room for
		l["prefix_memory_vs_bound"] = rep.bound.took / float64(rep.bound.room)
	}
	var turns []bench.Line
	for _, c := range rep.prompts {
		if c.bytes > 0 {
			turns = append(turns, bench.Line{
				"bytes": c.bytes, "blocks": c.blocks, "endpoints": c.endpoints,
				"reserve_us": c.spread(warmgate, reserveOf).Median,
				"vs_xor":     c.ratio(warmgate, blockXOR, reserveOf), "vs_keys": c.ratio(warmgate, blockKeys,
					reserveOf),
			})
			continue
		}
		l[fmt.Sprintf("prefix_vs_xor_%d", c.blocks)] = c.ratio(warmgate, blockXOR, reserveOf).Median
		l[fmt.Sprintf("prefix_vs_keys_%d", c.blocks)] = c.ratio(warmgate, blockKeys, reserveOf).Median
		if c.blocks == 64 {
			l["prefix_bytes_vs_xor_64"] = c.ratio(warmgate, blockXOR, bothWays).Median
			l["prefix_bytes_vs_keys_64"] = c.ratio(warmgate, blockKeys, bothWays).Median
			l["prefix_reserve_us_64"] = c.spread(warmgate, reserveOf).Median
		}
	}
	l["prefix_one_message"] = turns
	if l["prefix_vs_xor_64"] != nil {
		l["prefix_targets_met"] = map[string]bool{
			"xor_64": l.Value("prefix_vs_xor_64") <= 1.0/15, "xor_5": l.Value("prefix_vs_xor_5") <= 1.0/5,
			"bytes": l.Value("prefix_bytes_vs_xor_64") <= 0.5, "bound": l.Value("prefix_memory_vs_bound") <= 1,
		}
	}
}

// turnOf cuts a prompt of one message of so many bytes.
func turnOf(bytes int) ([]prompt.Block, error) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", bytes) + `"}]}`)
	_, parts, err := prompt.Read(body, true)
	if err != nil {
		return nil, err
	}
	blocks, _ := prompt.NewChainer(prompt.Secret("bench"), firstBlock).Chain(body, &parts)
	return blocks, nil
}
