package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
)

// keysOf returns the keys in the page, from the front.
func keysOf(p page) (keys []uint64) {
	for at := 0; at < len(p); at += entrySize {
		keys = append(keys, wire.Uint64(p, at))
	}
	return keys
}

func tenantOf(key uint64) byte { return prompt.Block{Key: key}.Tenant() }

// drawBlocks returns up to 16 blocks of a tenant: the first few that are in the page, if any, and new ones behind them.
func drawBlocks(rng *rand.Rand, p page, tenant byte) []prompt.Block {
	n := 1 + rng.IntN(16)
	keys := keysOf(p)
	keys = slices.DeleteFunc(keys, func(k uint64) bool { return tenantOf(k) != tenant })
	keys = keys[:rng.IntN(min(n, len(keys))+1)]
	for len(keys) < n {
		keys = append(keys, rng.Uint64()>>8|uint64(tenant)<<56)
	}
	return blocksOf(keys...)
}

// Whatever is recorded in a page, its size is bounded. What was recorded is in front and the rest keeps its order. A
// tenant whose entries were evicted has no more than one entry less than any other: tenants with most entries lose
// first.
func TestPageIsShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lost := 0
	for tenants := 0; tenants < 200; tenants += 1 + tenants/8 {
		var p page
		for step := range 200 {
			tenant := byte(min(rng.IntN(tenants+1), rng.IntN(tenants+1))) // 0, no tenant, is one more tenant
			blocks, before := drawBlocks(rng, p, tenant), keysOf(p)
			p, _ = p.record(blocks, rng.Uint32()|1, uint16(step*prefixindex.FreshTicks))
			after := keysOf(p)
			if len(after) > maxEntries {
				t.Fatalf("%d entries", len(after))
			}
			wanted := keysOf(nil)
			for _, b := range blocks {
				wanted = append(wanted, b.Key)
			}
			for _, k := range before {
				if !slices.Contains(wanted, k) {
					wanted = append(wanted, k)
				}
			}
			lost += wantShared(t, wanted, after)
		}
	}
	if lost < 10_000 {
		t.Errorf("only %d entries were evicted: that tests little", lost)
	}
}

// wantShared expects a page to have those of the wanted entries that fit in, and returns how many do not fit.
func wantShared(t *testing.T, wanted, page []uint64) (lost int) {
	t.Helper()
	var largest int
	kept, gone := map[byte]int{}, map[byte]bool{}
	for _, k := range wanted {
		if len(page) > 0 && page[0] == k {
			if gone[tenantOf(k)] {
				t.Fatalf("tenant %d lost an entry that was in front of another of its own", tenantOf(k))
			}
			kept[tenantOf(k)]++
			largest = max(largest, kept[tenantOf(k)])
			page = page[1:]
			continue
		}
		gone[tenantOf(k)] = true
		lost++
	}
	if len(page) > 0 || lost > 0 && len(wanted)-lost != maxEntries {
		t.Fatalf("%d of %d entries were evicted, %d are in the wrong order", lost, len(wanted), len(page))
	}
	for tenant := range gone {
		if kept[tenant] < largest-1 {
			t.Fatalf("tenant %d lost entries and has %d, another has %d", tenant, kept[tenant], largest)
		}
	}
	return lost
}

// Prompts without a tenant share a page as those of one more tenant: they evict only each other.
func TestPageWithoutTenant(t *testing.T) {
	const some = 10
	for _, c := range []struct {
		first, second uint64
		left          int
	}{{7, prompt.NoTenant, some}, {prompt.NoTenant, 7, some}, {7, 7, 0}, {prompt.NoTenant, prompt.NoTenant, 0}} {
		var p page
		for i := range uint64(some) {
			p, _ = p.record(blocksOf(1000+i|c.first<<56), 1, 0)
		}
		for i := range uint64(2 * maxEntries) {
			p, _ = p.record(blocksOf(i+1|c.second<<56), 1, 0)
		}
		left := 0
		for _, k := range keysOf(p) {
			if k<<8>>8 >= 1000 {
				left++
			}
		}
		if left != c.left || len(p) != prefixindex.MaxPageSize {
			t.Errorf("tenant %d has %d of %d entries after a flood of tenant %d, want %d; %d bytes",
				c.first, left, some, c.second, c.left, len(p))
		}
	}
}
