package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// Ranks are servers with data parallelism: several of a pool's engines, one behind the other, are one server's. A
// contender whose configuration tells ranks apart chooses among them, as does a [Chooser]; for others the server does.
type Ranks struct {
	Of         int  // engines of a server; each is one of its own below 2
	Together   bool // their steps begin and end together: see [engine.Ranks]
	RoundRobin bool // a server chooses among its ranks in turn, as SGLang does; else as vLLM does
}

// inside chooses among the ranks of a server that is not told which.
type inside struct {
	ranks  []*engine.Engine
	inTurn bool
	next   int
	counts [][2]int // waiting and running requests, as the server knows them
	at     time.Duration
}

// countsAge is how old the counts are by which vLLM chooses: its coordinator tells them ten times a second.
const countsAge = 100 * time.Millisecond

// choose returns the rank of the next request. vLLM's is the first with the least of running and four times waiting
// requests (DPLBAsyncMPClient.get_core_engine_for_request), and counts as waiting what it has sent since.
func (in *inside) choose(now time.Duration) (rank int) {
	if in.inTurn {
		in.next++
		return (in.next - 1) % len(in.ranks)
	}
	if in.counts == nil || now-in.at >= countsAge {
		in.at, in.counts = now, in.counts[:0]
		for _, e := range in.ranks {
			g := e.Gauges(now)
			in.counts = append(in.counts, [2]int{g.Waiting, g.Running})
		}
	}
	least := -1
	for i, n := range in.counts {
		if score := 4*n[0] + n[1]; least < 0 || score < least {
			least, rank = score, i
		}
	}
	in.counts[rank][0]++
	return rank
}
