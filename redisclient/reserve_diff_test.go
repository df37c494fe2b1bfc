package redisclient_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// differential compares reserve.lua with lb.Choose: it reserves by random plans for several owners, keeps the loads
// that result and the prompts that must be recorded, and compares each answer with what lb.Choose returns for them.
type differential struct {
	rt     *rapid.T
	rng    *rand.Rand // seeded for each step, so that a failing history is reduced to few steps
	pipe   *batchTransport
	server *redisserver.Server
	owners []lb.Store
	next   lb.LeaseID
	now    time.Duration
	total  *diffTotal
}

// diffTotal counts over all histories.
type diffTotal struct {
	plans int
	full  int // plans for which no candidate was below its cap
	warm  int // plans for which the chosen candidate had some of the prompt

	home, displaced int // plans with a home and a load factor that went there, and that did not
}

// differentialActions are the steps of a history. The more often one is listed, the likelier it is.
var differentialActions = slices.Concat(
	slices.Repeat([]string{"reserve"}, 23), slices.Repeat([]string{"release"}, 6),
	[]string{"forget a prompt", "forget a prompt", "new candidates"},
)

// runDifferential runs one history, on a server that has the scripts: commands that are sent again would be in another
// order.
func runDifferential(rt *rapid.T, server *redisserver.Server, total *diffTotal) {
	d := &differential{rt: rt, pipe: newBatchTransport(rt, server), server: server, now: time.Hour, total: total}
	if _, err := server.Do("FLUSHALL"); err != nil {
		rt.Fatal(err)
	}
	for owner := range uint64(3) {
		d.owners = append(d.owners, redisclient.New(d.pipe, redisclient.Options{
			Owner: owner + 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory(),
		}))
	}
	d.seed("endpoints")
	f := d.newScope()
	f.candidates = d.candidates(f)
	rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { d.step(f) }})
	d.flush(f)
	d.comparePages(f)
	for len(f.held) > 0 {
		d.release(f)
	}
	d.pipe.flush(d.now)
}

func (d *differential) step(f *testScope) {
	action := rapid.SampledFrom(differentialActions).Draw(d.rt, "action")
	d.seed(action)
	if tickNow() != f.tick {
		f.chains = nil // by another tick, another of two pages may have been written first
	}
	switch action {
	case "reserve":
		d.reserve(f)
	case "release":
		d.release(f)
	case "forget a prompt":
		d.forget(f)
	case "new candidates":
		d.flush(f)
		f.candidates = d.candidates(f)
	}
}

// seed begins the random numbers of one step.
func (d *differential) seed(label string) {
	d.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(d.rt, label), 1))
}

// TestReserveIsChoose compares about 60,000 random plans on the default version.
func TestReserveIsChoose(t *testing.T) {
	storetest.SetRapid(t, "steps", "140")
	var total diffTotal // on all versions: on one there may be too few histories to tell
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, 400)
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			loadScripts(dial(t, server))
			rapid.Check(t, func(rt *rapid.T) { runDifferential(rt, server, &total) })
			t.Logf("in all histories so far: %+v", total)
		})
	}
	if testing.Short() { // with fewer histories it says little
		return
	}
	if total.full < total.plans/100 || total.full > total.plans/2 {
		t.Errorf("of %d plans %d found no room: the plans test little", total.plans, total.full)
	}
	if total.warm < total.plans/5 || total.warm > 2*total.plans/3 {
		t.Errorf("of %d plans %d chose a warm endpoint: the plans test little", total.plans, total.warm)
	}
	if total.home < total.plans/20 || total.displaced < total.plans/20 {
		t.Errorf("of %d plans %d went home and %d elsewhere: the plans test little",
			total.plans, total.home, total.displaced)
	}
}

// FuzzReserve lets the fuzzer choose the plans.
func FuzzReserve(f *testing.F) {
	server := redisserver.StartT(f, redisserver.Options{})
	loadScripts(dial(f, server))
	fuzzRapid(f, func(rt *rapid.T) { runDifferential(rt, server, &diffTotal{}) })
}

// fuzzRapid lets the fuzzer write the random numbers of a property. Behind the end of its input they are always the
// same.
func fuzzRapid(f *testing.F, property func(*rapid.T)) {
	storetest.SetRapid(f, "steps", "40")
	f.Add([]byte{1, 2, 3})
	run := rapid.MakeFuzz(property)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		for more := rand.NewPCG(1, 1); len(data) < 1<<17; {
			data = binary.LittleEndian.AppendUint64(data, more.Uint64())
		}
		run(t, data)
	})
}

// testScope is a set of endpoints, their loads and the prompts that they have.
type testScope struct {
	scope string
	addrs []string
	loads map[string]lb.Load
	held  []grant // that were answered

	candidates []lb.Candidate // of the following plans

	chains     [][]prompt.Block // prompts; nil if they are not compared any more
	indexBytes int
	pages      *pagesModel
	began      time.Time // the ages in the pages are as of then
	tick       uint16    // at that time
}

// grant is a lease that was granted.
type grant struct {
	owner  lb.Store
	id     lb.LeaseID
	addr   string
	tokens int64
}

// newScope returns a scope with up to 300 endpoints and some prompts.
func (d *differential) newScope() *testScope {
	f := &testScope{scope: "llm", loads: map[string]lb.Load{}, began: time.Now(), tick: tickNow()}
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
	return f
}

// flush has the answers compared, and sometimes writes other loads.
func (d *differential) flush(f *testScope) {
	d.pipe.flush(d.now)
	if d.rng.IntN(2) == 0 {
		d.writeLoads(f)
	}
	if took := time.Since(f.began); took > stableFor {
		d.rt.Logf("the prompts are not compared any more after %v: fresh records may have become old", took)
		f.chains = nil
	}
}

// writeLoads writes larger totals into the table than a test could reserve.
func (d *differential) writeLoads(f *testScope) {
	edges := []int64{1, 1 << 8, 1 << 16, 1 << 20}
	edge := edges[d.rng.IntN(len(edges))]
	keys := redisclient.KeysOf(f.scope)
	rows, err := d.server.Do("HGETALL", keys.Rows)
	if err != nil {
		d.rt.Fatal(err)
	}
	for i := 0; i < len(rows.Array()); i += 2 {
		addr, row := rows.Array()[i].String(), rows.Array()[i+1].Integer()
		l := lb.Load{Requests: edge + int64(d.rng.IntN(3)) - 1, Tokens: edge*edge + int64(d.rng.IntN(3)) - 1}
		if d.rng.IntN(3) == 0 {
			l.Requests, l.Tokens = d.rng.Int64N(1<<(1+d.rng.IntN(20))), d.rng.Int64N(1<<(1+d.rng.IntN(46)))
		}
		raw := binary.LittleEndian.AppendUint64(nil, uint64(l.Requests))[:3]
		raw = append(raw, binary.LittleEndian.AppendUint64(nil, uint64(l.Tokens))[:6]...)
		if _, err := d.server.Do("SETRANGE", keys.Table, 16+9*row, raw); err != nil {
			d.rt.Fatal(err)
		}
		f.loads[addr] = l
	}
}

// candidates draws a list of some of the endpoints, in any order. In some lists all candidates are of one class, as in
// most clusters, in some they are of few, so that costs are often equal.
func (d *differential) candidates(f *testScope) []lb.Candidate {
	style := d.rng.IntN(3)
	var out []lb.Candidate
	n := len(f.addrs)
	shortest := max(1, (n-64)/2) // after a shorter list, idle rows of the others would be freed
	if d.rng.IntN(3) == 0 {
		shortest = n
	}
	for k, i := range d.rng.Perm(n)[:shortest+d.rng.IntN(n-shortest+1)] {
		c := d.candidate(style == 0)
		if style == 2 && k > 0 {
			c = out[0]
		}
		c.Addr = f.addrs[i]
		out = append(out, c)
	}
	return out
}

// candidate draws a candidate, with one of few values if few is true.
func (d *differential) candidate(few bool) lb.Candidate {
	c := lb.Candidate{Base: d.number(few), Slope: d.number(few), Weight: d.weight(few)}
	if d.rng.IntN(50) == 0 {
		c.Base = math.NaN()
	}
	if d.rng.IntN(3) == 0 {
		c.Cap = int64(d.rng.IntN(5))
	}
	if d.rng.IntN(4) == 0 {
		c.TokenCap = d.tokens() // also below 0
	}
	if d.rng.IntN(2) == 0 {
		c.Capacity, c.OverSlope = float64(d.rng.IntN(9)-1)/float64(1+d.rng.IntN(3)), max(0, d.number(few))
	}
	return c
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

// weight draws a weight, among them fractions that are not exact.
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

// tokens draws the tokens of a request, often at a boundary.
func (d *differential) tokens() int64 {
	edges := []int64{0, 1, 255, 256, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, 1 << 40, -1}
	if d.rng.IntN(3) == 0 {
		return edges[d.rng.IntN(len(edges))]
	}
	return d.rng.Int64N(int64(1) << (1 + d.rng.IntN(32)))
}

// plan draws a plan over the candidates.
func (d *differential) plan(f *testScope) lb.Plan {
	p := lb.Plan{
		Scope: f.scope, List: lb.NewList(f.candidates), Unit: lb.Unit(d.rng.IntN(2)), Tokens: d.tokens(),
		Random: d.rng.Uint64() >> d.rng.IntN(64),
	}
	if d.rng.IntN(2) == 0 {
		p.PerRequest = d.rng.Int64N(int64(1) << (1 + d.rng.IntN(32)))
	}
	d.prompt(f, &p)
	if d.rng.IntN(3) == 0 {
		p.Home = d.home(len(p.Candidates))
	}
	return p
}

// reserve sends one reservation, whose answer must be what lb.Choose returns.
func (d *differential) reserve(f *testScope) {
	p := d.plan(f)
	loads, matched := f.inputs(&p)
	d.total.plans++
	choice := lb.Decide(&p, loads, matched)
	want, wantErr := lb.Grant{Index: choice.Index, Why: choice.Why}, error(nil)
	d.next++
	g := grant{owner: d.owners[d.rng.IntN(len(d.owners))], id: d.next}
	if want.Index == lb.Full {
		want, wantErr = lb.Grant{}, lb.ErrFull
		d.total.full++
	} else {
		want.Cached = matched[want.Index]
		if order := p.Home.Order; p.Home.LoadFactor > 0 && int(order[0]) == want.Index {
			d.total.home++
		} else if p.Home.LoadFactor > 0 {
			d.total.displaced++
		}
		if want.Cached > 0 {
			d.total.warm++
		}
		g.addr, g.tokens = p.Candidates[want.Index].Addr, p.AddedTokens(want.Cached)
		want.Load = f.add(g, 1)
		f.pages.record(p.Prefix.Blocks, endpointTag(g.addr), tickNow())
	}
	g.owner.Reserve(d.now, g.id, &p, func(got lb.Grant, err error) {
		if err == nil {
			f.held = append(f.held, g)
			if next := want.Why.RunnerUp; got.Why.RunnerUp != next && next != lb.Full && got.Why.RunnerUp != lb.Full {
				// of several that cost the same, it may be another one
				terms := lb.AppendTerms(nil, &p, loads, matched)
				if terms[got.Why.RunnerUp].Total == terms[next].Total && !terms[got.Why.RunnerUp].Full {
					got.Why.RunnerUp = next
				}
			}
		}
		if got != want || !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
			d.rt.Fatalf("reserve.lua returns %+v %v, lb.Choose %+v %v\nloads %v\nmatched %v\nplan %+v",
				got, err, want, wantErr, loads, matched, p)
		}
	})
}

// inputs returns the load of each candidate, and how many leading blocks of the prompt it has.
func (f *testScope) inputs(p *lb.Plan) (loads []lb.Load, matched []int) {
	held := f.pages.match(&p.Prefix, tickNow())
	for _, c := range p.Candidates {
		loads, matched = append(loads, f.loads[c.Addr]), append(matched, held[endpointTag(c.Addr)])
	}
	return loads, matched
}

// release releases a lease, if one is held.
func (d *differential) release(f *testScope) {
	if len(f.held) == 0 {
		return
	}
	i := d.rng.IntN(len(f.held))
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
