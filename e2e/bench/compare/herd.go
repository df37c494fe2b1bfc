package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/wait"
)

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
