package simulate

import (
	"errors"
	"math/rand/v2"
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
	fronts  []*front   // those before the first pool come first, and so on
	rng     *rand.Rand // which gateway a request comes to
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
	r := &run{load: load, layout: l, ending: -1, all: newTally(nil), rng: rand.New(rand.NewPCG(seed, 11))}
	r.tallies = []*tally{r.all}
	if l.RTT != nil {
		r.tallies = nil
	}
	for i := range l.Pools {
		p := newPool(len(r.fleet), &l.Pools[i])
		r.change(p.first, l.Pools[i].Engines)
		r.fleet, r.pools = append(r.fleet, p.fleet...), append(r.pools, p)
		if l.RTT != nil {
			r.tallies = append(r.tallies, newTally(r.all))
		}
		for range max(1, l.Gateways) {
			if err := r.addFront(&front{pool: p, index: len(r.fronts), region: i}, &c, seed); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// change has engines become faster or slower when they do.
func (r *run) change(first int, engines []Engine) {
	for i := range engines {
		for _, c := range engines[i].Changes {
			number := first + i
			r.after(c.At, func() {
				e := r.fleet[number]
				before := e.Ends()
				e.SetSpeed(r.now, c.Speed)
				r.expect(number, before)
			})
		}
	}
}

// addFront adds a gateway.
func (r *run) addFront(f *front, c *Contender, seed uint64) error {
	r.fronts = append(r.fronts, f)
	g := gateway{
		clock:  func() time.Duration { return r.now },
		place:  func(q *Request, endpoint int) { r.place(f, q, f.engineOf(r.now, endpoint)) },
		refuse: r.refuse,
	}
	err := f.setRouter(c, r.layout.configOf(c.Config, f.region), g, f.index+1, seed+uint64(f.index))
	if err != nil || f.product == nil {
		return err
	}
	f.product.store.OnGrant = func(owner uint64) { // of one that counts in the same store
		r.after(0, func() { r.fronts[owner-1].product.store.Poll(r.now) })
	}
	r.begin(f)
	return nil
}

// frontOf returns the gateway of a region to which a request comes.
func (r *run) frontOf(region int) *front {
	n := max(1, r.layout.Gateways)
	if n == 1 {
		return r.fronts[region]
	}
	return r.fronts[region*n+r.rng.IntN(n)]
}

// begin has what a gateway does from time to time happen for the first time.
func (r *run) begin(f *front) {
	r.events.add(process.TickPeriod, flush, int32(f.index))
	r.events.add(stores.HeartbeatPeriod, heartbeat, int32(f.index))
	if f.scraper != nil {
		r.events.add(0, scrape, int32(f.index))
	}
	if f.product.cfg.Regions.Forwards() {
		r.connect(f)
		r.events.add(0, ask, int32(f.index))
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
		r.isDue(e.kind, r.fronts[e.number])
	}
}

// isDue has a gateway do what it does from time to time.
func (r *run) isDue(k kind, f *front) {
	again := func(after time.Duration) { r.events.add(r.now+after, k, int32(f.index)) }
	switch k {
	case scrape:
		r.err = f.scraper.scrape(r.now, f.product, f.fleet)
		again(f.product.cfg.Engines.Interval)
	case poll:
		f.polls = false
		f.product.store.Poll(r.now)
		r.pollLater(f)
	case flush:
		f.product.store.Flush(r.now)
		again(process.TickPeriod)
	case heartbeat:
		r.err = f.product.store.Heartbeat(r.now)
		again(stores.HeartbeatPeriod)
	case ask:
		r.err = f.product.regions.tick()
		again(f.product.regions.every())
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
	r.route(r.frontOf(r.layout.regionOf(q)), q)
}

// tallyOf returns what is counted of the region of a request's user.
func (r *run) tallyOf(q *Request) *tally { return r.tallies[r.layout.regionOf(q)] }

// route has a gateway choose an engine for a request.
func (r *run) route(f *front, q *Request) {
	q.came = r.now
	f.router.route(r.now, q)
	r.pollLater(f)
}

// pollLater looks again at the requests that wait, if there are any.
func (r *run) pollLater(f *front) {
	if f.waits() && !f.polls {
		f.polls = true
		r.events.add(r.now+lb.PollPeriod, poll, int32(f.index))
	}
}

// place sends a request to an engine that a gateway has chosen.
func (r *run) place(f *front, q *Request, server int) {
	q.front, q.server, q.placed = int32(f.index), int32(server), r.now
	q.waited += r.now - q.came
	q.call = engine.Request{Prompt: q.Prompt, Answer: max(1, q.Answer), Name: q.Name, Owner: q}
	if q.prompt != nil {
		r.movePrompt(f.fleet[server], q)
		return
	}
	r.add(q)
}

// add gives a request to the engine that was chosen for it.
func (r *run) add(q *Request) {
	f := r.fronts[q.front]
	e, number := f.fleet[q.server], f.first+int(q.server)
	before := e.Ends()
	if err := e.Add(&q.call, r.now); err != nil {
		verdict, reason := lb.Overload, engineBusy
		if errors.Is(err, engine.ErrTooLong) {
			verdict, reason = lb.Rejected, tooLong
		}
		f.router.last(r.now, q, verdict)
		r.refuse(q, reason)
		return
	}
	if r.ending >= 0 && e.GoesWith(r.fleet[r.ending]) {
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
		r.fronts[q.front].router.first(r.now, q)
	}
	for _, c := range done {
		q := c.Owner.(*Request)
		f := r.fronts[q.front]
		if !q.Warm {
			f.served[q.server]++
		}
		f.router.last(r.now, q, lb.Success)
		if q.answer != nil {
			r.route(r.frontOf(answering), q.answer)
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
