package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// after lets time pass up to d after the start, in steps of at most 50 ms, and polls all owners at each.
func (l *line) after(d time.Duration) {
	for end := time.Hour + d; l.now < end; {
		l.tick(min(50*time.Millisecond, end-l.now))
		l.poll()
	}
}

func testBudgetWait(t *testing.T, l *line) {
	owners, addrs := l.join(2), Addrs(2)
	l.take(owners[0], perMinute(addrs, 6000, 6000))
	l.take(owners[1], perMinute(addrs, 6000, 6000))
	first := l.queue(owners[0], perMinute(addrs, 6000, 1000))
	second := l.queue(owners[1], perMinute(addrs, 6000, 1000))
	third := l.queue(owners[0], perMinute(addrs, 6000, 1000))
	l.after(9900 * time.Millisecond)
	l.granted([]*asked{first, second, third})
	l.after(10100 * time.Millisecond)
	l.granted([]*asked{first, second, third}, first, second)
	l.after(19900 * time.Millisecond)
	l.granted([]*asked{third})
	l.after(20200 * time.Millisecond)
	l.granted([]*asked{third}, third)
	if third.Left.Tokens > 100 || third.Waited < 20*time.Second-time.Millisecond*200 {
		t.Fatalf("%+v", third.Grant)
	}
}

// testBudgetWaitShares: of what is released, endpoints get work by their weights.
func testBudgetWaitShares(t *testing.T, l *line) {
	s, addrs := l.join(1)[0], Addrs(2)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 100)
	p.Budget.Limits[1].Weight = 3
	p.Wait = wait(low)
	p.Candidates[0].Cap, p.Candidates[1].Cap = 20, 20
	var held, waiting []*asked
	for range 40 {
		held = append(held, l.take(s, p))
	}
	for range 120 {
		waiting = append(waiting, l.queue(s, p))
	}
	count := map[string]int{}
	for len(waiting) > 0 { // one of either endpoint is released, and two that wait are granted
		before := len(waiting)
		for _, a := range addrs {
			i := slices.IndexFunc(held, func(r *asked) bool { return r.addr == a })
			l.release(held[i])
			held = slices.Delete(held, i, i+1)
			l.poll()
		}
		waiting = slices.DeleteFunc(waiting, func(r *asked) bool {
			if !r.waits() {
				held = append(held, r)
				count[r.addr]++
			}
			return !r.waits()
		})
		if len(waiting) != before-2 {
			t.Fatalf("two releases led to %d grants", before-len(waiting))
		}
	}
	if count[addrs[0]] != 60 || count[addrs[1]] != 60 {
		t.Fatalf("only one of them is open at a time, and still %v were granted", count)
	}
}

func testBudgetWaitSmall(_ *testing.T, l *line) {
	s, addrs := l.join(1)[0], Addrs(1)
	l.take(s, perMinute(addrs, 6000, 5000))
	large := l.queue(s, perMinute(addrs, 6000, 3000))
	l.take(s, perMinute(addrs, 6000, 500))
	l.granted([]*asked{large})
	l.after(24 * time.Second)
	l.granted([]*asked{large})
	l.after(25100 * time.Millisecond)
	l.granted([]*asked{large}, large)
}

// flood lets a large request wait among small ones that come as fast as the bucket refills, and returns how long it
// waits: limit if it still does then.
func (l *line) flood(bonus float64, limit time.Duration) time.Duration {
	s, addrs := l.join(1)[0], Addrs(2)
	plan := func(tokens int64) *lb.Plan {
		p := perMinute(addrs, 6000, tokens)
		p.Budget.AgeBonus = bonus
		return p
	}
	l.take(s, plan(6000))
	l.take(s, plan(6000))
	large := l.queue(s, plan(3000))
	began := l.now
	for l.now-began < limit && large.waits() {
		l.ask(s, plan(100))
		l.tick(400 * time.Millisecond)
		l.poll()
	}
	return l.now - began
}

func testBudgetWaitLarge(t *testing.T, l *line) {
	if d := l.flood(100, 3*time.Minute); d < 30*time.Second || d > time.Minute {
		t.Fatalf("it waited for %v", d)
	}
}

func testBudgetWaitStarved(t *testing.T, l *line) {
	if d := l.flood(0, 3*time.Minute); d < 3*time.Minute {
		t.Fatalf("it waited for %v: the test with the bonus shows nothing", d)
	}
}

func testBudgetAside(t *testing.T, l *line) {
	owners, addrs := l.join(2), Addrs(1)
	small := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 100)
	l.take(owners[0], perMinute(addrs, 6000, 6000))
	p := perMinute(addrs, 6000, 3000)
	p.Budget.AgeBonus = 1000
	large := l.queue(owners[0], p)
	l.after(20 * time.Second)
	small.Budget.AgeBonus = 1000
	g := l.refuse(owners[1], small, lb.ErrOverBudget)
	if g.Expected < 10*time.Second || g.Expected > 12*time.Second {
		t.Fatalf("expected in %v: 2000 tokens are there, 3000 are set aside", g.Expected)
	}
	l.after(30200 * time.Millisecond)
	l.granted([]*asked{large}, large)
	l.after(32 * time.Second)
	l.take(owners[1], small)
}

func testBudgetWaitClosed(_ *testing.T, l *line) {
	s, addrs := l.join(1)[0], Addrs(1)
	l.take(s, perMinute(addrs, 6000, 100))
	s.Restrict(l.now, "llm", addrs[0], budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: 3 * time.Second})
	r := l.queue(s, perMinute(addrs, 6000, 100))
	l.after(2900 * time.Millisecond)
	l.granted([]*asked{r})
	l.after(3100 * time.Millisecond)
	l.granted([]*asked{r}, r)
}

func testBudgetWaitReturned(_ *testing.T, l *line) {
	owners, addrs := l.join(2), Addrs(1)
	p := perMinute(addrs, 6000, 3000)
	p.Candidates[0].Cap = 1
	holder := l.take(owners[0], p)
	gone := l.queue(owners[1], p)
	l.release(holder) // grants it to the other owner, which has not noticed yet
	l.release(gone)
	l.poll()
	l.want(addrs, 0)
	l.take(owners[0], p) // the tokens are there again
}

func testBudgetWaitFull(t *testing.T, l *line) {
	s, addrs := l.join(1)[0], Addrs(1)
	p := perMinute(addrs, 6000, 6000)
	p.Wait.Length = 1
	l.take(s, p)
	l.queue(s, p)
	p.Budget.Tokens = 1000
	if r := l.refuse(s, p, lb.ErrQueueFull); r.Expected < 9*time.Second || r.Expected > 10*time.Second {
		t.Fatalf("expected in %v", r.Expected)
	}
}

// budgetChaos is a random history of requests that wait for budgets.
type budgetChaos struct {
	*line
	rng    *rand.Rand
	addrs  []string
	rate   float64
	limit  int64
	bonus  float64
	asked  []*asked
	counts map[*asked]bool // those whose grant was counted
	states []budget.State
	flight []int64
	depth  int // of calls between those of others
}

// testBudgetWaitRandom: no endpoint has more in flight than its cap or is given more than its bucket has, and without
// an age bonus nobody waits whom an endpoint can take.
func testBudgetWaitRandom(_ *testing.T, l *line) {
	steps := 600
	if testing.Short() {
		steps /= 2
	}
	l.histories(12, 4, func(fresh *line, seed uint64) {
		c := &budgetChaos{
			line: fresh, rng: rand.New(rand.NewPCG(seed, 16)), addrs: Addrs(3), rate: 6000, limit: int64(seed % 4),
			counts: map[*asked]bool{}, states: make([]budget.State, 3), flight: make([]int64, 3),
		}
		if seed%2 == 1 {
			c.bonus = 50
		}
		for range 3 {
			c.owners = append(c.owners, track(c.NewOwner()))
		}
		c.run(steps)
	})
}

// run takes so many steps, and releases all in the end.
func (c *budgetChaos) run(steps int) {
	between, _ := c.Backend.(Interleaver)
	for range steps {
		if between != nil {
			between.Between(c.interrupt)
		}
		c.step(10)
		if between != nil {
			between.Between(nil)
		}
		c.settleDown()
	}
	for len(c.asked) > 0 {
		c.releaseOne()
		c.settleDown()
	}
	c.want(c.addrs, 0, 0, 0)
	rules := queuecheck.Rules{Buckets: map[string]queuecheck.Bucket{}}
	for _, addr := range c.addrs {
		rules.Buckets[addr] = queuecheck.Bucket{PerMinute: c.rate}
	}
	c.line.check(rules)
}

// interrupt has another owner act between a read and a write of one, now and then. No time passes.
func (c *budgetChaos) interrupt() {
	if c.depth < 2 && c.rng.IntN(8) == 0 {
		c.depth++
		c.still = true
		c.step(8)
		c.still = false
		c.depth--
	}
}

// settleDown polls until all owners know what they were granted, and checks that.
func (c *budgetChaos) settleDown() {
	c.poll()
	c.poll() // what a poll of the last owner has granted to the first one
	c.check()
}

// free returns an owner that is in no call, nil if the one that was drawn is.
func (c *budgetChaos) free() lb.Store {
	if o := c.owners[c.rng.IntN(len(c.owners))]; o.(*tracked).calls == 0 {
		return o
	}
	return nil
}

// step takes one of the first n steps of ten: the last ones let time pass.
func (c *budgetChaos) step(n int) {
	switch n := c.rng.IntN(n); {
	case n < 5:
		owner := c.free()
		if owner == nil {
			return
		}
		from := c.rng.IntN(len(c.addrs))
		to := from + 1 + c.rng.IntN(len(c.addrs)-from)
		p := perMinute(c.addrs[from:to], c.rate, int64(1+c.rng.IntN(700)))
		p.Budget.AgeBonus = c.bonus
		for i := range p.Candidates {
			p.Candidates[i].Cap = c.limit
			p.Budget.Limits[i].Weight = float64(1 + from + i)
		}
		p.Wait.Tenant, p.Wait.Class = uint64(c.rng.IntN(2)), []lb.Class{high, low}[c.rng.IntN(2)]
		c.asked = append(c.asked, c.ask(owner, p))
	case n < 8:
		c.releaseOne()
	default:
		before := c.now / time.Second
		for end := c.now + time.Duration(c.rng.IntN(1500))*time.Millisecond; c.now < end; {
			c.tick(min(end-c.now, lb.Silence/2))
			c.poll()
		}
		if c.now/time.Second == before {
			return
		}
		for _, o := range c.owners {
			if err := o.Heartbeat(c.now); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// releaseOne releases a request, whether or not it waits.
func (c *budgetChaos) releaseOne() {
	if len(c.asked) == 0 {
		return
	}
	i := c.rng.IntN(len(c.asked))
	r := c.asked[i]
	if r.owner.(*tracked).calls > 0 {
		return
	}
	c.count()
	c.asked = slices.Delete(c.asked, i, i+1)
	if !r.waits() && r.err == nil {
		c.flight[slices.Index(c.addrs, r.addr)]--
	}
	c.release(r)
}

// count counts what was granted since.
func (c *budgetChaos) count() {
	now := float64(c.now / time.Millisecond)
	for i := range c.states {
		c.states[i].Apply(now, budget.Limits{Weight: 1, Tokens: c.rate})
	}
	for _, r := range c.asked {
		if r.waits() || r.err != nil || c.counts[r] {
			continue
		}
		i := slices.Index(c.addrs, r.addr)
		c.counts[r] = true
		c.states[i].MissingTokens += float64(r.plan.Budget.Tokens)
		c.flight[i]++
	}
}

// check compares what was granted with what the endpoints could take.
func (c *budgetChaos) check() {
	c.t.Helper()
	c.count()
	for i, s := range c.states {
		if s.MissingTokens > c.rate+1e-6 || c.limit > 0 && c.flight[i] > c.limit {
			c.t.Fatalf("endpoint %d: %g of %g tokens are missing, %d of %d requests in flight",
				i, s.MissingTokens, c.rate, c.flight[i], c.limit)
		}
	}
	for _, r := range c.asked {
		for _, candidate := range r.plan.Candidates {
			i := slices.Index(c.addrs, candidate.Addr)
			takes := c.states[i].Wait(float64(r.plan.Budget.Tokens), 0) < -1 && (c.limit == 0 || c.flight[i] < c.limit)
			if r.waits() && takes && c.bonus == 0 {
				c.t.Fatalf("request %d of %d tokens waits although endpoint %d can take it: %+v",
					r.id, r.plan.Budget.Tokens, i, c.states[i])
			}
		}
	}
}

// testBudgetWaitSilent: the next one can take the tokens that a silent owner was charged.
func testBudgetWaitSilent(_ *testing.T, l *line) {
	owners, addrs := l.join(2), Addrs(1)
	p := perMinute(addrs, 6000, 3000)
	p.Candidates[0].Cap = 1
	holder := l.take(owners[0], p)
	lost, next := l.queue(owners[1], p), l.queue(owners[0], p)
	l.release(holder) // grants it to the other owner
	l.silence(owners[0])
	l.granted([]*asked{lost, next}, next)
}
