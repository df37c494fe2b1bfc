package storetest

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	// floodRoom is for how many bytes of prompts a store may remember in this test: 19,656 blocks in the embedded store
	// and 18,484 in Redis, see Backend.IndexBlocks.
	floodRoom = 1 << 20
	// floodTalks of 24 blocks each, of which 4 are the same in all, are a seventh of that.
	floodTalks = 130
	// floodPrompts of 32 blocks each are more than four times as much as there is room for.
	floodPrompts, floodSeeds = 2500, 8
)

// Claimed returns the blocks as those of a tenant.
func Claimed(blocks []prompt.Block, tenant byte) []prompt.Block {
	for i := range blocks {
		blocks[i].Key |= uint64(tenant) << 56
	}
	return blocks
}

// testPrefixFlood: a tenant that sends any number of prompts does not make a store forget those of another.
func testPrefixFlood(t *testing.T, w *world) {
	s, p, id := w.NewOwner(), Even(Addrs(4)), lb.LeaseID(0)
	send := func(tenant byte, seeds ...uint64) (cached, of int) {
		plan := WithPrompt(p, 1, Claimed(Blocks(seeds...), tenant))
		plan.Prefix.IndexMemory = lb.IndexMemory{Local: floodRoom, Remote: floodRoom}
		id++
		_, g, err := w.reserve(s, id, plan)
		if err != nil {
			t.Fatal(err)
		}
		s.Release(w.now, id)
		return g.Cached, len(plan.Prefix.Blocks)
	}
	known := func(tenant byte) float64 {
		var cached, of int
		for talk := range uint64(floodTalks) {
			c, n := send(tenant, uint64(tenant)+1e6, talk, 1, 2, 3, 4)
			cached, of = cached+c, of+n
		}
		return float64(cached) / float64(of)
	}
	for _, c := range []struct {
		tenant, flood byte
		least, most   float64 // of what was known before
	}{
		{1, 2, 0.95, 1},
		{1, prompt.NoTenant, 0.95, 1}, // what nobody has claimed is one more tenant's
		{prompt.NoTenant, 2, 0.95, 1},
		{2, 2, 0, 0.5}, // among its own prompts a tenant has to choose
		{prompt.NoTenant, prompt.NoTenant, 0, 0.5},
	} {
		known(c.tenant)
		before := known(c.tenant)
		for i := range uint64(floodPrompts) {
			seeds := [floodSeeds]uint64{1e9*uint64(c.flood+1) + i}
			send(c.flood, seeds[:]...)
		}
		after := known(c.tenant)
		if before < 0.95 || after < c.least*before || after > c.most*before {
			t.Errorf("of tenant %d %.3f is known, and %.3f after %d prompts of tenant %d", c.tenant, before, after, floodPrompts, c.flood)
		}
	}
	w.want(Addrs(4), 0, 0, 0, 0)
}
