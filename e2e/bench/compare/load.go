package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Work returns how long a request keeps a server of speed 1 busy, if its batch is full: the prefill, which all share,
// and the request's share of each decode step.
func Work(server vllmsim.Config, prompt, output int) time.Duration {
	t := server.Tuning
	step := t.DecodeStepMS/float64(server.MaxNumSeqs) + t.DecodeSeqMS
	ms := t.PrefillOverheadMS + t.PrefillTokenMS*float64(prompt) + step*float64(output)
	return time.Duration(ms * float64(time.Millisecond))
}

// AtLoad returns the requests of a workload that lasts for the given time and uses the given share of the servers'
// capacity. Rate and Count of w are overwritten.
func AtLoad(w loadgen.Workload, servers []vllmsim.Config, load float64, span time.Duration) ([]loadgen.Request, error) {
	typical, err := Typical(w)
	if err != nil {
		return nil, err
	}
	w.Rate = load * Capacity(servers, typical)
	w.Count = max(1, int(w.Rate*span.Seconds()))
	return w.Requests()
}

// Typical returns many requests of a workload, the same ones for every seed, to take averages of.
func Typical(w loadgen.Workload) ([]loadgen.Request, error) {
	w.Count, w.Rate, w.Seed = 20_000, 1, 0
	return w.Requests()
}

// Capacity returns how many requests a second, if they are like these, the servers serve together with batches as full
// as their slots and KV caches allow. Loading adapters counts as nothing: how often that happens depends on the policy.
func Capacity(servers []vllmsim.Config, reqs []loadgen.Request) float64 {
	var rate float64
	for _, server := range servers {
		server.MaxNumSeqs = Batch(server, reqs)
		var work time.Duration
		for i := range reqs {
			work += Work(server, reqs[i].Prompt, reqs[i].MaxTokens)
		}
		rate += server.Tuning.Speed * float64(len(reqs)) / work.Seconds()
	}
	return rate
}

// Batch returns how many such requests a server runs at once: MaxNumSeqs, or as many as its KV cache has room for on
// average. A request that runs has its prompt there and, in the mean of its time, half of its answer; the longer the
// answer, the longer it runs.
func Batch(server vllmsim.Config, reqs []loadgen.Request) int {
	var held, time float64
	for i := range reqs {
		answer := float64(reqs[i].MaxTokens)
		held += answer * (float64(reqs[i].Prompt) + answer/2)
		time += answer
	}
	tokens := float64(server.NumBlocks * server.BlockSize)
	if tokens == 0 || held == 0 {
		return server.MaxNumSeqs
	}
	return max(1, min(server.MaxNumSeqs, int(tokens*time/held)))
}

// Describe returns what a server can hold, and how fast it is, in words.
func Describe(c vllmsim.Config) string {
	t := c.Tuning
	return fmt.Sprintf("%d sequences at once and %d tokens of KV cache, speed %v; at speed 1 prefill %v ms + %v ms a "+
		"token, decode step %v ms + %v ms a sequence", c.MaxNumSeqs, c.NumBlocks*c.BlockSize, cmp.Or(t.Speed, 1),
		t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS)
}

// Servers returns servers that differ in speed only, one for each of the speeds.
func Servers(server vllmsim.Config, speeds ...float64) []vllmsim.Config {
	servers := make([]vllmsim.Config, len(speeds))
	for i := range servers {
		servers[i] = server
		servers[i].Tuning.Speed = speeds[i]
	}
	return servers
}

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
