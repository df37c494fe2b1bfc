package metrics

import (
	"fmt"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
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
