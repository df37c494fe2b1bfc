package order

import (
	"slices"
	"time"
)

// handover is that a server has sent an answer, and gets the next request.
type handover struct {
	same bool // both are of the same gateway
	took time.Duration
}

// handovers returns those of servers that were full: of the k-th answer, and of the request that arrived in its place.
// They include what it takes to end a request, and to send another one to a server.
func (s *stage) handovers() (all []handover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type event struct {
		at time.Duration
		id uint64
	}
	arrived, served := map[string][]event{}, map[string][]event{}
	for id, q := range s.requests {
		if q.served > 0 {
			arrived[q.endpoint] = append(arrived[q.endpoint], event{q.arrived, id})
			served[q.endpoint] = append(served[q.endpoint], event{q.served, id})
		}
	}
	byTime := func(a, b event) int { return int(a.at - b.at) }
	for e := range arrived {
		slices.SortFunc(arrived[e], byTime)
		slices.SortFunc(served[e], byTime)
		for i, a := range arrived[e][min(s.most, len(arrived[e])):] {
			if from := served[e][i]; s.requests[a.id].waited > 0 {
				same := from.id%uint64(len(s.gateways)) == a.id%uint64(len(s.gateways))
				all = append(all, handover{same, a.at - from.at})
			}
		}
	}
	return all
}

// logHandovers logs how long servers with a place were without a request while some waited.
func (s *stage) logHandovers() {
	for _, same := range []bool{true, false} {
		var took []time.Duration
		for _, h := range s.handovers() {
			if h.same == same {
				took = append(took, h.took)
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		at := func(percent int) time.Duration {
			return took[(len(took)-1)*percent/100].Round(100 * time.Microsecond)
		}
		s.t.Logf("%d handovers within a gateway: %v; p50 %v, p90 %v, p99 %v", len(took), same, at(50), at(90), at(99))
	}
}
