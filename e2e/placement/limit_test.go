package placement

import (
	"testing"

	"github.com/warmgate/warmgate/e2e/traffic"
)

// TestLimit plays trees whose servers are full when their memory is. A schedule that knows all lengths takes no memory
// from a request that runs, and does more than who hands over at once.
func TestLimit(t *testing.T) {
	w := pushWorkloads()[0]
	w.Scripts = func(seed uint64) []traffic.Script { return unequalTrees(seed, 90, 2) }
	p := w.Prepare(1)
	blind, limit := p.Run(1, PrefixCacheWaiting(Waiting{Skip: 32})), p.Run(1, Limit(Foresight{
		Loyal: true, Credit: 1, Memory: 0.85,
	}))
	t.Logf("%.0f tokens/s and %.3f cached, blind %.0f and %.3f", limit.Speed, limit.Cached, blind.Speed, blind.Cached)
	if limit.Preempted > 0 || blind.Preempted == 0 {
		t.Errorf("%d preempted, blind %d", limit.Preempted, blind.Preempted)
	}
	if limit.Speed < 1.05*blind.Speed || limit.Cached < blind.Cached {
		t.Errorf("%.0f tokens/s and %.3f cached, blind %.0f and %.3f", limit.Speed, limit.Cached, blind.Speed,
			blind.Cached)
	}
}
