package queue_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// job is a request of a played load.
type job struct {
	class   lb.Class
	tenant  uint64
	came    time.Duration
	work    time.Duration // for which it holds a slot; its tokens are as many as its milliseconds
	granted time.Duration
	passed  int64 // tokens that others of its class were granted while it waited and was older than its aging
	others  int64 // and other classes
}

func (j *job) tokens() int64       { return j.work.Milliseconds() }
func (j *job) wait() time.Duration { return j.granted - j.came }

// play plays the jobs, which are in the order in which they come, on so many slots of one server. It returns those that
// were granted before the last one came.
func play(t testing.TB, slots int, strict bool, aging time.Duration, jobs []*job) (done []*job) {
	q, inFlight, now := &queue.Queue{}, loads{}, start
	var running, waiting []*job
	for next := 0; next < len(jobs); {
		slices.SortFunc(running, func(a, b *job) int { return cmp.Compare(a.granted+a.work, b.granted+b.work) })
		if j := jobs[next]; len(running) == 0 || j.came < running[0].granted+running[0].work {
			now = start + j.came
			list, ok := q.List(7, []queue.Entry{{Row: 0, Cap: int64(slots)}})
			if !ok {
				t.Fatal("too many lists")
			}
			w := &lb.Wait{Max: time.Hour, Since: now, Class: j.class, Tenant: j.tenant, Strict: strict, Aging: aging}
			ticket := &queue.Ticket{Owner: 1, ID: lb.LeaseID(next), Wait: w, Tokens: j.tokens(), List: list}
			ticket.Wants = queue.NoRow
			q.Add(now, ticket)
			next++
			waiting = append(waiting, j)
		} else {
			now = start + running[0].granted + running[0].work
			inFlight[0] = lb.Load{Requests: int64(len(running) - 1)}
			running = running[1:]
		}
		for _, g := range q.Dispatch(now, inFlight, nil) {
			j := jobs[g.ID]
			q.Remove(g.Owner, g.ID)
			j.granted = now - start
			running, done = append(running, j), append(done, j)
			waiting = slices.DeleteFunc(waiting, func(w *job) bool { return w == j })
			for _, w := range waiting {
				switch {
				case j.granted-w.came < aging:
				case w.class == j.class:
					w.passed += j.tokens()
				default:
					w.others += j.tokens()
				}
			}
		}
	}
	return done
}

// arrivals draws jobs that hold so many slots on average, for a span; their work is between half and one and a half of
// the mean.
func arrivals(rng *rand.Rand, class lb.Class, slots float64, mean, span time.Duration) (jobs []*job) {
	for at := time.Duration(0); ; {
		at += time.Duration(rng.ExpFloat64() * float64(mean) / slots)
		if at > span {
			return jobs
		}
		work := time.Duration((0.5 + rng.Float64()) * float64(mean)).Truncate(time.Millisecond)
		jobs = append(jobs, &job{class: class, came: at, work: work})
	}
}

func merge(lists ...[]*job) []*job {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b *job) int { return cmp.Compare(a.came, b.came) })
	return all
}

// p99 returns the wait that 99 % of the class's jobs do not exceed.
func p99(done []*job, class lb.Class) time.Duration {
	var waits []time.Duration
	for _, j := range done {
		if j.class == class {
			waits = append(waits, j.wait())
		}
	}
	slices.Sort(waits)
	return waits[len(waits)*99/100]
}

// clone returns the jobs of the class as they were before they were played.
func clone(jobs []*job, class lb.Class) (of []*job) {
	for _, j := range jobs {
		if j.class == class {
			of = append(of, &job{class: j.class, tenant: j.tenant, came: j.came, work: j.work})
		}
	}
	return of
}

// A backlog of a lower class that is much older than its aging costs a higher class, whose load is below 3/4 of its
// share, little: the slots are not free at once, and one request in ten may be out of turn. And the backlog is served.
// Closer to its share a queue of its own grows, as before servers that are nearly full.
func TestAnOldBacklogDelaysNoHigherClass(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		slots, strict := 4+rng.IntN(8), rng.IntN(2) == 0
		aging := time.Duration(1+rng.IntN(3)) * time.Second
		quick, slow, span := 300*time.Millisecond, 300*time.Millisecond, 30*time.Second
		if rng.IntN(2) == 0 {
			slow, span = 10*slow, 3*span
		}
		high := arrivals(rng, interactive, (0.1+0.55*rng.Float64())*float64(slots), quick, span)
		low := arrivals(rng, batch, (1.2+rng.Float64())*float64(slots), slow, span)
		alone := p99(play(t, slots, strict, aging, clone(high, interactive)), interactive)
		all := merge(high, low)
		done := play(t, slots, strict, aging, all)
		if got := p99(done, interactive); got > alone+2*slow {
			rt.Errorf("%d slots, strict %v, aging %v: 99 %% of the higher class wait up to %v beside a backlog of "+
				"requests of %v, and %v alone", slots, strict, aging, got, slow, alone)
		}
		checkBound(rt, all, 1, slots, aging)
	})
}

// checkBound checks that no job was passed by more than documented once it was older than its aging, whether it was
// granted then or not. With m aged classes, 10 m tokens are granted for each one of its class. What its class was
// granted before may count in full, one request may be beyond that, and one and a sixth for each other aged class. It
// waits no longer than all of that takes once what was on the slots has ended.
func checkBound(rt *rapid.T, all []*job, m int64, slots int, aging time.Duration) {
	largest, ofClass := int64(0), map[lb.Class]int64{}
	for _, j := range all {
		largest, ofClass[j.class] = max(largest, j.tokens()), max(ofClass[j.class], j.tokens())
	}
	for _, j := range all {
		bound := (10*m-1)*(j.passed+ofClass[j.class]) + largest + (m-1)*largest*7/6
		if j.others > bound {
			rt.Errorf("a job of class %d that came at %v was passed by %d tokens, the bound is %d",
				j.class.ID, j.came, j.others, bound)
		}
		took := time.Duration(j.passed+bound) * time.Millisecond / time.Duration(slots)
		if longest := aging + time.Duration(largest)*time.Millisecond + took; j.wait() > longest {
			rt.Errorf("a job of class %d waited for %v, the bound is %v", j.class.ID, j.wait(), longest)
		}
	}
}

// With strict order and more of the highest class than can be served, one aged class or two have a tenth together, in
// tokens, and no more.
func TestAgedClassesHaveATenth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		aged := []lb.Class{{ID: 3, Rank: 1, Weight: 1}, {ID: 2, Rank: 2, Weight: 1}}[:1+rng.IntN(2)]
		sizes := func() time.Duration { return time.Duration(200*(1+rng.IntN(10))) * time.Millisecond }
		const slots, span = 8, 5 * time.Minute
		all := arrivals(rng, interactive, 1.5*slots, sizes(), span)
		for _, c := range aged {
			all = merge(all, arrivals(rng, c, 0.7*slots, sizes(), span))
		}
		done := play(t, slots, true, time.Second, all)
		served, total := map[lb.Class]float64{}, 0.0
		for _, j := range done {
			if j.granted > time.Minute {
				served[j.class] += float64(j.tokens())
				total += float64(j.tokens())
			}
		}
		m := len(aged)
		for _, c := range aged {
			if part := served[c] / total; !(math.Abs(part-0.1/float64(m)) <= 0.005) {
				rt.Errorf("class %d has %.3f of what is served, one of %d in a tenth", c.ID, part, m)
			}
		}
		checkBound(rt, all, int64(m), slots, time.Second)
	})
}

// A class whose share by its weight is more than a tenth gains nothing by aging.
func TestAgingLeavesWeightsAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		const slots = 8
		mean := time.Duration(100*(1+rng.IntN(10))) * time.Millisecond
		span := 500 * mean
		done := play(t, slots, false, time.Second, merge(
			arrivals(rng, interactive, 1.5*slots, mean, span), arrivals(rng, batch, 1.5*slots, mean, span)))
		low, total := 0.0, 0.0
		for _, j := range done {
			if j.granted < span/5 {
				continue
			}
			if total += float64(j.tokens()); j.class == batch {
				low += float64(j.tokens())
			}
		}
		if part := low / total; !(math.Abs(part-1/9.0) <= 0.006) {
			rt.Errorf("the class with a ninth of the weights has %.4f of what is served", part)
		}
	})
}

// However old the backlog of one tenant is, another waits one turn.
func TestAFloodThatHasGrownOldDelaysNoOtherTenant(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	var flood []*job
	const work = time.Second
	for i := range 900 {
		flood = append(flood, &job{class: batch, tenant: 1, came: time.Duration(i) * time.Millisecond, work: work})
	}
	light := arrivals(rng, batch, 0.5, work, 90*time.Second)
	for _, j := range light {
		j.tenant = 2
	}
	for _, j := range play(t, 4, false, 10*time.Second, merge(flood, light)) {
		if j.tenant == 2 && j.wait() > 3*work {
			t.Errorf("the light tenant's request of %v waited for %v", j.came, j.wait())
		}
	}
}
