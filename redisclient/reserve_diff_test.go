package redisclient_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// plansWanted is how many random plans reserve.lua and lb.Choose must agree on, a part of them on each version.
const plansWanted = 120_000

// differential holds reserve.lua to lb.Choose: it reserves by random plans over several owners, keeps the loads that
// must come of it and who must have which prompts, and expects what lb.Choose says of them.
type differential struct {
	t      testing.TB
	rng    *rand.Rand
	pipe   *batchTransport
	server *redisserver.Server
	owners []lb.Store
	next   lb.LeaseID
	plans  int
	full   int // of the plans: no candidate had room
	warm   int // the one that was chosen had some of the prompt
	now    time.Duration
}

func newDifferential(t testing.TB, rng *rand.Rand, version string) *differential {
	d := &differential{t: t, rng: rng, server: redisserver.StartT(t, redisserver.Options{Version: version}), now: time.Hour, next: 10}
	d.pipe = newBatchTransport(t, d.server)
	for owner := range uint64(3) {
		s := redisclient.New(d.pipe, redisclient.Options{Owner: owner + 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()})
		d.owners = append(d.owners, s)
		// Scripts are made known first: what is sent again because of that comes in another order.
		first := storetest.Even(storetest.Addrs(1))
		for id, plan := range []*lb.Plan{first, storetest.WithPrompt(first, 1, storetest.Blocks(1))} {
			s.Reserve(d.now, lb.LeaseID(id), plan, func(lb.Grant, error) {})
			d.pipe.flush(d.now)
			s.ForgetPrompt(d.now, lb.LeaseID(id), plan, first.Candidates[0].Addr, 0)
			s.Release(d.now, lb.LeaseID(id))
			d.pipe.flush(d.now)
		}
	}
	return d
}

// TestReserveIsChoose compares a great many random plans.
func TestReserveIsChoose(t *testing.T) {
	for i, version := range redisserver.Versions() {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		t.Run(fmt.Sprintf("%s seed %d", version, seed), func(t *testing.T) {
			d := newDifferential(t, rand.New(rand.NewPCG(seed, 1)), version)
			for d.plans < plansWanted/len(redisserver.Versions()) {
				d.round()
			}
			if d.full < d.plans/100 || d.full > d.plans/2 {
				t.Errorf("of %d plans %d found no room: the plans test little", d.plans, d.full)
			}
			if d.warm < d.plans/5 || d.warm > 2*d.plans/3 {
				t.Errorf("of %d plans %d went where some of the prompt was: the plans test little", d.plans, d.warm)
			}
		})
	}
}

// FuzzReserve lets the fuzzer choose the plans.
func FuzzReserve(f *testing.F) {
	source := &bytesSource{}
	d := newDifferential(f, rand.New(source), "")
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		d.t, d.pipe.t = t, t
		source.data = data
		d.round()
	})
}

// bytesSource is a source of random numbers that the fuzzer writes. Behind the end it counts, as generators that wait
// for a small number would not end on zeros.
type bytesSource struct {
	data  []byte
	count uint64
}

func (b *bytesSource) Uint64() (n uint64) {
	if len(b.data) == 0 {
		b.count += 0x9e3779b97f4a7c15
		return b.count
	}
	for range 8 {
		n <<= 8
		if len(b.data) > 0 {
			n |= uint64(b.data[0])
			b.data = b.data[1:]
		}
	}
	return n
}

// testScope is a set of endpoints in a scope of their own and what they carry.
type testScope struct {
	scope string
	addrs []string
	loads map[string]lb.Load
	held  []grant // and answered

	chains     [][]prompt.Block // prompts
	indexBytes int              // bytes for who has them
	pages      *pagesModel      // that
	began      time.Time        // from when on the ages in there count
	tick       uint16           // then
}

type grant struct {
	owner  lb.Store
	id     lb.LeaseID
	addr   string
	tokens int64
}

// round reserves on one new field, and releases everything.
func (d *differential) round() {
	d.now += time.Minute // views of another round are not expected to be known
	f := &testScope{scope: fmt.Sprintf("field %d", d.next), loads: map[string]lb.Load{}, began: time.Now(), tick: tickNow()}
	f.indexBytes = 1 << (10 + d.rng.IntN(14))
	f.pages = newPagesModel(f.scope, f.indexBytes)
	n := 1 + d.rng.IntN(24)
	if d.rng.IntN(6) == 0 {
		n = 1 + d.rng.IntN(300)
	}
	for i := range n {
		f.addrs = append(f.addrs, fmt.Sprintf("10.0.%d.%d:8000", i>>8, i&255))
	}
	d.prompts(f)
	for range 1 + d.rng.IntN(6) {
		cs := d.candidates(f)
		for range 1 + d.rng.IntN(60) {
			if tickNow() != f.tick {
				f.chains = nil // which of two pages was written first may look otherwise by another clock
			}
			d.reserve(f, cs)
			if len(f.held) > 0 && d.rng.IntN(4) == 0 {
				d.release(f, d.rng.IntN(len(f.held)))
			}
			if d.rng.IntN(10) == 0 {
				d.forget(f)
			}
		}
		d.pipe.flush(d.now)
		if d.rng.IntN(2) == 0 {
			d.writeLoads(f)
		}
		if time.Since(f.began) > stableFor {
			d.t.Logf("a field that took %v is given up: what was fresh at its beginning may not be now", time.Since(f.began))
			f.chains = nil
		}
	}
	d.comparePages(f)
	for len(f.held) > 0 {
		d.release(f, 0)
	}
	d.pipe.flush(d.now)
}

// writeLoads writes other totals into the table than any test could reserve.
func (d *differential) writeLoads(f *testScope) {
	edges := []int64{1, 1 << 8, 1 << 16, 1 << 20}
	edge := edges[d.rng.IntN(len(edges))]
	keys := redisclient.KeysOf(f.scope)
	rows, err := d.server.Do("HGETALL", keys.Rows)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(rows.Array()); i += 2 {
		addr, row := rows.Array()[i].String(), rows.Array()[i+1].Integer()
		l := lb.Load{Requests: edge + int64(d.rng.IntN(3)) - 1, Tokens: edge*edge + int64(d.rng.IntN(3)) - 1}
		if d.rng.IntN(3) == 0 {
			l = lb.Load{Requests: d.rng.Int64N(1 << (1 + d.rng.IntN(20))), Tokens: d.rng.Int64N(1 << (1 + d.rng.IntN(46)))}
		}
		raw := binary.LittleEndian.AppendUint64(nil, uint64(l.Requests))[:3]
		raw = append(raw, binary.LittleEndian.AppendUint64(nil, uint64(l.Tokens))[:6]...)
		if _, err := d.server.Do("SETRANGE", keys.Table, 16+9*row, raw); err != nil {
			d.t.Fatal(err)
		}
		f.loads[addr] = l
	}
}

// candidates draws a list over some of the endpoints, in any order. Some lists are of equal terms, as most clusters
// are, some of few different ones, so that costs are often equal.
func (d *differential) candidates(f *testScope) []lb.Candidate {
	style := d.rng.IntN(3)
	var out []lb.Candidate
	n := len(f.addrs)
	least := max(1, (n-64)/2) // a shorter list would make the scope forget the idle ones of the others
	if d.rng.IntN(3) == 0 {
		least = n
	}
	for k, i := range d.rng.Perm(n)[:least+d.rng.IntN(n-least+1)] {
		c := lb.Candidate{Base: d.number(style == 0), Slope: d.number(style == 0), Weight: d.weight(style == 0)}
		if d.rng.IntN(3) == 0 {
			c.Cap = int64(d.rng.IntN(5))
		}
		if d.rng.IntN(2) == 0 {
			c.Capacity, c.OverSlope = float64(d.tokens())/float64(1+d.rng.IntN(3)), max(0, d.number(style == 0))
		}
		if style == 2 && k > 0 {
			c = out[0]
		}
		c.Addr = f.addrs[i]
		out = append(out, c)
	}
	return out
}

// number draws a base or a slope.
func (d *differential) number(few bool) float64 {
	if few {
		return float64(d.rng.IntN(3)) / 2
	}
	switch d.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return 1e-9 * d.rng.Float64()
	case 3:
		return 1e9 * d.rng.Float64()
	case 4:
		return -d.rng.Float64()
	case 5:
		return float64(d.rng.IntN(1000)) / 7
	}
	return d.rng.Float64()
}

// weight draws a weight, odd fractions among them.
func (d *differential) weight(few bool) float64 {
	if few {
		return float64(1 + d.rng.IntN(3))
	}
	switch d.rng.IntN(4) {
	case 0:
		return 1
	case 1:
		return float64(1+d.rng.IntN(20)) / 3
	case 2:
		return 1e-6 + 1e6*d.rng.Float64()
	}
	return 1 / float64(1+d.rng.IntN(20))
}

// tokens draws what a request needs, often at a boundary.
func (d *differential) tokens() int64 {
	edges := []int64{0, 1, 255, 256, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, 1 << 40, -1}
	if d.rng.IntN(3) == 0 {
		return edges[d.rng.IntN(len(edges))]
	}
	return d.rng.Int64N(int64(1) << (1 + d.rng.IntN(32)))
}

// reserve sends one reservation; its answer must be what lb.Choose says.
func (d *differential) reserve(f *testScope, cs []lb.Candidate) {
	p := lb.Plan{
		Scope: f.scope, Candidates: cs, Unit: lb.Unit(d.rng.IntN(2)), Tokens: d.tokens(), Tie: d.rng.Uint64() >> d.rng.IntN(64),
	}
	if d.rng.IntN(2) == 0 {
		p.PerRequest = d.rng.Int64N(int64(1) << (1 + d.rng.IntN(32)))
	}
	d.prompt(f, &p)
	loads, matched := make([]lb.Load, len(cs)), make([]int, len(cs))
	held := f.pages.match(&p.Prefix, tickNow())
	for i := range cs {
		loads[i], matched[i] = f.loads[cs[i].Addr], held[endpointTag(cs[i].Addr)]
	}
	d.plans++
	want, wantErr := lb.Grant{Index: lb.Choose(&p, loads, matched)}, error(nil)
	d.next++
	g := grant{owner: d.owners[d.rng.IntN(len(d.owners))], id: d.next}
	if want.Index == lb.Full {
		want, wantErr = lb.Grant{}, lb.ErrFull
		d.full++
	} else {
		want.Cached = matched[want.Index]
		if want.Cached > 0 {
			d.warm++
		}
		g.addr, g.tokens = cs[want.Index].Addr, p.Work(want.Cached)
		want.Load = f.add(g, 1)
		f.pages.record(p.Prefix.Blocks, endpointTag(g.addr), tickNow())
	}
	g.owner.Reserve(d.now, g.id, &p, func(got lb.Grant, err error) {
		if err == nil {
			f.held = append(f.held, g)
		}
		if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			d.t.Fatalf("reserve.lua says %+v %v, lb.Choose %+v %v\nloads %v\nmatched %v\nplan %+v",
				got, err, want, wantErr, loads, matched, p)
		}
	})
}

func (d *differential) release(f *testScope, i int) {
	g := f.held[i]
	f.held[i] = f.held[len(f.held)-1]
	f.held = f.held[:len(f.held)-1]
	f.add(g, -1)
	g.owner.Release(d.now, g.id)
}

// add counts the grant n times and returns the endpoint's load.
func (f *testScope) add(g grant, n int64) lb.Load {
	l := f.loads[g.addr]
	l.Requests = max(0, l.Requests+n)
	l.Tokens = max(0, l.Tokens+n*g.tokens)
	f.loads[g.addr] = l
	return l
}
