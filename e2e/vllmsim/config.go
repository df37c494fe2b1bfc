package vllmsim

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// bytesPerToken is the length of a simulated token.
const bytesPerToken = 4

// Config describes one simulated server. A zero field takes the value DefaultConfig gives it.
type Config struct {
	// Index names the server among its peers; every reply carries it as x-sim-id.
	Index int
	// Seed decides text and length of the answers.
	Seed uint64
	// Model is the name /v1/models and the metrics show. Requests may name any model.
	Model string
	// MaxNumSeqs is how many sequences run at once (vLLM: --max-num-seqs).
	MaxNumSeqs int
	// MaxQueued is how many requests may wait beyond the running ones before the server
	// answers 503 (vLLM: --max-num-queued-reqs). Negative means no limit.
	MaxQueued int
	// MaxBatchedTokens is the token budget of a step (vLLM: --max-num-batched-tokens).
	MaxBatchedTokens int
	// MaxModelLen is the longest prompt and answer together, in tokens.
	MaxModelLen int
	// BlockSize is the number of tokens of a KV block and NumBlocks how many there are.
	BlockSize, NumBlocks int
	// MaxLoras is how many LoRA adapters a batch may have and the GPU holds (vLLM: --max-loras). With
	// it every model that a request names, other than Model, is an adapter. 0 means that there are none
	// and names are only names.
	MaxLoras int
	// Adapters are the models beside Model that the server has: it answers 404 for others. nil means whatever a
	// request names.
	Adapters []string
	// OutputTokens is the mean length of an answer to a request that sets no limit. A request with max_tokens gets
	// exactly that many, as from a model that never ends an answer.
	OutputTokens int
	// Instant bypasses the engine: requests are answered at once without queue, KV cache or
	// tokenised prompt (prompt tokens are body bytes / 4). It makes the server a cheap
	// upstream for benchmarks of a proxy.
	Instant bool
	// Tuning is the initial speed and failure mode; the zero value means DefaultTuning.
	Tuning Tuning
	// Lenient takes request bodies as Python's parser does, which knows NaN and more than the rules of JSON
	// allow, and with a byte order mark in front.
	Lenient bool
	// Fleet, when set, watches this server together with others.
	Fleet *Fleet
	// Watch, when set, is called with every request to the model, in any failure mode, and what it returns
	// when that request has ended. Calls may overlap.
	Watch func(*http.Request) (ended func())
}

// DefaultConfig is a server of about the speed of a 7B model on one GPU with 16k tokens of KV
// cache: 100 ms to prefill 2,000 tokens, 100 tokens a second for a lone sequence.
func DefaultConfig() Config {
	return Config{
		Model:            "sim",
		MaxNumSeqs:       16,
		MaxQueued:        256,
		MaxBatchedTokens: 2048,
		MaxModelLen:      8192,
		BlockSize:        16,
		NumBlocks:        1024,
		OutputTokens:     64,
		Tuning:           DefaultTuning(),
	}
}

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	setDefault(&c.Model, d.Model)
	setDefault(&c.MaxNumSeqs, d.MaxNumSeqs)
	setDefault(&c.MaxQueued, d.MaxQueued)
	setDefault(&c.MaxBatchedTokens, d.MaxBatchedTokens)
	setDefault(&c.MaxModelLen, d.MaxModelLen)
	setDefault(&c.BlockSize, d.BlockSize)
	setDefault(&c.NumBlocks, d.NumBlocks)
	setDefault(&c.OutputTokens, d.OutputTokens)
	setDefault(&c.Tuning, d.Tuning)
	// A sequence that could never fit would wait forever.
	c.MaxModelLen = min(c.MaxModelLen, c.BlockSize*c.NumBlocks)
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Mode is how a server treats requests to its model.
type Mode string

// The modes. None of them touches /metrics; Tuning.MetricsHang does.
const (
	// ModeOK serves.
	ModeOK Mode = "ok"
	// ModeError answers Tuning.ErrorStatus at once.
	ModeError Mode = "error"
	// ModeHang accepts the request and never answers; /health answers 200.
	ModeHang Mode = "hang"
	// ModeReset resets the connection after Tuning.ResetAfterTokens tokens of the answer.
	ModeReset Mode = "reset"
	// ModeSlow serves Tuning.SlowFactor times more slowly.
	ModeSlow Mode = "slow"
	// ModeSick serves, but /health answers 503.
	ModeSick Mode = "sick"
)

// Tuning is what may be changed while the server runs, by SetTuning.
// Times are in milliseconds at speed 1.
type Tuning struct {
	Mode             Mode
	ErrorStatus      int
	ResetAfterTokens int
	SlowFactor       float64
	// Speed divides every time: 2 is a server twice as fast.
	Speed float64
	// PrefillOverheadMS is spent once per prompt, PrefillTokenMS per uncached prompt token.
	PrefillOverheadMS float64
	PrefillTokenMS    float64
	// DecodeStepMS is spent once per step that decodes, DecodeSeqMS per sequence in it.
	DecodeStepMS float64
	DecodeSeqMS  float64
	// AdapterLoadMS is spent by a step for each adapter in it that is not loaded.
	AdapterLoadMS float64
	// BodyTimeoutMS is how long the body of a completion may take to arrive, whatever the speed, before the connection
	// is reset; 0 means no limit.
	BodyTimeoutMS float64
	// MetricsHang has /metrics answer nothing, as an engine that is too busy to.
	MetricsHang bool
	// AnswerTokens is where the model ends an answer, so that a larger max_tokens is a limit and no more, even one
	// beyond the context. 0 is a model that never ends an answer.
	AnswerTokens int
}

// DefaultTuning is a healthy server with the times DefaultConfig describes.
func DefaultTuning() Tuning {
	t := NoLatency()
	t.PrefillOverheadMS, t.PrefillTokenMS = 5, 0.05
	t.DecodeStepMS, t.DecodeSeqMS = 9.5, 0.5
	return t
}

// NoLatency is a healthy server whose steps take no time. Unlike Config.Instant it still queues
// and caches.
func NoLatency() Tuning {
	return Tuning{Mode: ModeOK, ErrorStatus: 500, ResetAfterTokens: 1, SlowFactor: 10, Speed: 1}
}

// Validate reports every value that makes no sense.
func (t Tuning) Validate() error {
	var errs []error
	switch t.Mode {
	case ModeOK, ModeError, ModeHang, ModeReset, ModeSlow, ModeSick:
	default:
		errs = append(errs, fmt.Errorf("mode: %q is not one of ok, error, hang, reset, slow, sick", t.Mode))
	}
	if t.ErrorStatus < 400 || t.ErrorStatus > 599 {
		errs = append(errs, fmt.Errorf("ErrorStatus: %d is not in 400..599", t.ErrorStatus))
	}
	if t.ResetAfterTokens < 0 || t.AnswerTokens < 0 {
		errs = append(errs, errors.New("ResetAfterTokens and AnswerTokens must not be negative"))
	}
	if !(t.SlowFactor > 0) || !(t.Speed > 0) {
		errs = append(errs, errors.New("SlowFactor and Speed must be positive"))
	}
	for _, ms := range []float64{
		t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS, t.AdapterLoadMS,
		t.BodyTimeoutMS,
	} {
		if !(ms >= 0) {
			errs = append(errs, errors.New("times must not be negative"))
			break
		}
	}
	return errors.Join(errs...)
}

// stepTime is how long a step lasts.
func (t Tuning) stepTime(s step) time.Duration {
	ms := float64(s.started)*t.PrefillOverheadMS + float64(s.prefill)*t.PrefillTokenMS + float64(s.loads)*
		t.AdapterLoadMS
	if s.decodes > 0 {
		ms += t.DecodeStepMS + float64(s.decodes)*t.DecodeSeqMS
	}
	ms /= t.Speed
	if t.Mode == ModeSlow {
		ms *= t.SlowFactor
	}
	return time.Duration(ms * float64(time.Millisecond))
}
