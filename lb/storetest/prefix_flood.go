package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// floodBytes is the size of the index in this test: see Backend.IndexBlocks, 19,656 blocks in the embedded store
	// and 18,484 in Redis.
	floodBytes = 1 << 20
	// floodTalks conversations of 24 blocks each, of which 4 are the same in all, are a seventh of that.
	floodTalks = 130
	// floodPrompts of 32 blocks each are more than four times as many blocks as the index holds.
	floodPrompts, floodSeeds = 2500, 8
	// floodStep is the time between prompts: where blocks go depends on the ages of others, so it has to pass.
	floodStep = 50 * time.Millisecond
)

// Claimed sets the tenant of the blocks, and returns them.
func Claimed(blocks []prompt.Block, tenant byte) []prompt.Block {
	for i := range blocks {
		blocks[i].Key |= uint64(tenant) << 56
	}
	return blocks
}

// flood is the prompts of several tenants in one store.
type flood struct {
	*world
	store lb.Store
	last  lb.LeaseID
	part  int // the index, the conversations and the prompts are a part of the above, and as much more time passes
}

// send sends a prompt, and returns how many of its blocks matched, of how many.
func (f *flood) send(tenant byte, seeds ...uint64) (cached, of int) {
	plan := WithPrompt(Even(Addrs(4)), 1, Claimed(Blocks(seeds...), tenant))
	plan.Prefix.TTL = time.Hour
	plan.Prefix.IndexMemory = lb.IndexMemory{Local: floodBytes / f.part, Remote: floodBytes / f.part}
	f.last++
	f.now += floodStep * time.Duration(f.part)
	_, g := f.visit(f.store, f.last, plan)
	return g.Cached, len(plan.Prefix.Blocks)
}

// matched sends the next turn of all conversations of a tenant, and returns which share of their blocks matched.
func (f *flood) matched(tenant byte) float64 {
	var cached, of int
	for talk := range uint64(floodTalks / f.part) {
		c, n := f.send(tenant, uint64(tenant)+1e6, talk, 1, 2, 3, 4)
		cached, of = cached+c, of+n
	}
	return float64(cached) / float64(of)
}

// testPrefixFlood: a tenant that sends any number of prompts does not evict those of another.
func testPrefixFlood(t *testing.T, w *world) {
	f := flood{world: w, store: w.NewOwner(), part: 1}
	if testing.Short() {
		f.part = 4
	}
	for _, c := range []struct {
		tenant, flood byte
		min           float64 // share of the blocks that matched before, which match afterwards at least
		max           float64 // share of all blocks that match afterwards at most
	}{
		{1, 2, 0.95, 1},
		// No tenant counts as one more tenant. With three, each has a third of every page, and some pages have parts of
		// two prompts that are more than that.
		{1, prompt.NoTenant, 0.9, 1},
		{prompt.NoTenant, 2, 0.95, 1},
		{2, 2, 0, 0.5}, // a tenant evicts its own prompts
		{prompt.NoTenant, prompt.NoTenant, 0, 0.5},
	} {
		f.matched(c.tenant)
		before := f.matched(c.tenant)
		for i := range uint64(floodPrompts / f.part) {
			seeds := [floodSeeds]uint64{1e9*uint64(c.flood+1) + i}
			f.send(c.flood, seeds[:]...)
		}
		after := f.matched(c.tenant)
		if before < 0.95 || after < c.min*before || after > c.max {
			t.Errorf("of the blocks of tenant %d %.3f match, and %.3f after %d prompts of tenant %d",
				c.tenant, before, after, floodPrompts/f.part, c.flood)
		}
	}
	w.want(Addrs(4), 0, 0, 0, 0)
}
