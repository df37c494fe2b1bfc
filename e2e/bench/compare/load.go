package compare

import (
	"cmp"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

// Work returns how long a request keeps a server of speed 1 busy, if its batch is full: the prefill, which all share,
// and the request's share of each decode step.
func Work(server vllmsim.Config, prompt, output int) time.Duration {
	t := server.Tuning
	step := t.DecodeStepMS/float64(server.MaxNumSeqs) + t.DecodeSeqMS
	ms := t.PrefillOverheadMS + t.PrefillTokenMS*float64(prompt) + step*float64(output)
	return time.Duration(ms * float64(time.Millisecond))
}

// Load returns the share of the servers' capacity, 0..1, that the requests use while they arrive.
func Load(servers []vllmsim.Config, reqs []loadgen.Request) float64 {
	span := reqs[len(reqs)-1].Due
	if span <= 0 {
		return 0
	}
	return float64(len(reqs)) / (span.Seconds() * Capacity(servers, reqs))
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
