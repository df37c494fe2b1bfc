package metrics

import "slices"

// Engine is a kind of model server, told by the names of its metrics.
type Engine uint8

// The engines, the preferred one first where a text has names of two: a server that wraps an engine passes its metrics on
// beside its own.
const (
	AnyEngine Engine = iota // of a Parser: all are looked for; of a Load: none was found
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

// String returns the engine's name as configurations write it.
func (e Engine) String() string { return engineNames[e] }

// EngineOf returns the engine of that name, and whether there is one.
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

// Field is one thing that an engine says about itself.
type Field uint8

// The fields. Those that only ever grow start again at 0 with the engine.
const (
	Running       Field = iota // requests in the batch
	Waiting                    // requests in queues, Deferred ones included
	Deferred                   // requests that wait for something else than room: a KV transfer, an adapter's turn
	KVUse                      // share of the KV cache in use, 0 to 1
	KVUsedBlocks               // blocks of the KV cache in use
	KVBlocks                   // blocks that the KV cache has
	BlockTokens                // tokens in a block
	PromptTokens               // tokens of prompts so far, those from the cache included, grows
	OutputTokens               // tokens generated so far, grows
	PrefixQueries              // tokens looked for in the prefix cache so far, grows
	PrefixHits                 // tokens found there so far, grows
	Intervals                  // between tokens of one answer, so far, grows
	IntervalTime               // seconds that these took together, grows
	Preemptions                // requests put back from the batch into the queue so far, grows
	Awake                      // copies of the model that are not put to sleep; 0 answers no request
	MaxAdapters                // LoRA adapters that fit into a batch
	firstTarget                // the first of the targets
	fieldCount    = firstTarget + MaxTargets
)

// MaxTargets is how many families a Parser looks for by name, besides those of the engines.
const MaxTargets = 8

// Target returns the field of the i-th name given to [New].
func Target(i int) Field { return firstTarget + Field(i) }

// Snapshot is what a text says. The zero Load says nothing.
type Snapshot struct {
	Engine Engine // whose names were found, AnyEngine for nobody's
	Cut    bool   // the text ends within a line, or is longer than MaxBytes: there may have been more

	// Adapters by the newest series that tells of them, when MaxAdapters was found.
	Loaded  Adapters // in the batch
	Waiting Adapters // of requests in the queue

	found    uint32 // bit f: there is a value of field f
	counters uint32 // bit f: field f is a target, and a counter
	values   [fieldCount]float64
}

// Value returns the value of a field, and whether the text had it.
func (l *Snapshot) Value(f Field) (float64, bool) { return l.values[f], l.found>>f&1 == 1 }

// Grows tells whether a target is a counter: it only ever grows, and starts again at 0 with the engine.
func (l *Snapshot) Grows(f Field) bool { return l.counters>>f&1 == 1 }

func (l *Snapshot) set(f Field, v float64) {
	l.values[f] = v
	l.found |= 1 << f
}

// MaxNames is how many names a list of adapters keeps; those that come after are left out.
const MaxNames = 32

// Adapters is a list of LoRA adapters, kept as digests of their names.
type Adapters struct {
	N   int // how many there are
	IDs [MaxNames]uint64
}

// AdapterID returns the digest of an adapter's name, as lists have it.
func AdapterID(name string) uint64 {
	id := digestStart
	for i := range len(name) {
		id = digest(id, name[i])
	}
	return id
}

// Has tells whether the adapter of that [AdapterID] is in the list.
func (a *Adapters) Has(id uint64) bool {
	for _, other := range a.IDs[:a.N] {
		if other == id {
			return true
		}
	}
	return false
}

// parse reads a label's value: names with commas between them, escaped as in the text.
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

// digestStart and digest are 64-bit FNV-1a. A client can make a name with the digest of another; it gains a request to an
// endpoint that does not have its adapter.
const digestStart = uint64(14695981039346656037)

func digest(id uint64, c byte) uint64 { return (id ^ uint64(c)) * 1099511628211 }
