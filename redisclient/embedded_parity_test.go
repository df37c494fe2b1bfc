package redisclient_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// storePair are the embedded store and the one in Redis, which get the same calls.
type storePair struct {
	t      testing.TB
	rng    *rand.Rand
	stores [2]lb.Store
	addrs  []string
	chains []pairPrompt
	next   lb.LeaseID
	keys   uint64 // that were drawn
	cached int    // blocks that both have found
}

// pairPrompt is a prompt.
type pairPrompt struct {
	blocks []prompt.Block
	shared int  // blocks that it has of another one
	parent bool // others branch off from it
}

func newStorePair(t testing.TB, rng *rand.Rand, server *redisserver.Server) *storePair {
	w, kv := dial(t, server), newMemory()
	w.value("FLUSHALL")
	if err := lb.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	return &storePair{t: t, rng: rng, stores: [2]lb.Store{
		lb.NewMemStore(kv, 1, time.Hour),
		redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()}),
	}, addrs: storetest.Addrs(4)}
}

// drawPrompt draws a new prompt, most of which branch off from another one, or one that was there before.
func (d *storePair) drawPrompt() *pairPrompt {
	if len(d.chains) > 0 && d.rng.IntN(3) == 0 {
		return &d.chains[d.rng.IntN(len(d.chains))]
	}
	var c pairPrompt
	if len(d.chains) > 0 && d.rng.IntN(5) > 0 {
		parent := &d.chains[d.rng.IntN(len(d.chains))]
		c.shared, parent.parent = d.rng.IntN(min(len(parent.blocks)+1, prompt.MaxBlocks)), true
		c.blocks = slices.Clone(parent.blocks[:c.shared])
	}
	for range min(1+d.rng.IntN(2<<d.rng.IntN(7)), prompt.MaxBlocks-c.shared) {
		d.keys++ // no two blocks have the same, whatever a fuzzer writes
		c.blocks = append(c.blocks, prompt.Block{Key: d.keys * 0x9e3779b97f4a7c15 >> 8, End: 100 * (len(c.blocks) + 1)})
	}
	d.chains = append(d.chains, c)
	return &d.chains[len(d.chains)-1]
}

// step asks both stores for one thing, and expects the same answer.
func (d *storePair) step() {
	c := d.drawPrompt()
	plan := storetest.WithPrompt(storetest.Even(d.addrs), 0.1+2*d.rng.Float64(), c.blocks)
	plan.Prefix.MemoryBytes, plan.Prefix.RedisBytes, plan.Prefix.TTL, plan.Tie = 16<<20, 16<<20, time.Hour, d.rng.Uint64()
	addr, n := d.addrs[d.rng.IntN(len(d.addrs))], c.shared+d.rng.IntN(len(c.blocks)-c.shared+1)
	if c.parent { // what is left behind blocks that nobody has any more is known again only if it is in the same page
		n = len(c.blocks)
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
			s.Reserve(time.Hour, d.next, plan, func(g lb.Grant, err error) {
				if err != nil {
					d.t.Fatal(err)
				}
				grants[i] = g
			})
			if kind > 2 { // the others stay in flight for a while
				s.Release(time.Hour, d.next)
			} else if d.next > 20 {
				s.Release(time.Hour, d.next-20)
			}
		}
	}
	if grants[0] != grants[1] {
		d.t.Fatalf("step %d, a prompt of %d blocks: %+v in a gateway, %+v in Redis",
			d.next, len(c.blocks), grants[0], grants[1])
	}
	d.cached += grants[0].Cached
}

// Both stores find the same blocks of the same prompts, as long as there is room for all of them.
func TestStoresRememberTheSame(t *testing.T) {
	const steps = 5000
	for _, version := range redisserver.Versions() {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprintf("%s seed %d", version, seed), func(t *testing.T) {
			d := newStorePair(t, rand.New(rand.NewPCG(seed, 1)), redisserver.StartT(t, redisserver.Options{Version: version}))
			for range steps {
				d.step()
			}
			if d.cached < 5*steps {
				t.Errorf("%d blocks were found: that tests little", d.cached)
			}
		})
	}
}

// FuzzStoresRememberTheSame lets the fuzzer choose the calls.
func FuzzStoresRememberTheSame(f *testing.F) {
	server := redisserver.StartT(f, redisserver.Options{})
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newStorePair(t, rand.New(&bytesSource{data: data}), server)
		for range 40 {
			d.step()
		}
	})
}
