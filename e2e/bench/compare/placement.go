package compare

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Placement counts decisions that made a request queue although another server could have begun with it at once. The
// time that servers spend queueing also contains requests that were placed well and delayed by later ones; this judges
// a decision by what was known when it was made.
type Placement struct {
	Requests   int `json:"requests"`
	Queued     int `json:"queued"`             // found no free slot
	BesideFree int `json:"queued_beside_free"` // of these: another server had a free slot
	BesideIdle int `json:"queued_beside_idle"` // of these: another server had nothing at all to do
}

// change is a request entering or leaving a server.
type change struct {
	at     time.Duration
	server int
	delta  int
}

// PlacementOf replays samples and counts those sent at the given time or later; slots are the numbers of requests that
// the servers run at once. It assumes a request to be at its server from the moment it was sent until its end; both are
// off by the time on the wire, about a millisecond here.
func PlacementOf(samples []loadgen.Sample, slots []int, from time.Duration) Placement {
	var changes []change
	for i := range samples {
		s := &samples[i]
		id := Server(s, len(slots))
		if id < 0 {
			continue
		}
		changes = append(changes, change{s.Sent, id, 1}, change{s.Due + s.Total, id, -1})
	}
	// At the same instant the one who leaves makes room first.
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta))
	})
	inflight := make([]int, len(slots))
	var p Placement
	for _, c := range changes {
		if c.delta > 0 && c.at >= from {
			p.count(inflight, c.server, slots)
		}
		inflight[c.server] += c.delta
	}
	return p
}

func (p *Placement) count(inflight []int, server int, slots []int) {
	p.Requests++
	if inflight[server] < slots[server] {
		return
	}
	p.Queued++
	for id, n := range inflight {
		if n < slots[id] {
			p.BesideFree++
			break
		}
	}
	if slices.Min(inflight) == 0 {
		p.BesideIdle++
	}
}

// Server returns which of n servers answered, or -1 if none did.
func Server(s *loadgen.Sample, n int) int {
	id, err := strconv.Atoi(strings.TrimSpace(s.Endpoint))
	if err != nil || id < 0 || id >= n {
		return -1
	}
	return id
}

// Imbalance returns the mean number of requests in flight at the fullest of n servers over the mean of all: 1 is
// perfect, n is everything on one. By Little's law a server's mean number in flight is the sum of the latencies it
// gave, over the time, so it follows from the clients' own measurements.
func Imbalance(samples []loadgen.Sample, n int) float64 {
	inflight := make([]float64, n)
	var sum, most float64
	for i := range samples {
		id := Server(&samples[i], n)
		if id < 0 {
			continue
		}
		inflight[id] += samples[i].Total.Seconds()
		sum += samples[i].Total.Seconds()
		most = max(most, inflight[id])
	}
	if sum == 0 {
		return 0
	}
	return most / (sum / float64(n))
}
