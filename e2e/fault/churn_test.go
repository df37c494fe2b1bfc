package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	window    = 16                     // endpoints at a time
	changes   = 150                    // in all
	changeGap = 100 * time.Millisecond // from one to the next
	// grace is how long a server runs on after it left the list: for the requests that it has, and for Envoy's workers
	// to receive the list.
	grace = 2 * time.Second
)

// rolling is a fleet in which each change takes the oldest endpoint away and adds a new one.
type rolling struct {
	site *audit.Site
	in   []*vllmsim.Server // the list, the oldest first

	mu   sync.Mutex
	gone map[string]time.Time // when the push that took it away was through
}

// turn makes one change.
func (r *rolling) turn(ctx context.Context) error {
	fresh, err := r.site.AddServer("127.0.0.1:0")
	if err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.gone, fresh.Addr()) // the kernel gives some ports twice
	r.mu.Unlock()
	old := r.in[0]
	r.in = append(r.in[1:], fresh)
	var list []harness.Endpoint
	for _, srv := range r.in {
		list = append(list, harness.Endpoint{Addr: srv.Addr()})
	}
	if err := r.site.Gateway.PushEndpoints(ctx, list); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[old.Addr()] = time.Now()
	time.AfterFunc(grace, func() { _ = r.site.Kill(old) })
	return nil
}

// late returns for how long the endpoint had been gone at the time given.
func (r *rolling) late(addr string, at time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since, ok := r.gone[addr]; ok {
		return at.Sub(since)
	}
	return 0
}

// picks is traffic of which each request is compared with the list of endpoints.
type picks struct {
	mu     sync.Mutex
	fleet  *rolling
	chosen int
	stale  int           // chosen longer than a discovery period after they were gone
	worst  time.Duration // the longest that one was gone before a request arrived for which it was chosen
	failed []string
}

// period is how long the plugin may use an outdated list: a poll each 100 ms, the time until its answer, and a tick
// until every worker has read it. That is 0.3 s; a busy machine stretches all of these.
const period = 5 * time.Second

func (p *picks) request(ctx context.Context, c *loadgen.Client, q loadgen.Request) {
	sent := time.Now()
	s := c.Do(ctx, &q, sent)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.OK() {
		p.failed = append(p.failed, fmt.Sprintf("%s at %q: %.200s", s.Error, s.Endpoint, s.Detail))
	}
	if s.Header.Get("x-warmgate-reason") != "chosen" {
		return
	}
	p.chosen++
	late := p.fleet.late(s.Header.Get("x-warmgate-host"), sent)
	p.worst = max(p.worst, late)
	if late > period {
		p.stale++
	}
}

// TestEndpointChurn replaces endpoints ten times a second under traffic, each new one a server that did not exist
// before, and shuts down those that are gone. No request fails, the plugin chooses no endpoint that has been gone for
// long, and afterwards nothing is counted at any address.
func TestEndpointChurn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	site, err := audit.Open(ctx, audit.Options{Servers: window, Config: config()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	fleet := &rolling{site: site, in: site.Servers(), gone: map[string]time.Time{}}
	client := audit.Client(site.Gateway, "", harness.Patience)
	t.Cleanup(client.Close)
	p := &picks{fleet: fleet}
	var group sync.WaitGroup
	rng := rand.New(rand.NewPCG(audit.Seed(), 0))
	begin := time.Now()
	for i := range changes {
		if err := fleet.turn(ctx); err != nil {
			t.Fatal(err)
		}
		for n := range 10 { // requests a change
			q := audit.Short(rng, 10*i+n)
			group.Add(1)
			go func() {
				defer group.Done()
				p.request(ctx, client, q)
			}()
		}
		time.Sleep(time.Until(begin.Add(time.Duration(i+1) * changeGap)))
	}
	group.Wait()
	t.Logf("%d changes in %v; %d requests chosen for, %d of them for endpoints gone for more than %v, at the most %v",
		changes, time.Since(begin).Round(time.Second), p.chosen, p.stale, period, p.worst.Round(time.Millisecond))
	if len(p.failed) > 0 {
		t.Errorf("%d of %d requests failed, first: %s", len(p.failed), 10*changes, p.failed[0])
	}
	if p.chosen < 10*changes/2 {
		t.Errorf("the plugin chose for %d of %d requests only", p.chosen, 10*changes)
	}
	if p.stale > 0 {
		t.Errorf("%d requests were meant for endpoints that had been gone for up to %v", p.stale, p.worst)
	}
	if _, err := site.Drained(ctx); err != nil {
		t.Error(err)
	}
	site.Gateway.DrainedT(t)
}
