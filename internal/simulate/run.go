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

// router chooses engines for requests.
type router interface {
	// route places the request, or refuses it, now or after it has waited.
	route(now time.Duration, r *Request)
	// first notes the first token of an answer, and last its end, or that the engine has refused the request.
	first(now time.Duration, r *Request)
	last(now time.Duration, r *Request, verdict lb.Verdict)
}

// run is one run.
type run struct {
	now     time.Duration
	load    Load
	fleet   []*engine.Engine
	router  router
	product *product // that the router is, nil for a policy of the gateway's own
	scraper *scraper // nil if no metrics are read
	events  events
	open    int // requests that are neither served nor refused
	ending  int // the engine whose steps are just ending, -1 for none
	tally   tally
	err     error
}

// Run plays a load. progress is called now and then with how many requests have come to their end; nil for nobody. If
// it returns false the run ends early, with an error.
func Run(load Load, fleet []Engine, c Contender, seed uint64, progress func(ended int) bool) (*Result, error) {
	r, err := newRun(load, fleet, c, seed)
	if err != nil {
		return nil, err
	}
	load.Begin(r.sendAt)
	const often = 1 << 12
	for step := 0; r.busy(); step++ {
		if r.happens(r.events.next()); r.err != nil {
			return nil, r.err
		}
		if step%often == 0 && progress != nil && !progress(r.tally.ended()) {
			return nil, errStopped
		}
	}
	return r.result(c.Name), nil
}

var errStopped = errors.New("stopped")

func newRun(load Load, fleet []Engine, c Contender, seed uint64) (*run, error) {
	if len(fleet) == 0 {
		return nil, errors.New("want at least 1 endpoint")
	}
	r := &run{load: load, ending: -1, fleet: make([]*engine.Engine, len(fleet)), tally: newTally(len(fleet))}
	for i := range r.fleet {
		r.fleet[i] = engine.New(fleet[i].Config, fleet[i].Times)
	}
	if c.Native != "" {
		n := newNative(c.Native, len(fleet), seed)
		n.place, r.router = r.place, n
		return r, nil
	}
	var err error
	if r.product, err = newProduct(c.Config, len(fleet), seed); err != nil {
		return nil, err
	}
	r.router, r.product.place, r.product.refuse = r.product, r.place, r.refuse
	r.events.add(process.TickPeriod, flush, 0)
	r.events.add(stores.HeartbeatPeriod, heartbeat, 0)
	if !c.NoMetrics {
		if r.scraper, err = newScraper(r.product); err != nil {
			return nil, err
		}
		r.events.add(0, scrape, 0)
	}
	return r, nil
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
	case scrape:
		r.err = r.scraper.scrape(r.now, r.product, r.fleet)
		r.events.add(r.now+r.product.cfg.Engines.Interval, scrape, 0)
	case poll:
		r.product.store.Poll(r.now)
		r.pollLater()
	case flush:
		r.product.store.Flush(r.now)
		r.events.add(r.now+process.TickPeriod, flush, 0)
	case heartbeat:
		r.err = r.product.store.Heartbeat(r.now)
		r.events.add(r.now+stores.HeartbeatPeriod, heartbeat, 0)
	}
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
	r.tally.sent(r.now)
	r.router.route(r.now, q)
	r.pollLater()
}

// pollLater looks again at the requests that wait, if there are any.
func (r *run) pollLater() {
	if r.product != nil && r.product.waiting > 0 && r.events.count[poll] == 0 {
		r.events.add(r.now+lb.PollPeriod, poll, 0)
	}
}

// place sends a request to an engine.
func (r *run) place(q *Request, server int) {
	q.server, q.placed = int32(server), r.now
	q.call = engine.Request{Prompt: q.Prompt, Answer: max(1, q.Answer), Name: q.Name, Owner: q}
	e := r.fleet[server]
	before := e.Ends()
	if err := e.Add(&q.call, r.now); err != nil {
		verdict, reason := lb.Overload, engineBusy
		if errors.Is(err, engine.ErrTooLong) {
			verdict, reason = lb.Rejected, tooLong
		}
		r.router.last(r.now, q, verdict)
		r.refuse(q, reason)
		return
	}
	if server == r.ending {
		return // what it does next is planned when all has come to it
	}
	if before == 0 {
		e.Begin(r.now)
	}
	r.expect(server, before)
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
		r.tally.first(r.now, q)
		r.router.first(r.now, q)
	}
	for _, c := range done {
		q := c.Owner.(*Request)
		r.tally.last(r.now, q)
		r.router.last(r.now, q, lb.Success)
		r.ended(q, true)
	}
	r.ending = -1
	e.Begin(r.now)
	r.expect(server, 0)
}

// refuse ends a request that no engine runs.
func (r *run) refuse(q *Request, reason string) {
	r.tally.refused(r.now, q, reason)
	r.ended(q, false)
}

func (r *run) ended(q *Request, served bool) {
	r.open--
	r.load.Ended(r.now, int(q.number), q, served)
}
