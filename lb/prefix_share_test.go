package lb

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
)

// keysOf returns the keys in the page, from the front.
func keysOf(p page) (keys []uint64) {
	for at := 0; at < len(p); at += entrySize {
		keys = append(keys, binary.LittleEndian.Uint64(p[at:]))
	}
	return keys
}

func tenantOf(key uint64) byte { return prompt.Block{Key: key}.Tenant() }

// drawBlocks returns blocks of a tenant that are in the page, as far as they were in one run before, or else new ones.
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

// Whoever notes whatever in a page, it has an upper size; what was noted is in front, the rest stays in its order; and
// a tenant that has lost something has as much as every other, but for one entry: so the first to lose is who has most.
func TestPageIsShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lost := 0
	for tenants := 0; tenants < 200; tenants += 1 + tenants/8 {
		var p page
		for step := range 200 {
			tenant := byte(min(rng.IntN(tenants+1), rng.IntN(tenants+1))) // what nobody has claimed is one more tenant's
			blocks, before := drawBlocks(rng, p, tenant), keysOf(p)
			p, _ = p.note(blocks, rng.Uint32()|1, uint16(step*freshFor))
			after := keysOf(p)
			if len(after) > mostEntries {
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
		t.Errorf("only %d entries were lost: that tests little", lost)
	}
}

// wantShared expects a page to have those of the wanted entries that fit in. It returns how many do not.
func wantShared(t *testing.T, wanted, page []uint64) (lost int) {
	t.Helper()
	var most int
	kept, gone := map[byte]int{}, map[byte]bool{}
	for _, k := range wanted {
		if len(page) > 0 && page[0] == k {
			if gone[tenantOf(k)] {
				t.Fatalf("tenant %d has lost an entry that was in front of another of its own", tenantOf(k))
			}
			kept[tenantOf(k)]++
			most = max(most, kept[tenantOf(k)])
			page = page[1:]
			continue
		}
		gone[tenantOf(k)] = true
		lost++
	}
	if len(page) > 0 || lost > 0 && len(wanted)-lost != mostEntries {
		t.Fatalf("%d of %d entries were lost, %d are in the wrong order", lost, len(wanted), len(page))
	}
	for tenant := range gone {
		if kept[tenant] < most-1 {
			t.Fatalf("tenant %d has lost entries and has %d, another has %d", tenant, kept[tenant], most)
		}
	}
	return lost
}

// Who notes prompts without a tenant has a part of the page as any tenant: what is too much of them is their own.
func TestPageOfNobody(t *testing.T) {
	const some = 10
	for _, c := range []struct {
		first, second uint64
		left          int
	}{{7, prompt.NoTenant, some}, {prompt.NoTenant, 7, some}, {7, 7, 0}, {prompt.NoTenant, prompt.NoTenant, 0}} {
		var p page
		for i := range uint64(some) {
			p, _ = p.note(blocksOf(1000+i|c.first<<56), 1, 0)
		}
		for i := range uint64(2 * mostEntries) {
			p, _ = p.note(blocksOf(i+1|c.second<<56), 1, 0)
		}
		left := 0
		for _, k := range keysOf(p) {
			if k<<8>>8 >= 1000 {
				left++
			}
		}
		if left != c.left || len(p) != pageMost {
			t.Errorf("tenant %d has %d of %d entries after a flood of tenant %d, want %d; %d bytes", c.first, left, some, c.second, c.left, len(p))
		}
	}
}
