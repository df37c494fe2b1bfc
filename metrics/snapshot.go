package metrics

import "slices"

// Engine is a kind of model server, recognized by the names of its metrics.
type Engine uint8

// The engines, the preferred one first where a page has names of several: a server that wraps an engine passes the
// engine's metrics on beside its own.
const (
	AnyEngine Engine = iota // of a Parser: recognize the engine; of a Snapshot: none was recognized
	VLLM
	SGLang
	TensorRTLLM
	Triton
	TGI
	LlamaCPP
	Dynamo
	engineCount
)

var engineNames = [engineCount]string{"any", "vllm", "sglang", "tensorrt-llm", "triton", "tgi", "llama.cpp", "dynamo"}

// String returns the engine's name in configurations.
func (e Engine) String() string { return engineNames[e] }

// EngineOf returns the engine with that name, and whether there is one.
func EngineOf(name string) (Engine, bool) {
	for e, n := range engineNames {
		if n == name {
			return Engine(e), true
		}
	}
	return AnyEngine, false
}

// EngineNames returns the names of all engines.
func EngineNames() []string { return slices.Clone(engineNames[AnyEngine+1:]) }

// Field is one value that engines report.
type Field uint8

// The fields. A counter starts again at 0 when the engine restarts.
const (
	Running       Field = iota // requests in the batch
	Waiting                    // requests in queues, Deferred included
	Deferred                   // requests that wait for something other than capacity: a KV transfer, an adapter's turn
	KVUse                      // share of the KV cache in use, 0 to 1
	KVUsedBlocks               // blocks of the KV cache in use
	KVBlocks                   // blocks of the KV cache
	BlockTokens                // tokens per block
	PromptTokens               // tokens of prompts, cached ones included (counter)
	OutputTokens               // generated tokens (counter)
	PrefixQueries              // tokens looked up in the prefix cache (counter)
	PrefixHits                 // tokens found in it (counter)
	Intervals                  // number of inter-token intervals (counter)
	IntervalTime               // their sum in seconds (counter)
	Preemptions                // requests moved from the batch back to the queue (counter)
	Awake                      // copies of the model that are not asleep; 0 serves no requests
	MaxAdapters                // LoRA adapters that fit into a batch
	Served                     // requests, of engines that count no tokens (counter)
	Started                    // when the process began, in seconds since 1970; of several the latest
	firstTarget                // the first target
	fieldCount    = firstTarget + MaxTargets
)

// MaxTargets is how many families a Parser looks for by name, beside those of the engines.
const MaxTargets = 8

// Target returns the field of the i-th name passed to [New].
func Target(i int) Field { return firstTarget + Field(i) }

// Snapshot is the values of one page or load report. In the zero Snapshot no field was found.
type Snapshot struct {
	Engine Engine // whose names were found, AnyEngine for none
	Cut    bool   // the page ends within a line or exceeds MaxBytes: fields may be missing

	// The adapters of the newest series that lists them; valid if MaxAdapters was found.
	Loaded  Adapters // in the batch
	Waiting Adapters // of requests in the queue

	found    uint32 // bit f: field f was found
	counters uint32 // bit f: field f is a target and a counter
	values   [fieldCount]float64
}

// Value returns the value of a field, and whether it was found.
func (s *Snapshot) Value(f Field) (float64, bool) { return s.values[f], s.found>>f&1 == 1 }

// Grows reports whether a target is a counter, which starts again at 0 when the engine restarts.
func (s *Snapshot) Grows(f Field) bool { return s.counters>>f&1 == 1 }

func (s *Snapshot) set(f Field, v float64) {
	s.values[f] = v
	s.found |= 1 << f
}

// MaxNames is how many adapters a list holds; further ones are dropped.
const MaxNames = 32

// Adapters is a list of LoRA adapters, by the digests of their names.
type Adapters struct {
	N   int // number of adapters
	IDs [MaxNames]uint64
}

// AdapterID returns the digest of an adapter's name.
func AdapterID(name string) uint64 {
	id := digestStart
	for i := range len(name) {
		id = digest(id, name[i])
	}
	return id
}

// Has reports whether the adapter with that [AdapterID] is in the list.
func (a *Adapters) Has(id uint64) bool {
	for _, other := range a.IDs[:a.N] {
		if other == id {
			return true
		}
	}
	return false
}

// parse reads the value of a label: names separated by commas, escaped as in the page.
func (a *Adapters) parse(value []byte) {
	a.N = 0
	id, length := digestStart, 0
	for i := 0; i <= len(value) && a.N < MaxNames; i++ {
		if i == len(value) || value[i] == ',' {
			if length > 0 {
				a.IDs[a.N] = id
				a.N++
			}
			id, length = digestStart, 0
			continue
		}
		c := value[i]
		if c == '\\' && i+1 < len(value) {
			i++
			c = value[i]
			if c == 'n' {
				c = '\n'
			}
		}
		if c != ' ' || length > 0 {
			id, length = digest(id, c), length+1
		}
	}
}

// digestStart and digest are 64-bit FNV-1a. A client can choose a name with the digest of another; all that it gains is
// a request to an endpoint without its adapter.
const digestStart = uint64(14695981039346656037)

func digest(id uint64, c byte) uint64 { return (id ^ uint64(c)) * 1099511628211 }
