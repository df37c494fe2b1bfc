package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/wait"
)

// Snapshot reads the counts of every party. They are not taken at the same instant: only while nothing starts or ends
// can they be expected to be equal.
func (s *Site) Snapshot(ctx context.Context) (Snapshot, error) {
	snap := Snapshot{}
	active, listed := map[string]int64{}, map[string]bool{}
	for _, g := range s.Gateways {
		stats, err := g.Stats(ctx, `^wasmcustom\.warmgate_inflight_requests`)
		if err != nil {
			return nil, err
		}
		page, err := g.Clusters(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range s.options.Clusters {
			own, err := activeRequests(page, name)
			if err != nil {
				return nil, err
			}
			for addr, n := range pluginCounts(stats, name) {
				c := snap[addr]
				c.Plugin += n
				snap[addr] = c
			}
			for addr, n := range own {
				active[addr] += n
				listed[addr] = true
			}
		}
	}
	for _, srv := range s.Servers() {
		c := snap[srv.Addr()]
		c.Server = srv.State().Inflight
		snap[srv.Addr()] = c
	}
	for addr, c := range snap {
		c.Envoy, c.Unknown = active[addr], !listed[addr]
		snap[addr] = c
	}
	return snap, s.addShared(snap)
}

// addShared adds what the common store counts.
func (s *Site) addShared(snap Snapshot) error {
	if s.Shared == nil {
		return nil
	}
	totals, leases, err := s.Shared()
	if err != nil {
		return err
	}
	for addr := range totals {
		if _, ok := snap[addr]; !ok {
			snap[addr] = Counts{} // no other party knows it
		}
	}
	for addr, c := range snap {
		c.Shared, c.Total, c.Leases = true, totals[addr], leases[addr]
		snap[addr] = c
	}
	return nil
}

// agreeTimeout bounds the wait for the parties to agree. Gauges are at most a second old, the leases of a dead owner
// come back within the TTL of 5 s and a second; the rest is for a busy machine.
const agreeTimeout = 30 * time.Second

// Agree waits until every party counts the same at every endpoint, and returns those counts and how long it took.
// Nothing may start or end during the wait, except what the caller has just ended.
func (s *Site) Agree(ctx context.Context) (Snapshot, time.Duration, error) {
	return s.await(ctx, "the parties do not agree on what is in flight", Snapshot.Disagreement)
}

// Drained waits until no party counts anything, and returns how long it took.
func (s *Site) Drained(ctx context.Context) (time.Duration, error) {
	_, took, err := s.await(ctx, "something is still counted after the end of all requests", Snapshot.Remains)
	return took, err
}

// EndStreams compares all counts while the streams are open, and then ends these. It returns how long it took until the
// counts were equal (or until it gave up), how many streams were complete and how many were cut.
func (s *Site) EndStreams(ctx context.Context, streams *Streams) (took time.Duration, complete, cut int, err error) {
	if streams.Len() == 0 {
		return 0, 0, 0, errors.New("no stream is open any more: nothing to compare")
	}
	if _, took, err = s.AgreeWith(ctx, streams.Open); err != nil {
		return took, 0, 0, err
	}
	const hurry = 200
	if err := s.SetSpeed(hurry); err != nil {
		return took, 0, 0, err
	}
	complete, cut = streams.Wait()
	return took, complete, cut, s.SetSpeed(1)
}

// AgreeWith waits until the plugin counts exactly the streams that were placed by it, and servers and Envoy all of
// them. It is for the time when the plugin was off, or another cluster in use, while some of the streams began.
func (s *Site) AgreeWith(ctx context.Context, open func() map[string]OpenCount) (Snapshot, time.Duration, error) {
	return s.await(ctx, "the parties do not agree with their clients", func(snap Snapshot) error {
		want := open()
		var errs []error
		for addr, c := range snap {
			w := want[addr]
			if c.Plugin != w.Counted || c.Server != w.All {
				errs = append(errs, fmt.Errorf("%s: plugin %d, server %d; clients have %d open, %d of them counted",
					addr, c.Plugin, c.Server, w.All, w.Counted))
			}
			if c.Shared && (c.Total != w.Counted || c.Leases != w.Counted) {
				errs = append(errs, fmt.Errorf("%s: in the store %d in %d leases; clients have %d counted", addr,
					c.Total, c.Leases, w.Counted))
			}
			if !c.Unknown && c.Envoy > w.All {
				errs = append(errs, fmt.Errorf("%s: Envoy %d; clients have %d open", addr, c.Envoy, w.All))
			}
		}
		return joinSorted(errs)
	})
}

// AtLeast waits until the plugin counts at least the given streams. It may be called while other requests come and go:
// these only add to the counts.
func (s *Site) AtLeast(ctx context.Context, open map[string]OpenCount) error {
	_, _, err := s.await(ctx, "open streams are not counted any more", func(snap Snapshot) error {
		var errs []error
		for addr, w := range open {
			if c := snap[addr]; c.Plugin < w.Counted {
				errs = append(errs, fmt.Errorf("%s: plugin %d, open streams %d", addr, c.Plugin, w.Counted))
			}
		}
		return joinSorted(errs)
	})
	return err
}

func (s *Site) await(ctx context.Context, what string, wrong func(Snapshot) error) (Snapshot, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	start := time.Now()
	var snap Snapshot
	err := wait.Until(ctx, step, func() error {
		now, err := s.Snapshot(ctx)
		if err != nil {
			return err
		}
		snap = now
		return wrong(now)
	})
	if err != nil {
		err = fmt.Errorf("audit: %s: %w", what, err)
	}
	return snap, time.Since(start), err
}
