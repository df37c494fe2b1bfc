package redisclient_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// storePair is the embedded store and the one in Redis, which get the same calls.
type storePair struct {
	rt      *rapid.T
	rng     *rand.Rand // seeded for each step, so that a failing history is reduced to few steps
	stores  [2]lb.Store
	addrs   []string
	prompts []pairPrompt
	next    lb.LeaseID
	keys    uint64 // that were drawn
	cached  int    // blocks that both have found
}

// pairPrompt is a prompt.
type pairPrompt struct {
	blocks   []prompt.Block
	shared   int  // blocks that it has in common with an earlier prompt
	branched bool // later prompts begin with blocks of this one
}

func newStorePair(rt *rapid.T, server *redisserver.Server) *storePair {
	w, kv := dial(rt, server), newMemory()
	w.value("FLUSHALL")
	if err := memstore.Prepare(kv); err != nil {
		rt.Fatal(err)
	}
	return &storePair{rt: rt, stores: [2]lb.Store{
		memstore.New(kv, 1, time.Hour),
		redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()}),
	}, addrs: storetest.Addrs(4)}
}

// drawPrompt draws an earlier prompt, or a new one, which mostly begins with blocks of an earlier one.
func (d *storePair) drawPrompt() *pairPrompt {
	if len(d.prompts) > 0 && d.rng.IntN(3) == 0 {
		return &d.prompts[d.rng.IntN(len(d.prompts))]
	}
	var p pairPrompt
	if len(d.prompts) > 0 && d.rng.IntN(5) > 0 {
		parent := &d.prompts[d.rng.IntN(len(d.prompts))]
		p.shared, parent.branched = d.rng.IntN(min(len(parent.blocks)+1, prompt.MaxBlocks)), true
		p.blocks = slices.Clone(parent.blocks[:p.shared])
	}
	fine := d.rng.IntN(2) * d.rng.IntN(8) // how many of eight are, about
	for range min(1+d.rng.IntN(2<<d.rng.IntN(7)), prompt.MaxBlocks-p.shared) {
		d.keys++ // no two blocks have the same key
		p.blocks = append(p.blocks, prompt.Block{
			Key: d.keys * 0x9e3779b97f4a7c15 >> 8, End: 100 * (len(p.blocks) + 1),
			Fine: len(p.blocks) > 0 && d.rng.IntN(8) < fine,
		})
	}
	d.prompts = append(d.prompts, p)
	return &d.prompts[len(d.prompts)-1]
}

// step makes one call to both stores, and expects the same answer.
func (d *storePair) step() {
	d.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(d.rt, "step"), 1))
	p := d.drawPrompt()
	blocks := d.cut(p.blocks)
	plan := d.plan(&pairPrompt{blocks: blocks})
	shared := min(p.shared, len(blocks))
	addr, n := d.addrs[d.rng.IntN(len(d.addrs))], shared+d.rng.IntN(len(blocks)-shared+1)
	// Blocks behind forgotten ones would match again only if they are in the same page.
	if p.branched || len(blocks) < len(p.blocks) {
		n = len(blocks)
	}
	d.next++
	var grants [2]lb.Grant
	kind := d.rng.IntN(6)
	for i, s := range d.stores {
		switch kind {
		case 0:
			s.ForgetPrompt(time.Hour, d.next, plan, addr, n)
		case 1:
			s.RecordPrompt(time.Hour, d.next, plan, addr)
		default:
			grants[i] = d.reserve(s, plan, kind > 2)
		}
	}
	if grants[0] != grants[1] {
		d.rt.Fatalf("step %d, a prompt of %d blocks: %+v in a gateway, %+v in Redis",
			d.next, len(blocks), grants[0], grants[1])
	}
	d.cached += grants[0].Cached
}

// cut draws where a prompt ends, and from where on its end is cut finely.
func (d *storePair) cut(blocks []prompt.Block) (cut []prompt.Block) {
	if d.rng.IntN(8) == 0 {
		blocks = blocks[:1+d.rng.IntN(len(blocks))]
	}
	from, whole := d.rng.IntN(2)*d.rng.IntN(len(blocks)+1), 0
	for i, b := range blocks {
		if !b.Fine {
			whole = i
		}
	}
	for from > 0 && blocks[from-1].Fine { // all of a block is cut finely, or nothing
		from--
	}
	for i, b := range blocks {
		if b.Inner = b.Fine && i < whole; !b.Fine || i >= from {
			cut = append(cut, b)
		}
	}
	return cut
}

// plan draws a plan for the prompt.
func (d *storePair) plan(p *pairPrompt) *lb.Plan {
	plan := storetest.WithPrompt(storetest.Even(d.addrs), 0.1+2*d.rng.Float64(), p.blocks)
	plan.Prefix.IndexMemory.Local, plan.Prefix.IndexMemory.Remote, plan.Prefix.TTL = 16<<20, 16<<20, time.Hour
	plan.Random = d.rng.Uint64()
	if d.rng.IntN(3) == 0 {
		for _, i := range d.rng.Perm(len(plan.Candidates)) {
			plan.Home.Order = append(plan.Home.Order, uint16(i))
		}
		plan.Home.LoadFactor = float64(d.rng.IntN(2)) * 1.25
	}
	return plan
}

// reserve reserves, and releases that lease or an earlier one.
func (d *storePair) reserve(s lb.Store, plan *lb.Plan, releaseNow bool) (grant lb.Grant) {
	s.Reserve(time.Hour, d.next, plan, func(g lb.Grant, err error) {
		if err != nil {
			d.rt.Fatal(err)
		}
		grant = g
	})
	if releaseNow {
		s.Release(time.Hour, d.next)
	} else if d.next > 20 {
		s.Release(time.Hour, d.next-20)
	}
	return grant
}

// run runs one history and returns how many steps it had and how many blocks were found.
func (d *storePair) run() (steps, cached int) {
	d.rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step() }})
	return int(d.next), d.cached
}

// Both stores find the same blocks of the same prompts, as long as there is room for all of them.
func TestStoresRememberTheSame(t *testing.T) {
	storetest.SetRapid(t, "checks", "20")
	storetest.SetRapid(t, "steps", "500")
	steps, cached := 0, 0 // on all versions: on one there may be too few histories to tell
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			rapid.Check(t, func(rt *rapid.T) {
				n, found := newStorePair(rt, server).run()
				steps, cached = steps+n, cached+found
			})
			t.Logf("so far %d blocks were found in %d steps", cached, steps)
		})
	}
	if cached < 5*steps {
		t.Errorf("%d blocks were found in %d steps: that tests little", cached, steps)
	}
}

// FuzzStoresRememberTheSame lets the fuzzer choose the calls.
func FuzzStoresRememberTheSame(f *testing.F) {
	server := redisserver.StartT(f, redisserver.Options{})
	fuzzRapid(f, func(rt *rapid.T) { newStorePair(rt, server).run() })
}
