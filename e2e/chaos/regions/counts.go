package regions

import (
	"context"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/e2e/loadgen"
	lbregion "github.com/warmgate/warmgate/lb/region"
)

// stat returns a statistic of the plugin in a region, all labels together that begin with those given.
func (r *region) stat(ctx context.Context, name string) float64 {
	return lab.Must(r.Gateway.Sum(ctx, `^wasmcustom\.warmgate_region_`+name))
}

// age returns how long ago a region has heard another one, as it last said: each second.
func (r *region) age(ctx context.Context, of *region) time.Duration {
	return time.Duration(r.stat(ctx, "probe_age_ms;region="+of.name+"$")) * time.Millisecond
}

// hears reports whether a region hears another one's gateway, and leaves its servers to it.
func (r *region) hears(ctx context.Context, of *region) bool {
	return r.stat(ctx, "available;region="+of.name+"$") == 1 && r.adopted(ctx, of) == 0 &&
		r.age(ctx, of) < lbregion.Timeout
}

// adopted returns 1 if a region serves the servers of another one.
func (r *region) adopted(ctx context.Context, of *region) float64 {
	return r.stat(ctx, "adopted;region="+of.name+"$")
}

// forwarded returns how many requests a region has forwarded to another one, "" for all others.
func (r *region) forwarded(ctx context.Context, to string) float64 {
	if to == "" {
		return r.stat(ctx, "forwarded_total;")
	}
	return r.stat(ctx, "forwarded_total;region="+to+";")
}

// counters are those of a region that audits compare, "" standing for all labels.
func counters() []string {
	names := []string{
		"returned_total", "served_total", "hops_forged_total", "hops_odd_total", "forwarded_total;",
		"adopted_requests_total",
	}
	for _, name := range regionNames {
		names = append(names, "forwarded_total;region="+name+";")
	}
	return names
}

// begin notes where all counters stand, and that no hop was seen at a server since.
func (w *world) begin(ctx context.Context) {
	for _, r := range w.regions {
		r.base = map[string]float64{}
		for _, name := range counters() {
			r.base[name] = r.stat(ctx, name)
		}
		r.ownHops.Store(0)
		r.otherHops.Store(0)
	}
}

// ends notes what a gateway has counted that is about to end: the next one counts from 0.
func (r *region) ends(ctx context.Context) {
	for name := range r.base {
		r.base[name] -= r.stat(ctx, name)
	}
}

// since returns by how much one of the counters has grown since the scene began.
func (r *region) since(ctx context.Context, name string) float64 {
	return r.stat(ctx, name) - r.base[name]
}

// since adds that up over all regions.
func (w *world) since(ctx context.Context, name string) (sum float64) {
	for _, r := range w.regions {
		sum += r.since(ctx, name)
	}
	return sum
}

// sees is called with what reaches the region's servers: hops count by who has signed them.
func (r *region) sees(q *http.Request) func() {
	for _, text := range q.Header.Values(hopHeader) {
		hop := lbregion.NewKey(regionSecret).ReadHop(text, r.name, wall(), q.Method+" "+q.URL.RequestURI())
		if hop.From == r.name {
			r.ownHops.Add(1)
		} else {
			r.otherHops.Add(1)
		}
	}
	return func() {}
}

// auditHops fails if a server has seen a hop, but for those that its own gateway had signed for requests that came
// home: these are Envoy's retries of what another region has failed.
func (w *world) auditHops(a *lab.Act) {
	sum := 0.0
	for _, r := range w.regions {
		home := r.since(a.Ctx, "returned_total")
		sum += home
		own, others := r.ownHops.Load(), r.otherHops.Load()
		lab.FailIf(own > int64(home) || others > 0, "%s: %d hops of its own have reached a server, %v with requests "+
			"that came home, and %d that it has not signed", r.name, own, home, others)
	}
	a.Note("returned", sum)
}

// excuse is what a fault may cost: of the requests of a region's clients, those that were sent before it was over and
// end after it began, all of them or only answers that another region had begun.
type excuse struct {
	of      *region
	begunBy string    // region; "" for all requests
	over    time.Time // 0 while it holds
}

// excuses reports whether it is one for the request that was sent at a time and has just ended.
func (e *excuse) excuses(of *region, s *loadgen.Sample, sent time.Time) bool {
	if of != e.of || !e.over.IsZero() && sent.After(e.over) {
		return false
	}
	return e.begunBy == "" || s.Error == loadgen.ErrTruncated && s.Header.Get("x-warmgate-reason") == "forwarded" &&
		s.Header.Get("x-warmgate-region") == e.begunBy
}

// mayBreak excuses answers that another region begins for a region's clients and that break, of requests that are sent
// until what it returns is called. What has not begun is served at home when it cannot be served there.
func (w *world) mayBreak(of, at *region) (over func()) {
	return w.add(excuse{of: of, begunBy: at.name})
}

// mayBreakBetween excuses such answers of a region for all others, and of others for it.
func mayBreakBetween(w *world, region *region) (over func()) {
	var all []func()
	for _, r := range w.regions {
		if r != region {
			all = append(all, w.mayBreak(r, region), w.mayBreak(region, r))
		}
	}
	return func() {
		for _, over := range all {
			over()
		}
	}
}

// mayFail excuses all failures of a region's clients, of requests that are sent until what it returns is called.
func (w *world) mayFail(of *region) (over func()) { return w.add(excuse{of: of}) }

func (w *world) add(e excuse) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.excuses)
	w.excuses = append(w.excuses, e)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.excuses[i].over = time.Now()
	}
}

// excused returns what excuses failures of a region's clients.
func (w *world) excused(of *region) func(*loadgen.Sample, time.Time) bool {
	return func(s *loadgen.Sample, sent time.Time) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.excuses {
			if w.excuses[i].excuses(of, s, sent) {
				return true
			}
		}
		return false
	}
}
