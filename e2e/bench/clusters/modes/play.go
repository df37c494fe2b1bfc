package modes

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	// workers is how many VMs choose, each by what it has learned itself; counts are those of all.
	workers = 2
	// exchange is how often they share ejections.
	exchange = 250 * ms
	// began is the time at which a run begins: 0 means unknown.
	began = time.Hour
)

// worker is one VM.
type worker struct {
	cluster *clusters.Cluster
	policy  lb.Policy
}

// request is one request, from its arrival to the end of its answer.
type request struct {
	at, over time.Duration
	worker   int
	site     int
	work     float64 // of its service, in mean ones
	inflight int64   // when it was placed, with it
	failed   bool

	due   time.Duration // what happens next
	began time.Duration // to be served
	on    bool          // it has a slot
}

// run is a scene at one load, with one mode.
type run struct {
	scene   *scene
	random  *rand.Rand
	workers [workers]worker
	ejected []byte
	view    lb.View
	loads   []lb.Load
	times   []float64
	free    []int
	waiting [][]*request
	soon    agenda
	all     []*request
}

// begin returns a run of a configuration of the plugin, before anything has come.
func begin(s *scene, c *config.Config, seed uint64) (*run, error) {
	r := &run{scene: s, random: rand.New(rand.NewPCG(seed, 3)), view: lb.View{Cluster: "clusters/route"}}
	for w := range r.workers {
		var err error
		if r.workers[w].cluster, r.workers[w].policy, err = (clusters.Known{}).Get(0, r.view.Cluster, c); err != nil {
			return nil, err
		}
	}
	for i := range s.sites {
		r.view.Endpoints = append(r.view.Endpoints, lb.Endpoint{Addr: nameOf(i)})
		r.times, r.free = append(r.times, 1), append(r.free, s.sites[i].slots)
	}
	r.loads, r.waiting = make([]lb.Load, len(s.sites)), make([][]*request, len(s.sites))
	return r, nil
}

// nameOf is the name of a cluster, by its number.
func nameOf(site int) string { return fmt.Sprintf("site-%d", site) }

// perSecond is how many requests a site serves.
func (s *site) perSecond() float64 {
	each := 1.0
	if s.batch > 0 {
		each += float64(s.slots) / s.batch
	}
	return float64(s.slots) / s.service.Seconds() / each
}

func (s *scene) perSecond() (sum float64) {
	for i := range s.sites {
		sum += s.sites[i].perSecond()
	}
	return sum
}

// scaled returns a time of the scene at its pace.
func (s *scene) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * cmp.Or(s.pace, 1))
}

// play plays the run at a load: requests arrive whatever happens, by a Poisson process.
func (r *run) play(load float64) error {
	perSecond := load * r.scene.perSecond()
	events, next := r.scene.events, time.Duration(0)
	for now := time.Duration(0); now < r.scene.scaled(end); {
		for len(events) > 0 && now >= r.scene.scaled(events[0].at) {
			r.until(r.scene.scaled(events[0].at))
			r.times[events[0].site] = events[0].times
			events = events[1:]
		}
		r.until(now)
		for ; next <= now; next += exchange {
			r.share(next)
		}
		if err := r.arrive(now); err != nil {
			return err
		}
		now += time.Duration(r.random.ExpFloat64() / perSecond * float64(time.Second))
	}
	r.until(math.MaxInt64)
	return nil
}

// share has each VM learn of the ejections of the others.
func (r *run) share(now time.Duration) {
	for w := range r.workers {
		h := r.workers[w].cluster.Health
		h.Import(began+now, r.ejected)
		if all, changed := h.Export(began+now, r.ejected); changed {
			r.ejected = all
			h.ConfirmExport()
		}
	}
}

// arrive places a request and sends it on.
func (r *run) arrive(now time.Duration) error {
	q := &request{at: now, worker: r.random.IntN(workers), work: 1}
	if r.scene.varied {
		q.work = r.random.ExpFloat64()
	}
	w := &r.workers[q.worker]
	p, why := w.policy.Plan(began+now, &lb.Request{Random: r.random.Uint64()}, &r.view)
	if why != lb.ReasonChosen {
		return fmt.Errorf("no cluster for a request: %v", why)
	}
	loads := make([]lb.Load, len(p.Candidates))
	for i := range p.Candidates {
		loads[i] = r.loads[r.place(p.Candidates[i].Addr)]
	}
	i := lb.Choose(&p, loads, nil)
	q.site = r.place(p.Candidates[i].Addr)
	r.loads[q.site].Requests++
	q.inflight = r.loads[q.site].Requests
	w.cluster.Health.ObserveGrant(&p, i, r.loads[q.site])
	w.cluster.Shares.Count(began+now, p.Candidates[i].Addr)
	r.all = append(r.all, q)
	switch {
	case r.times[q.site] == 0:
		q.failed = true
		r.schedule(q, now+ms)
	case r.free[q.site] > 0:
		r.serve(q, now)
	default:
		r.waiting[q.site] = append(r.waiting[q.site], q)
	}
	return nil
}

func (r *run) place(addr string) int {
	for i := range r.view.Endpoints {
		if r.view.Endpoints[i].Addr == addr {
			return i
		}
	}
	panic("no cluster " + addr)
}

// serve gives a request a slot. Where all fail, so do those that wait.
func (r *run) serve(q *request, now time.Duration) {
	s := &r.scene.sites[q.site]
	r.free[q.site]--
	q.on, q.began = true, now
	times := r.times[q.site]
	if times == 0 {
		q.failed = true
		r.schedule(q, now+ms)
		return
	}
	if s.batch > 0 {
		times *= 1 + float64(s.slots-r.free[q.site]-1)/s.batch
	}
	r.schedule(q, now+time.Duration(q.work*times*float64(s.service)))
}

// until has all happen that does up to then.
func (r *run) until(now time.Duration) {
	for len(r.soon) > 0 && r.soon[0].due <= now {
		q := heap.Pop(&r.soon).(*request)
		if q.on {
			q.on = false
			r.free[q.site]++
			if waiting := r.waiting[q.site]; len(waiting) > 0 {
				r.waiting[q.site] = waiting[1:]
				r.serve(waiting[0], q.due)
			}
			if away := r.scene.sites[q.site].away; away > 0 && !q.failed {
				r.schedule(q, q.due+away)
				continue
			}
		}
		r.ends(q)
	}
}

// ends has the plugin see the end of a request.
func (r *run) ends(q *request) {
	q.over = q.due
	r.loads[q.site].Requests--
	o := lb.Outcome{
		Addr: nameOf(q.site), Verdict: lb.Success, Whole: q.over - q.at, FirstPart: q.began - q.at + (q.over-q.began)/4,
		Inflight: q.inflight,
	}
	if q.failed {
		o.Verdict, o.FirstPart = lb.Failure, o.Whole
	}
	r.workers[q.worker].policy.Observe(began+q.over, o)
}

func (r *run) schedule(q *request, due time.Duration) {
	q.due = due
	heap.Push(&r.soon, q)
}

// agenda is the requests to which something will happen, the first in front.
type agenda []*request

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].due, a[j].due), cmp.Compare(a[i].at, a[j].at)) < 0
}

// Push adds a request.
func (a *agenda) Push(q any) { *a = append(*a, q.(*request)) }

// Pop removes the last one.
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
