package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/lb"
)

// chaos is a random history of a queue.
type chaos struct {
	*line
	rng     *rand.Rand
	addrs   []string
	limits  [][2]int64 // of the addresses: caps in requests and in tokens
	tokens  bool       // some have one in tokens
	strict  bool
	prompts bool
	crashes bool
	asked   []*asked
	moved   map[*asked]string // where a lease is now
	quiet   bool              // no owner acts between a read and a write of another
	acting  bool              // one does
	silent  lb.Store          // an owner that does nothing for now, nil for none
}

// histories runs histories with the seeds of a slow backend, or else with so many seeds, fewer in short.
func (l *line) histories(all, short int, run func(fresh *line, seed uint64)) {
	var seeds []uint64
	if testing.Short() {
		all = short
	}
	for seed := range uint64(all) {
		seeds = append(seeds, seed)
	}
	if slow, ok := l.Backend.(Slow); ok {
		seeds = slow.Seeds()
	}
	for _, seed := range seeds {
		l.t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { run(&line{world: l.another(t)}, seed) })
	}
}

// begin lets owners and endpoints come.
func (c *chaos) begin() {
	for range 1 + c.rng.IntN(4) {
		c.owners = append(c.owners, track(c.NewOwner()))
	}
	c.addrs = Addrs(1 + c.rng.IntN(4)) // more are not recorded to have one prompt
	for _, a := range c.addrs {
		limit := [2]int64{int64(1 + c.rng.IntN(3))}
		if c.tokens {
			limit = [2]int64{int64(c.rng.IntN(4)), int64(200 + c.rng.IntN(1500))}
		}
		c.limits = append(c.limits, limit)
		c.record(queuecheck.Event{Kind: queuecheck.Capped, Endpoint: a, Cap: int(limit[0]), Tokens: limit[1]})
	}
	c.interleave()
}

// undisturbed calls f, in which no owner acts between a read and a write of another.
func (c *chaos) undisturbed(f func()) {
	c.quiet = true
	f()
	c.quiet = false
}

// reserve lets a new request come.
func (c *chaos) reserve(s lb.Store) {
	r := c.ask(s, c.plan())
	c.asked = append(c.asked, r)
}

func (c *chaos) step() {
	switch n := c.rng.IntN(100); {
	case n < 48:
		c.reserve(c.owners[c.rng.IntN(len(c.owners))])
	case n < 90:
		c.releaseOne(func(r *asked) bool { return !r.waits() })
	case n < 92:
		c.releaseOne((*asked).waits)
	case n < 94:
		c.amend()
	case n < 99 || !c.crashes:
		c.pass(time.Duration(1+c.rng.IntN(80)) * time.Millisecond)
	case c.rng.IntN(3) == 0:
		c.crash()
	}
}

// plan returns a plan over some of the endpoints.
func (c *chaos) plan() *lb.Plan {
	from := c.rng.IntN(len(c.addrs))
	to := from + 1 + c.rng.IntN(len(c.addrs)-from)
	p := limited(c.addrs[from:to], 1, wait([]lb.Class{high, low}[c.rng.IntN(2)]))
	for i := range p.Candidates {
		p.Candidates[i].Cap, p.Candidates[i].TokenCap = c.limits[from+i][0], c.limits[from+i][1]
	}
	p.Random, p.Unit, p.Tokens = c.rng.Uint64(), lb.Tokens, int64(1+c.rng.IntN(1000))
	w := &p.Wait
	w.Strict, w.Tenant, w.Length, w.Skip = c.strict, uint64(c.rng.IntN(3)), 30, 3
	w.Max, w.Aging = time.Duration(1+c.rng.IntN(4))*time.Second, 800*time.Millisecond
	if c.prompts && c.rng.IntN(2) == 0 {
		p = WithPrompt(p, 3, Blocks(uint64(c.rng.IntN(6))))
		p.Wait.Patience = 60 * time.Millisecond
	}
	return p
}

// pass lets time pass, with a heartbeat of each owner every second.
func (c *chaos) pass(d time.Duration) {
	before := c.now / time.Second
	c.tick(d)
	if c.now/time.Second == before {
		return
	}
	for _, o := range c.owners {
		if err := o.Heartbeat(c.now); err != nil && !c.faults {
			c.t.Fatalf("heartbeat: %v", err)
		}
	}
}

// drop removes a request that has ended from those to choose among.
func (c *chaos) drop(r *asked) {
	c.asked = slices.DeleteFunc(c.asked, func(other *asked) bool { return other == r })
	delete(c.moved, r)
}

func (c *chaos) releaseOne(which func(*asked) bool) {
	c.asked = slices.DeleteFunc(c.asked, func(r *asked) bool { return r.calls > 0 && r.err != nil })
	start := c.rng.IntN(len(c.asked) + 1)
	for i := range c.asked {
		if r := c.asked[(start+i)%len(c.asked)]; r.owner != c.silent && which(r) {
			c.release(r)
			c.drop(r)
			return
		}
	}
}

// amend moves a lease, or changes its tokens.
func (c *chaos) amend() {
	c.tick(time.Millisecond)
	for _, r := range c.asked {
		if c.silent != nil || r.waits() || r.err != nil || c.rng.IntN(4) > 0 {
			continue
		}
		addr := ""
		if c.rng.IntN(2) == 0 {
			addr = c.addrs[c.rng.IntN(len(c.addrs))]
			c.moved[r] = addr
		}
		at, tokens := cmp.Or(c.moved[r], r.addr), int64(c.rng.IntN(500))
		c.record(queuecheck.Event{Kind: queuecheck.Moved, ID: uint64(r.id), Endpoint: at, Tokens: tokens})
		r.owner.Amend(c.now, r.id, addr, tokens)
		return
	}
}

// crash lets an owner fall silent, until the others have noticed, and a new one come.
func (c *chaos) crash() {
	i := c.rng.IntN(len(c.owners))
	dead := c.owners[i]
	for _, r := range slices.Clone(c.asked) {
		if r.owner == dead {
			c.ends(r)
			c.drop(r)
		}
	}
	c.owners[i] = track(c.NewOwner())
	for range 70 {
		c.pass(100 * time.Millisecond)
		c.poll()
		c.undisturbed(c.poll)
	}
}

// audit compares the requests in flight with those that the owners hold.
func (c *chaos) audit() {
	c.t.Helper()
	want := make([]int64, len(c.addrs))
	for _, r := range c.asked {
		if r.waits() || r.err != nil {
			continue
		}
		addr := r.addr
		if moved, ok := c.moved[r]; ok {
			addr = moved
		}
		want[slices.Index(c.addrs, addr)]++
	}
	c.want(c.addrs, want...)
	waiting := 0
	for _, r := range c.asked {
		if r.waits() {
			waiting++
		}
	}
	if n := c.owners[0].Queue(c.now, "llm").Waiting; n != waiting || n > 30 {
		c.t.Fatalf("the queue has %d, %d wait", n, waiting)
	}
}

// end releases all.
func (c *chaos) end() {
	for len(c.asked) > 0 {
		c.releaseOne(func(*asked) bool { return true })
		c.poll()
	}
	c.audit()
	for i, load := range c.Loads("llm", c.addrs) {
		if load != (lb.Load{}) {
			c.t.Fatalf("after the last release endpoint %d carries %+v", i, load)
		}
	}
}

// interleave lets an owner act between a read and a write of another one, now and then.
func (c *chaos) interleave() {
	b, ok := c.Backend.(Interleaver)
	if !ok {
		return
	}
	b.Between(func() {
		if c.quiet || c.acting || c.rng.IntN(8) > 0 {
			return
		}
		o := c.owners[c.rng.IntN(len(c.owners))].(*tracked)
		if o.calls > 0 {
			return
		}
		c.acting, c.still = true, true
		switch c.rng.IntN(4) {
		case 0:
			c.reserve(o)
		case 1:
			o.Poll(c.now)
		default:
			c.releaseOne(func(r *asked) bool { return r.owner == o })
		}
		c.acting, c.still = false, false
	})
}
