package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Result is what one policy did with the traffic.
type Result struct {
	Policy    string             `json:"policy"`
	Summary   loadgen.Summary    `json:"summary"`
	Queued    float64            `json:"queued_request_seconds"` // time requests spent in the servers' queues, summed
	Engines   Engines            `json:"engines"`
	Fleet     vllmsim.FleetState `json:"fleet"`
	Placement Placement          `json:"placement"`
	Imbalance float64            `json:"imbalance"`
	Samples   []loadgen.Sample   `json:"-"`
}

// Engines is what the servers counted together.
type Engines struct {
	Queued      int64 `json:"queued_requests"` // requests that waited for a slot, a KV block or room for their adapter
	Preemptions int64 `json:"preemptions"`
	Loads       int64 `json:"adapter_loads"`

	seconds float64 // that requests spent queueing
}

func (e Engines) less(before Engines) Engines {
	return Engines{
		e.Queued - before.Queued, e.Preemptions - before.Preemptions, e.Loads - before.Loads,
		e.seconds - before.seconds,
	}
}

// engines sums up what the servers have counted so far.
func (s *Stage) engines() Engines {
	var e Engines
	for _, srv := range s.Servers {
		st := srv.State()
		e.Queued += st.QueuedRequests
		e.Preemptions += st.Preemptions
		e.Loads += st.AdapterLoads
		e.seconds += st.QueuedSeconds
	}
	return e
}

// SwitchAndPlay makes the gateways use a policy and plays the requests. It returns an error if any of them failed.
func (s *Stage) SwitchAndPlay(ctx context.Context, p Policy, reqs []loadgen.Request,
	warm time.Duration,
) (Result, error) {
	if err := s.Switch(ctx, p); err != nil {
		return Result{}, err
	}
	r := s.Play(ctx, p, reqs, warm)
	err := ctx.Err()
	if n := r.Summary.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("%s: %d of %d requests failed: %v", r.Policy, n, r.Summary.Requests, r.Summary.Errors)
	}
	return r, err
}

// Play plays the requests open loop to their end and returns what was seen, without what is due before the given time:
// that only warms up. Several gateways get the requests in turn.
func (s *Stage) Play(ctx context.Context, p Policy, reqs []loadgen.Request, warm time.Duration) Result {
	return s.Measure(p, warm, func() []loadgen.Sample { return s.send(ctx, reqs) })
}

// Measure resets the servers, has send play requests of any kind and returns what was seen, without what is due before
// the given time.
func (s *Stage) Measure(p Policy, warm time.Duration, send func() []loadgen.Sample) Result {
	for _, srv := range s.Servers {
		srv.Reset()
	}
	s.Fleet.Reset()
	begun := make(chan Engines, 1)
	time.AfterFunc(warm, func() {
		s.Fleet.Reset()
		begun <- s.engines()
	})
	samples := send()
	engines := s.engines().less(<-begun)
	placement := PlacementOf(samples, s.slots, warm)
	samples = slices.DeleteFunc(samples, func(x loadgen.Sample) bool { return x.Due < warm })
	return Result{
		Policy: p.Name, Samples: samples, Engines: engines, Queued: engines.seconds, Fleet: s.Fleet.State(),
		Summary:   loadgen.Summarize(samples),
		Placement: placement, Imbalance: Imbalance(samples, len(s.Servers)),
	}
}

// send plays the requests, each through the next of the gateways.
func (s *Stage) send(ctx context.Context, reqs []loadgen.Request) []loadgen.Sample {
	n := len(s.clients)
	parts := make([][]loadgen.Request, n)
	for i := range reqs {
		parts[i%n] = append(parts[i%n], reqs[i])
	}
	var mu sync.Mutex
	var all []loadgen.Sample
	var wg sync.WaitGroup
	for i, c := range s.clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			samples := c.OpenLoop(ctx, parts[i])
			mu.Lock()
			defer mu.Unlock()
			all = append(all, samples...)
		}()
	}
	wg.Wait()
	return all
}

// settling is two heartbeats and a margin: after it the counts of the previous policy, and of gateways that had none,
// are gone.
const settling = 2*time.Second + 500*time.Millisecond

// Herd has n clients arrive at the same moment, at all gateways in turn, and returns how many requests the servers have
// more than each other once all are there: the most less the least in flight. Then all clients leave. It begins with a
// while without any traffic.
func (s *Stage) Herd(ctx context.Context, n int) (apart int, err error) {
	const tokens = 4000 // the first must not be answered before the last is there
	body, err := loadgen.ChatBody("sim", "all at once", tokens, true)
	if err != nil {
		return 0, err
	}
	if err := wait.For(ctx, settling); err != nil {
		return 0, err
	}
	var addrs []string
	for _, g := range s.Gateways {
		addrs = append(addrs, g.Addr())
	}
	crowd, err := loadgen.Arrive(addrs, n, loadgen.PostRequest("herd", Path, body))
	if err != nil {
		return 0, err
	}
	err = s.awaitInflight(ctx, n)
	counts := s.Inflight()
	crowd.Leave()
	if err != nil {
		return 0, err
	}
	return slices.Max(counts) - slices.Min(counts), s.awaitInflight(ctx, 0)
}

// awaitInflight waits until the servers have n requests together.
func (s *Stage) awaitInflight(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return wait.Until(ctx, 2*time.Millisecond, func() error {
		sum := 0
		for _, k := range s.Inflight() {
			sum += k
		}
		if sum != n {
			return fmt.Errorf("compare: %d requests are in flight, want %d", sum, n)
		}
		return nil
	})
}
