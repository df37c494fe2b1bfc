package simulate

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stores"
)

// GCPercent is what suits a program that runs simulations (debug.SetGCPercent): most of what a run allocates is gone at
// once.
const GCPercent = 400

// run is one run.
type run struct {
	now     time.Duration
	load    Load
	layout  *Layout
	fleet   []*engine.Engine // of all pools
	pools   []*pool
	events  events
	later   []func() // what the events of kind calls do, nil for none
	vacant  []int32  // numbers in later, for new ones
	open    int      // requests that are neither served nor refused
	ending  int      // the engine whose steps are just ending, -1 for none
	all     *tally
	tallies []*tally // by the region of users
	err     error
}

// Run plays a load before engines that are all there is: see [Layout.Run].
func Run(load Load, fleet []Engine, c Contender, seed uint64, progress func(ended int) bool) (*Result, error) {
	return Alone(fleet).Run(load, c, seed, progress)
}

// Run plays a load. progress is called now and then with how many requests have come to their end; nil for nobody. If
// it returns false the run ends early, with an error.
func (l *Layout) Run(load Load, c Contender, seed uint64, progress func(ended int) bool) (*Result, error) {
	r, err := newRun(load, l, c, seed)
	if err != nil {
		return nil, err
	}
	load.Begin(r.sendAt)
	const often = 1 << 12
	for step := 0; r.busy(); step++ {
		if r.happens(r.events.next()); r.err != nil {
			return nil, r.err
		}
		if step%often == 0 && progress != nil && !progress(r.all.ended()) {
			return nil, errStopped
		}
	}
	return r.result(c.Name), nil
}

var errStopped = errors.New("stopped")

func newRun(load Load, l *Layout, c Contender, seed uint64) (*run, error) {
	if err := l.Check(&c); err != nil {
		return nil, err
	}
	r := &run{load: load, layout: l, ending: -1, all: newTally(nil)}
	r.tallies = []*tally{r.all}
	if l.RTT != nil {
		r.tallies = nil
	}
	for i := range l.Pools {
		p := newPool(i, len(r.fleet), l.Pools[i].Engines)
		r.fleet, r.pools = append(r.fleet, p.fleet...), append(r.pools, p)
		if l.RTT != nil {
			r.tallies = append(r.tallies, newTally(r.all))
		}
		g := gateway{
			clock:  func() time.Duration { return r.now },
			place:  func(q *Request, server int) { r.place(p, q, server) },
			refuse: r.refuse,
		}
		if err := p.setRouter(&c, l.configOf(c.Config, i), g, seed+uint64(i)); err != nil {
			return nil, err
		}
		r.begin(p)
	}
	return r, nil
}

// begin has what a gateway does from time to time happen for the first time.
func (r *run) begin(p *pool) {
	if p.product == nil {
		return
	}
	r.events.add(process.TickPeriod, flush, int32(p.index))
	r.events.add(stores.HeartbeatPeriod, heartbeat, int32(p.index))
	if p.scraper != nil {
		r.events.add(0, scrape, int32(p.index))
	}
	if p.product.cfg.Regions.Forwards() {
		r.connect(p)
		r.events.add(0, ask, int32(p.index))
	}
}

// busy reports whether anything is left that a user waits for.
func (r *run) busy() bool { return r.open > 0 || r.events.count[sends] > 0 }

// happens has an event happen.
func (r *run) happens(e event) {
	r.now = e.at
	switch e.kind {
	case sends:
		r.send(e.number)
	case stepsEnd:
		r.stepsEnd(int(e.number))
	case calls:
		do := r.later[e.number]
		r.later[e.number] = nil
		r.vacant = append(r.vacant, e.number)
		do()
	default:
		r.isDue(e.kind, r.pools[e.number])
	}
}

// isDue has a pool's gateway do what it does from time to time.
func (r *run) isDue(k kind, p *pool) {
	again := func(after time.Duration) { r.events.add(r.now+after, k, int32(p.index)) }
	switch k {
	case scrape:
		r.err = p.scraper.scrape(r.now, p.product, p.fleet)
		again(p.product.cfg.Engines.Interval)
	case poll:
		p.polls = false
		p.product.store.Poll(r.now)
		r.pollLater(p)
	case flush:
		p.product.store.Flush(r.now)
		again(process.TickPeriod)
	case heartbeat:
		r.err = p.product.store.Heartbeat(r.now)
		again(stores.HeartbeatPeriod)
	case ask:
		r.err = p.product.regions.tick()
		again(p.product.regions.every())
	}
}

// after has something happen after a time.
func (r *run) after(wait time.Duration, do func()) {
	number := int32(len(r.later))
	if n := len(r.vacant); n > 0 {
		number, r.vacant = r.vacant[n-1], r.vacant[:n-1]
		r.later[number] = do
	} else {
		r.later = append(r.later, do)
	}
	r.events.add(r.now+wait, calls, number)
}

// sendAt has the load send a request at a time.
func (r *run) sendAt(at time.Duration, number int) {
	r.events.add(max(at, r.now), sends, int32(number))
}

func (r *run) send(number int32) {
	q := r.load.Send(r.now, int(number))
	if q == nil {
		return
	}
	q.number, q.sent = number, r.now
	r.open++
	r.tallyOf(q).sent(r.now)
	if r.layout.Split {
		r.sendPrompt(q)
		return
	}
	r.route(r.pools[r.layout.regionOf(q)], q)
}

// tallyOf returns what is counted of the region of a request's user.
func (r *run) tallyOf(q *Request) *tally { return r.tallies[r.layout.regionOf(q)] }

// route has a pool's gateway choose an engine for a request.
func (r *run) route(p *pool, q *Request) {
	q.came = r.now
	p.router.route(r.now, q)
	r.pollLater(p)
}

// pollLater looks again at the requests that wait, if there are any.
func (r *run) pollLater(p *pool) {
	if p.waits() && !p.polls {
		p.polls = true
		r.events.add(r.now+lb.PollPeriod, poll, int32(p.index))
	}
}

// place sends a request to an engine of a pool.
func (r *run) place(p *pool, q *Request, server int) {
	q.pool, q.server, q.placed = int32(p.index), int32(server), r.now
	q.waited += r.now - q.came
	q.call = engine.Request{Prompt: q.Prompt, Answer: max(1, q.Answer), Name: q.Name, Owner: q}
	if q.prompt != nil {
		r.movePrompt(p.fleet[server], q)
		return
	}
	r.add(q)
}

// add gives a request to the engine that was chosen for it.
func (r *run) add(q *Request) {
	p := r.pools[q.pool]
	e, number := p.fleet[q.server], p.first+int(q.server)
	before := e.Ends()
	if err := e.Add(&q.call, r.now); err != nil {
		verdict, reason := lb.Overload, engineBusy
		if errors.Is(err, engine.ErrTooLong) {
			verdict, reason = lb.Rejected, tooLong
		}
		p.router.last(r.now, q, verdict)
		r.refuse(q, reason)
		return
	}
	if number == r.ending {
		return // what it does next is planned when all has come to it
	}
	if before == 0 {
		e.Begin(r.now)
	}
	r.expect(number, before)
}

// expect has the end of an engine's steps happen, unless it was to happen at that time before.
func (r *run) expect(server int, before time.Duration) {
	if ends := r.fleet[server].Ends(); ends != 0 && ends != before {
		r.events.add(ends, stepsEnd, int32(server))
	}
}

// stepsEnd ends the steps of an engine and begins the next, unless they end at another time by now.
func (r *run) stepsEnd(server int) {
	e := r.fleet[server]
	if e.Ends() != r.now {
		return
	}
	first, done := e.Finish()
	r.ending = server
	for _, c := range first {
		q := c.Owner.(*Request)
		q.first = r.now
		if q.answer == nil {
			r.atUser(q, (*run).sawFirst)
		}
		r.pools[q.pool].router.first(r.now, q)
	}
	for _, c := range done {
		q := c.Owner.(*Request)
		p := r.pools[q.pool]
		if !q.Warm {
			p.served[q.server]++
		}
		p.router.last(r.now, q, lb.Success)
		if q.answer != nil {
			r.route(r.pools[answering], q.answer)
			continue
		}
		r.atUser(q, (*run).sawLast)
	}
	r.ending = -1
	e.Begin(r.now)
	r.expect(server, 0)
}

// atUser has something happen when what the engine has just sent comes to the user of a request.
func (r *run) atUser(q *Request, do func(*run, *Request)) {
	if q.trip.way == 0 {
		do(r, q)
		return
	}
	r.after(q.trip.way, func() { do(r, q) })
}

// sawFirst notes that the first token of an answer has come to the user.
func (r *run) sawFirst(q *Request) {
	r.tallyOf(q).first(r.now, q)
	r.cameBack(q, true)
}

// sawLast notes that the end of an answer has come to the user.
func (r *run) sawLast(q *Request) {
	r.tallyOf(q).last(r.now, q)
	r.ended(q, true)
}

// refuse ends a request that no engine runs.
func (r *run) refuse(q *Request, reason string) {
	if q.answer != nil {
		q = q.answer
	}
	r.atUser(q, func(r *run, q *Request) {
		r.cameBack(q, reason == tooLong)
		r.tallyOf(q).refused(r.now, q, reason)
		r.ended(q, false)
	})
}

func (r *run) ended(q *Request, served bool) {
	r.open--
	r.load.Ended(r.now, int(q.number), q, served)
}
