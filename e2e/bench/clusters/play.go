package clusters

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

// answer is how one request ended.
type answer struct {
	at   time.Duration // when it was due, from the beginning of the run
	took time.Duration // from then to the end of its answer
	site string
	ok   bool
}

// result is what a contender did in a round.
type result struct {
	requests int
	failed   int                // of them, not answered with 200
	errors   int                // of these, not answered by the cluster that fails
	p50, p99 time.Duration      // of all that were answered with 200
	shares   map[string]float64 // of the requests before anything happens
	slowed   float64            // share of the one that is slow in the last span before it recovers
	recovery returned           // of the one that had slowed down
	back     returned           // of the one that had failed
}

// returned is after what time a cluster has half of its fair share of the requests again.
type returned struct {
	after  time.Duration
	never  bool // not within that time, after which something else happens
	stayed bool // it had that much all the time
}

// play sends a run's requests to a contender.
func (st *stage) play(ctx context.Context, s settings, c *contender, seed uint64) (result, error) {
	if err := st.gateway.PushPlugin(ctx, c.config); err != nil {
		return result{}, err
	}
	for _, site := range st.sites {
		site.slow.Store(1)
		site.fails.Store(false)
	}
	var choose chooser
	if c.header != nil {
		choose = c.header(st.sites, seed)
	}
	p := s.phases
	begin := time.Now()
	events := []struct {
		at time.Duration
		do func()
	}{
		{p.slow, func() { st.sites[slowing].slow.Store(int64(p.slowBy)) }},
		{p.recovers, func() { st.sites[slowing].slow.Store(1) }},
		{p.fails, func() { st.sites[failing].fails.Store(true) }},
		{p.works, func() { st.sites[failing].fails.Store(false) }},
	}
	var mu sync.Mutex
	var all []answer
	var running sync.WaitGroup
	random := rand.New(rand.NewPCG(seed, 1))
	for due := time.Duration(0); due < p.end; {
		for len(events) > 0 && due >= events[0].at {
			events[0].do()
			events = events[1:]
		}
		if wait := time.Until(begin.Add(due)); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return result{}, ctx.Err()
			}
		}
		at := due
		running.Add(1)
		go func() {
			defer running.Done()
			a := st.send(ctx, c, choose, begin.Add(at))
			a.at = at
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		}()
		due += time.Duration(random.ExpFloat64() / (s.rate * st.capacity()) * float64(time.Second))
	}
	running.Wait()
	return p.judge(all, st.sites), nil
}

// send sends one request that was due then.
func (st *stage) send(ctx context.Context, c *contender, choose chooser, due time.Time) answer {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, st.gateway.URL()+c.path, strings.NewReader(prompt))
	if err != nil {
		return answer{}
	}
	r.Header.Set("Content-Type", "application/json")
	chosen := 0
	if choose != nil {
		chosen = choose.choose()
		r.Header.Set(bench.TargetHeader, st.sites[chosen%1000].name)
	}
	sent := time.Now()
	resp, err := st.client.Do(r)
	first := time.Since(sent)
	a := answer{ok: err == nil && resp.StatusCode == http.StatusOK}
	if err == nil {
		a.site = resp.Header.Get("x-site")
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	a.took = time.Since(due)
	if choose != nil {
		choose.ended(chosen, first, time.Since(sent), a.ok)
	}
	return a
}

// judge returns what the answers of a run show.
func (p *phases) judge(all []answer, sites []*site) result {
	r := result{shares: map[string]float64{}}
	var took []time.Duration
	for _, a := range all {
		if a.at < p.warm {
			continue
		}
		r.requests++
		if !a.ok {
			r.failed++
			if a.site != sites[failing].name {
				r.errors++
			}
			continue
		}
		took = append(took, a.took)
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		r.p50, r.p99 = took[n/2], took[n*99/100]
	}
	for _, s := range sites {
		r.shares[s.name] = share(all, s.name, p.warm, p.slow)
	}
	r.slowed = share(all, sites[slowing].name, p.recovers-p.recovered, p.recovers)
	r.recovery = p.backAfter(all, sites, slowing, p.recovers, p.fails)
	r.back = p.backAfter(all, sites, failing, p.works, p.end)
	return r
}

// share returns which part of the requests in a time a site got.
func share(all []answer, site string, from, to time.Duration) float64 {
	n, sum := 0, 0
	for _, a := range all {
		if a.at >= from && a.at < to {
			sum++
			if a.site == site {
				n++
			}
		}
	}
	return float64(n) / float64(max(1, sum))
}

// backAfter returns after which time a site has half of its fair share again, which is its part of what all can serve,
// in the span up to then. One that has it at the beginning was never left.
func (p *phases) backAfter(all []answer, sites []*site, i int, from, end time.Duration) returned {
	capacity := 0.0
	for _, s := range sites {
		capacity += s.perSecond()
	}
	fair := sites[i].perSecond() / capacity
	for at := from; at <= end; at += p.recovered / 10 {
		if share(all, sites[i].name, at-p.recovered, at) >= fair/2 {
			return returned{after: at - from, stayed: at == from}
		}
	}
	return returned{after: end - from, never: true}
}

// site is a cluster with one server: so many requests at once, each for so long; others wait there.
type site struct {
	name    string
	slots   int
	service time.Duration

	*httptest.Server
	free  chan struct{}
	slow  atomic.Int64 // times as long
	fails atomic.Bool
}

// The clusters: the second slows down, and fails later. The third is so slow that who chooses well leaves it nearly
// without requests, whether or not it works.
func newSites() []*site {
	return []*site{
		{name: "fast", slots: 16, service: 100 * time.Millisecond},
		{name: "medium", slots: 8, service: 100 * time.Millisecond},
		{name: "little", slots: 8, service: 200 * time.Millisecond},
	}
}

const (
	slowing = 1
	failing = 1
)

// perSecond is how many requests a site serves.
func (s *site) perSecond() float64 { return float64(s.slots) / s.service.Seconds() }

// What is sent and answered: latencies are learned of calls that compute, and of nothing else.
const (
	call   = "/v1/chat/completions"
	prompt = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	text   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`
)

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-site", s.name)
	if s.fails.Load() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-r.Context().Done():
		return
	}
	select {
	case <-time.After(s.service * time.Duration(s.slow.Load())):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	case <-r.Context().Done():
	}
}

// stage is the gateway and the sites.
type stage struct {
	gateway *harness.Gateway
	sites   []*site
	client  *http.Client
}

func newStage(ctx context.Context) (*stage, error) {
	st := &stage{sites: newSites()}
	var names, addrs []string
	weights := ""
	for _, s := range st.sites {
		s.free = make(chan struct{}, s.slots)
		s.slow.Store(1)
		s.Server = httptest.NewServer(s)
		names, addrs = append(names, s.name), append(addrs, s.Listener.Addr().String())
		weights += fmt.Sprintf("      - {name: %s, weight: %d}\n", s.name, int(s.perSecond()))
	}
	var err error
	st.gateway, err = harness.Start(ctx, harness.Options{
		Config: off, Endpoints: []harness.Endpoint{{Addr: addrs[0]}},
		Edit: harness.OfFile("envoy.yaml", bench.Clusters(names, addrs, `
- match: {prefix: /weighted}
  name: weighted
  route:
    timeout: 60s
    weighted_clusters:
      clusters:
`+weights)),
	})
	st.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}, Timeout: time.Minute}
	return st, err
}

func (st *stage) close() {
	_ = st.gateway.Stop()
	for _, s := range st.sites {
		s.Close()
	}
}

// capacity is how many requests all sites serve in a second.
func (st *stage) capacity() (sum float64) {
	for _, s := range st.sites {
		sum += s.perSecond()
	}
	return sum
}
