package vllmsim

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Config describes one simulated server. A zero field takes the value DefaultConfig gives it.
type Config struct {
	// Index names the server among its peers; every reply carries it as x-sim-id.
	Index int
	// Seed decides text and length of the answers.
	Seed uint64
	// Model is the name that the metrics show. Requests that name no model are for it.
	Model string
	// Aliases are further names of Model, which /v1/models lists, too.
	Aliases []string
	// The engine. With MaxLoras every model that a request names, other than Model, is an adapter; else names are only
	// names. The server answers 503 for more than MaxQueued.
	enginesim.Config
	// Adapters are the models beside Model that the server has and lists: it answers 404 for others. nil means whatever
	// a request names.
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
	// Report, when set, is called when a completion has ended, however it did, with what the server itself knows of it.
	// Calls may overlap.
	Report func(*http.Request, Report)
}

// Report is what a server knows of a completion that has ended. Times are zero where nothing was sent.
type Report struct {
	Arrived     time.Time // all of the request was read
	First, Last time.Time // before the first and after the latest output was sent
	Prompt      int       // tokens
	Cached      int       // of these, found in the KV cache; known of answers that came to their end
	Sent        int       // tokens of the answer
	Whole       bool      // all of the answer was sent
}

// DefaultConfig is a server of about the speed of a 7B model on one GPU, with the engine of enginesim.DefaultConfig.
func DefaultConfig() Config {
	return Config{Model: "sim", OutputTokens: 64, Config: enginesim.DefaultConfig(), Tuning: DefaultTuning()}
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
type Tuning struct {
	Mode             Mode
	ErrorStatus      int
	ResetAfterTokens int
	SlowFactor       float64
	enginesim.Times
	// BodyTimeoutMS is how long the body of a completion may take to arrive, whatever the speed, before the connection
	// is reset; 0 means no limit.
	BodyTimeoutMS float64
	// MetricsHang has /metrics answer nothing, as an engine that is too busy to.
	MetricsHang bool
	// AnswerTokens is where the model ends an answer, so that a larger max_tokens is a limit and no more, even one
	// beyond the context. 0 is a model that never ends an answer.
	AnswerTokens int
}

// DefaultTuning is a healthy server with the times of enginesim.DefaultTimes.
func DefaultTuning() Tuning {
	t := NoLatency()
	t.Times = enginesim.DefaultTimes()
	return t
}

// NoLatency is a healthy server whose steps take no time. Unlike Config.Instant it still queues and caches.
func NoLatency() Tuning {
	return Tuning{Mode: ModeOK, ErrorStatus: 500, ResetAfterTokens: 1, SlowFactor: 10, Times: enginesim.Times{Speed: 1}}
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
	if !(t.SlowFactor > 0) {
		errs = append(errs, errors.New("SlowFactor must be positive"))
	}
	if !(t.BodyTimeoutMS >= 0) {
		errs = append(errs, errors.New("BodyTimeoutMS must not be negative"))
	}
	return errors.Join(append(errs, t.Times.Validate())...)
}

// times are those of the engine in the mode.
func (t Tuning) times() enginesim.Times {
	if t.Mode == ModeSlow {
		t.Speed /= t.SlowFactor
	}
	return t.Times
}
