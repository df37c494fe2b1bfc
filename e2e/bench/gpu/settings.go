package gpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// vllmVersion is the one that was measured.
const vllmVersion = "0.26.0"

type settings struct {
	bench.Settings
	python   string // with vLLM
	version  string // of vLLM
	shape    string // of the model
	folder   string // of what is kept of runs
	engines  int
	cards    int     // at most, 0: as many as there are
	cacheGB  float64 // of the KV cache of each engine
	eager    bool
	load     float64 // of the capacity, for an open loop
	sessions int     // in place of those of the works, 0: as they have it
	works    string
	policies string
}

// What every engine is started with.
const (
	modelName    = "sim" // as the players of scripts call it
	sequences    = 64    // at once
	modelLength  = 24576 // tokens: no conversation becomes longer
	batchTokens  = 2048
	startTimeout = 15 * time.Minute // vLLM compiles what it runs for the first time
)

// shape is what a model takes of a GPU.
type shape struct {
	beside     int // MiB beside the KV cache: weights, CUDA and its graphs
	tokenBytes int // of the KV cache
}

// shapes are the models that cuda_model.py makes.
var shapes = map[string]shape{"llama-3b": {9 << 10, 2 * 2 * 28 * 8 * 128}, "tiny": {2 << 10, 2 * 2 * 2 * 128}}

// needMiB is how much of a GPU an engine takes.
func (s *settings) needMiB() int { return int(s.cacheGB*1e9/(1<<20)) + shapes[s.shape].beside }

// leastGB is the smallest KV cache, GB: vLLM wants room for the longest prompt.
func (s *settings) leastGB() float64 { return float64(modelLength*shapes[s.shape].tokenBytes) / 1e9 }

// check refuses what cannot be played.
func (s *settings) check() error {
	switch {
	case s.Rounds < 1 || s.engines < 2:
		return errors.New("want -rounds of 1 at least, and 2 -engines")
	case s.cards < 0 || s.sessions < 0:
		return errors.New("-gpus and -sessions must not be negative")
	case !(s.load > 0):
		return errors.New("-load must be above 0")
	case shapes[s.shape] == shape{}:
		return fmt.Errorf("-model %q: want llama-3b or tiny", s.shape)
	case !(s.cacheGB >= s.leastGB()):
		return fmt.Errorf("-kv %v: want %.2f GB at least, for a prompt of %d tokens", s.cacheGB, s.leastGB(),
			modelLength)
	}
	return nil
}
