package prefix

import (
	"sync"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// lmetric chooses the server with the lowest product of the tokens that it would have to compute for a prompt and its
// requests with this one (Zhang et al.: "LMetric: Simple is Better", 2026). It knows what the servers' caches hold or
// are about to. It may be used by several goroutines.
type lmetric struct {
	mu sync.Mutex
	caches
	underWay []int // requests, by server
	turn     int   // the server to begin with among equals
}

func newLMetric(stage *compare.Stage, w *workload) *lmetric {
	return &lmetric{caches: newCaches(stage, w), underWay: make([]int, len(stage.Servers))}
}

// byLMetric chooses as lmetric does.
func byLMetric(stage *compare.Stage, w *workload) func(*scripted.Question) (int, scripted.UnderWay) {
	return newLMetric(stage, w).choose
}

// choose returns the server for a request, and counts it there until it has ended.
func (l *lmetric) choose(q *scripted.Question) (server int, u scripted.UnderWay) {
	p := l.prompt(q)
	l.mu.Lock()
	defer l.mu.Unlock()
	n, lowest := len(l.servers), 0
	for k := range n {
		i := (l.turn + k) % n
		// one token is always computed, since its output is the next
		uncached := max(1, p.Tokens-l.cached(i, p))
		if product := uncached * (l.underWay[i] + 1); k == 0 || product < lowest {
			server, lowest = i, product
		}
	}
	l.turn++
	l.underWay[server]++
	computed := l.compute(server, p)
	return server, scripted.UnderWay{
		First: func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			computed()
		},
		Done: func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			computed()
			l.underWay[server]--
		},
	}
}
