package metrics

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// baseModel is the model of every server; other names are adapters of it.
const baseModel = "sim"

// engine is what the servers have in common: 16 sequences at once, at speed 1 about 1100 tokens a second when all slots
// are full, room for two adapters.
func engine() vllmsim.Config {
	c := vllmsim.DefaultConfig()
	c.Model, c.MaxNumSeqs, c.MaxQueued, c.MaxLoras = baseModel, 16, -1, 2
	c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS, c.Tuning.AdapterLoadMS = 6, 0.5, 40
	return c
}

// smallCache is the number of KV blocks of a server with a small cache: 3584 tokens, just enough for the longest
// request.
const smallCache = 224

// fleet is the servers and what is known of them.
type fleet struct {
	servers  []vllmsim.Config
	slots    []int     // requests that each runs at once, by its slots and its KV cache
	capacity []float64 // requests a second that each serves
}

// newFleet returns two fast servers, four slow ones and two with small KV caches.
func newFleet() (*fleet, error) {
	f := &fleet{}
	for i := range 8 {
		c := engine()
		switch {
		case i < 2:
			c.Tuning.Speed = 2
		case i >= 6:
			c.NumBlocks = smallCache
		}
		f.servers = append(f.servers, c)
	}
	typical, err := compare.Typical(workload(0))
	if err != nil {
		return nil, err
	}
	for _, c := range f.servers {
		f.slots = append(f.slots, compare.Batch(c, typical))
		f.capacity = append(f.capacity, compare.Capacity([]vllmsim.Config{c}, typical))
	}
	return f, nil
}

// workload is traffic with heavy-tailed prompts and answers; two in five requests are for an adapter.
func workload(seed uint64) loadgen.Workload {
	return loadgen.Workload{
		Seed: seed, Models: models(), Stream: true,
		Prompt: loadgen.LogNormal{Median: 250, Sigma: 1, Min: 8, Max: 2400},
		Output: loadgen.LogNormal{Median: 24, Sigma: 1.1, Min: 2, Max: 400},
	}
}

// models are the base model and six adapters; the k-th adapter has 1/k times as many requests as the first.
func models() []loadgen.Model {
	out := []loadgen.Model{{Name: baseModel, Weight: 1.5 * (1 + 1./2 + 1./3 + 1./4 + 1./5 + 1./6)}}
	for k := 1; k <= 6; k++ {
		out = append(out, loadgen.Model{Name: fmt.Sprintf("adapter-%d", k), Weight: 1 / float64(k)})
	}
	return out
}

// describeModels returns how often each model is requested.
func describeModels() string {
	var sum float64
	for _, m := range models() {
		sum += m.Weight
	}
	var parts []string
	for _, m := range models() {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", m.Name, 100*m.Weight/sum))
	}
	return strings.Join(parts, ", ")
}

// imbalance returns the work that the server with the most of it got over its capacity, against the mean of all
// servers: 1 is work in proportion to capacity.
func (f *fleet) imbalance(samples []loadgen.Sample, reqs []loadgen.Request) float64 {
	busy := make([]float64, len(f.servers))
	for i := range samples {
		id := compare.Server(&samples[i], len(f.servers))
		if id < 0 {
			continue
		}
		c := f.servers[id]
		c.MaxNumSeqs = f.slots[id]
		q := &reqs[samples[i].ID]
		busy[id] += compare.Work(c, q.Prompt, q.MaxTokens).Seconds() / c.Tuning.Speed
	}
	var most, sum float64
	for _, b := range busy {
		most, sum = max(most, b), sum+b
	}
	if sum == 0 {
		return 0
	}
	return most / (sum / float64(len(busy)))
}

const (
	// window is the interval in which a gateway scrapes every server once. A policy that uses the scraped metrics
	// alone sends all requests of a window to the same server.
	window = time.Second
	// fewest is the number of picks per server that a window must have to be looked at.
	fewest = 4
)

// herd measures how unevenly requests were sent within windows. In a window of n requests an endpoint whose share of
// all requests of the run is p should get n·p of them; by how much it gets more or less, relative to that, is its
// deviation. CV is the root of the mean square of the deviations, in which every endpoint weighs as much as its share
// and every window as much as its requests: the coefficient of variation of the picks. A policy whose shares are
// lasting differences between servers has none.
type herd struct {
	CV      float64
	Chance  float64 // what CV would be expected to be if every request went to an endpoint at random, with these shares
	Windows int     // with enough requests
}

// excess is what is left of the coefficient of variation when that of chance is taken off; 0 if it is no more than
// that.
func (h herd) excess() float64 { return math.Sqrt(max(0, h.CV*h.CV-h.Chance*h.Chance)) }

// herdOf computes the herd of a run of so many servers.
func herdOf(samples []loadgen.Sample, servers int) herd {
	windows, all := picksOf(samples, servers)
	var h herd
	var squares, requests float64
	used := 0
	for _, counts := range windows {
		n := sum(counts)
		if n < float64(fewest*servers) {
			continue
		}
		var s float64
		s, used = chiSquare(counts, all)
		squares += s
		requests += n
		h.Windows++
	}
	if h.Windows == 0 {
		return h
	}
	h.CV = math.Sqrt(squares / requests)
	h.Chance = math.Sqrt(float64(h.Windows*(used-1)) / requests) // the mean of χ² is one less than the endpoints
	return h
}

// picksOf counts the requests of each server, in each window and in all.
func picksOf(samples []loadgen.Sample, servers int) (windows map[time.Duration][]float64, all []float64) {
	windows, all = map[time.Duration][]float64{}, make([]float64, servers)
	for i := range samples {
		id := compare.Server(&samples[i], servers)
		if id < 0 {
			continue
		}
		w := samples[i].Sent / window
		if windows[w] == nil {
			windows[w] = make([]float64, servers)
		}
		windows[w][id]++
		all[id]++
	}
	return windows, all
}

// chiSquare returns the statistic χ² of the picks of a window against the shares of all picks: the sum of
// (picks − n·p)²/(n·p) over the endpoints that got any at all, and the number of these.
func chiSquare(counts, all []float64) (squares float64, used int) {
	n, total := sum(counts), sum(all)
	for id, picks := range all {
		if p := picks / total; p > 0 {
			squares += (counts[id] - n*p) * (counts[id] - n*p) / p / n
			used++
		}
	}
	return squares, used
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}
