package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// stableFor is how long the ages below stay on the same side of every limit.
const stableFor = 8 * time.Second

// ages are in ticks, and not near the limits: 8 for a fresh record, and the TTLs of 15 and 900.
var ages = []uint16{0, 1, 4, 11, 18, 100, 800, 896, 903, 2000, 40000}

// prompts draws prompts, most of which have the beginning of another one, and writes pages with some of them.
func (d *differential) prompts(f *testScope) {
	scale := 1 << d.rng.IntN(20)
	for range 1 + d.rng.IntN(8) {
		var chain []prompt.Block
		if len(f.chains) > 0 && d.rng.IntN(4) > 0 {
			parent := f.chains[d.rng.IntN(len(f.chains))]
			chain = slices.Clone(parent[:d.rng.IntN(len(parent)+1)])
		}
		end, n, tenant := 0, 1+d.rng.IntN(2<<d.rng.IntN(8)), d.key(d.rng.IntN(2) == 0)>>56<<56
		if len(chain) > 0 {
			end, tenant = chain[len(chain)-1].End, chain[0].Key>>56<<56
		}
		for range min(n, prompt.MaxBlocks-len(chain)) {
			end += 1 + d.rng.IntN(scale)
			chain = append(chain, prompt.Block{Key: tenant | d.key(false), End: end})
		}
		f.chains = append(f.chains, chain)
	}
	for range d.rng.IntN(12) {
		d.writePrompt(f, f.chains[d.rng.IntN(len(f.chains))])
	}
}

// writePrompt writes some of a prompt's blocks into pages that they may be in, among others, with any endpoints.
func (d *differential) writePrompt(f *testScope, chain []prompt.Block) {
	slot := f.pages.ownPage(chain[0])
	for len(chain) > 0 {
		n := 1 + d.rng.IntN(min(20, len(chain)))
		d.writePage(f, slot, chain[:n])
		if chain = chain[n:]; len(chain) > 0 && d.rng.IntN(8) > 0 {
			slot = f.pages.ownPage(chain[0])
		}
	}
}

// writePage writes a page with some of the blocks, unless it would be empty.
func (d *differential) writePage(f *testScope, slot uint64, blocks []prompt.Block) {
	value := d.page(f, blocks)
	if len(value) == 0 {
		return
	}
	f.pages.pages[slot] = value
	if _, err := d.server.Do("HSET", f.pages.key, modelField(slot), string(value)); err != nil {
		d.rt.Fatal(err)
	}
	if _, err := d.server.Do("PEXPIRE", f.pages.key, 600_000); err != nil {
		d.rt.Fatal(err)
	}
}

// page draws a page with entries of some of the blocks, among others.
func (d *differential) page(f *testScope, blocks []prompt.Block) (value []byte) {
	for _, b := range blocks {
		if d.rng.IntN(100) == 0 {
			continue
		}
		for d.rng.IntN(8) == 0 {
			value = append(value, d.misplacedKey(f, b.Key)...)
		}
		value = append(value, d.entry(f, b.Key)...)
	}
	others, owned := 1+d.rng.IntN(3<<d.rng.IntN(6)), 1+d.rng.IntN(64) // one in so many is some tenant's
	for d.rng.IntN(others) > 0 && len(value) < modelPageEntries*modelEntry {
		value = append(value, d.entry(f, d.key(d.rng.IntN(owned) == 0))...)
	}
	if len(value) > 0 && d.rng.IntN(20) == 0 { // an incomplete entry, which no script writes
		value = value[:len(value)-1-d.rng.IntN(min(31, len(value)-1))]
	}
	return value
}

// key draws the key of a block, of one of few tenants or of none.
func (d *differential) key(owned bool) uint64 {
	key := d.rng.Uint64() >> 8
	if owned {
		key |= uint64(1+d.rng.IntN(1<<d.rng.IntN(8))) << 56
	}
	return key
}

// misplacedKey draws an entry of another block that contains the given key at a position where no key can be.
func (d *differential) misplacedKey(f *testScope, key uint64) []byte {
	for {
		e := d.entry(f, d.key(false))
		binary.LittleEndian.PutUint64(e[1+d.rng.IntN(modelEntry-8):], key)
		if agesAreStable(e) {
			return e
		}
	}
}

// agesAreStable reports whether no age in the entry is near a limit.
func agesAreStable(e []byte) bool {
	for i := 12; i < modelEntry; i += 6 {
		age := tickNow() - binary.LittleEndian.Uint16(e[i:])
		for _, limit := range []uint16{0, 8, 16, 901} {
			if left := limit - age; 0 < left && left < 5 {
				return false
			}
		}
	}
	return true
}

// entry draws an entry for a block.
func (d *differential) entry(f *testScope, block uint64) []byte {
	e := binary.LittleEndian.AppendUint64(nil, block)
	for range d.rng.IntN(5) {
		endpoint := d.rng.Uint32() | 1
		if d.rng.IntN(4) > 0 {
			endpoint = endpointTag(f.addrs[d.rng.IntN(len(f.addrs))])
		}
		e = binary.LittleEndian.AppendUint32(e, endpoint)
		e = binary.LittleEndian.AppendUint16(e, tickNow()-ages[d.rng.IntN(len(ages))])
	}
	return append(e, make([]byte, modelEntry-len(e))...)
}

// prompt gives the plan a prompt, mostly, and has it stall others, at times.
func (d *differential) prompt(f *testScope, p *lb.Plan) {
	if d.rng.IntN(2) == 0 {
		p.Stall = d.number(d.rng.IntN(2) == 0) * float64(int64(1)<<d.rng.IntN(16))
	}
	if len(f.chains) == 0 || d.rng.IntN(4) == 0 {
		return
	}
	chain := f.chains[d.rng.IntN(len(f.chains))]
	p.Prefix = lb.Prefix{
		Blocks: chain, Bytes: chain[len(chain)-1].End + d.rng.IntN(2)*d.rng.IntN(5000), Tokens: max(0, d.tokens()),
		Credit: d.number(d.rng.IntN(2) == 0) * float64(int64(1)<<d.rng.IntN(16)), TTL: time.Minute,
		IndexMemory: lb.IndexMemory{Remote: f.indexBytes},
	}
	if d.rng.IntN(2) == 0 {
		for _, b := range chain {
			p.Prefix.CreditBytes = append(p.Prefix.CreditBytes, uint32(d.rng.IntN(2*b.End+1)))
		}
	}
	if d.rng.IntN(3) == 0 {
		p.Prefix.TTL = time.Hour
	}
	if d.rng.IntN(2) == 0 {
		p.Prefix.Tokens = min(max(0, p.Tokens), p.Prefix.Tokens)
	}
	if d.rng.IntN(2) == 0 {
		p.Prefix.CreditGrowth = []float64{0.01, 0.5, 1.0 / 3, 2}[d.rng.IntN(4)]
	}
	if d.rng.IntN(4) == 0 {
		p.Prefix.ShortTTL = d.shortTTLs(f)
	}
}

// shortTTLs draws endpoints whose TTL is not the prompt's.
func (d *differential) shortTTLs(f *testScope) (out []lb.EndpointTTL) {
	for range d.rng.IntN(5) {
		ttl := []time.Duration{time.Minute, time.Hour}[d.rng.IntN(2)]
		out = append(out, lb.EndpointTTL{Endpoint: endpointTag(f.addrs[d.rng.IntN(len(f.addrs))]), TTL: ttl})
	}
	return out
}

// forget deletes the record that an endpoint has a prompt, or the end of it.
func (d *differential) forget(f *testScope) {
	if len(f.chains) == 0 {
		return
	}
	chain, addr := f.chains[d.rng.IntN(len(f.chains))], f.addrs[d.rng.IntN(len(f.addrs))]
	n := d.rng.IntN(len(chain) + 1)
	p := &lb.Plan{Scope: f.scope, Prefix: lb.Prefix{Blocks: chain, IndexMemory: lb.IndexMemory{Remote: f.indexBytes}}}
	d.owners[d.rng.IntN(len(d.owners))].ForgetPrompt(d.now, 0, p, addr, n)
	f.pages.forget(chain, endpointTag(addr), n)
}

// comparePages checks that Redis has the pages of the model, with a time to live.
func (d *differential) comparePages(f *testScope) {
	if f.chains == nil {
		return
	}
	got, err := d.server.Do("HGETALL", f.pages.key)
	if err != nil {
		d.rt.Fatal(err)
	}
	pages := got.Array()
	if len(pages) != 2*len(f.pages.pages) {
		d.rt.Fatalf("%d pages, want %d", len(pages)/2, len(f.pages.pages))
	}
	ttl, err := d.server.Do("PTTL", f.pages.key)
	if ms := ttl.Integer(); len(pages) > 0 && (err != nil || ms <= 0 || ms > 3_600_000) {
		d.rt.Fatalf("the pages live for %v ms, %v", ttl, err)
	}
	for i := 0; i < len(pages); i += 2 {
		name := append(pages[i].Bytes(), 0)
		slot := uint64(binary.LittleEndian.Uint32(name))
		if want := f.pages.pages[slot]; !bytes.Equal(withoutTicks(pages[i+1].Bytes()), withoutTicks(want)) {
			d.rt.Fatalf("page %d\nis   %x\nwant %x", slot, withoutTicks(pages[i+1].Bytes()), withoutTicks(want))
		}
	}
}

// withoutTicks returns a page with all ticks set to 0, since two clocks may differ.
func withoutTicks(page []byte) []byte {
	out := bytes.Clone(page)
	for at := 0; at+modelEntry <= len(out); at += modelEntry {
		for i := at + 12; i < at+modelEntry; i += 6 {
			clear(out[i : i+2])
		}
	}
	return out
}

// home draws an order of some candidates or of all, mostly with a load factor.
func (d *differential) home(candidates int) (h lb.Home) {
	for _, i := range d.rng.Perm(candidates)[:1+d.rng.IntN(candidates)] {
		h.Order = append(h.Order, uint16(i))
	}
	h.Order = h.Order[:min(len(h.Order), lb.MaxOrder)]
	if d.rng.IntN(4) > 0 {
		h.LoadFactor = 1.01 + 2*d.rng.Float64()*d.rng.Float64()
		h.Free = d.rng.Int64N(4) * d.rng.Int64N(3)
		if d.rng.IntN(8) == 0 {
			h.LoadFactor = math.Inf(1)
		}
	}
	return h
}
