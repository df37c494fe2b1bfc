package streamtest

import (
	"errors"
	"testing"
	"time"
)

// Gateway is one gateway with the plugin and one cluster of model servers. A scenario has it for itself.
type Gateway interface {
	// Lacks returns why the gateway cannot do what a scenario needs, "" when it can.
	Lacks(a Ability) string
	// Workers returns the number of worker threads.
	Workers() int
	// Names returns what the requests' route, cluster and service are called.
	Names() Names
	// Source returns the members of lb_config that configure where the plugin finds endpoints, "" for none.
	Source() string
	// Configure gives the plugin a configuration. It returns ErrRefused when the plugin refused it, and nil when new
	// requests meet it. An invalid first configuration is not refused, because there is no previous one to keep.
	Configure(config string) error
	// SetEndpoints replaces the model servers. It returns when the plugin knows them.
	SetEndpoints(list []Endpoint)
	// Addr returns the address of endpoint i.
	Addr(i int) string
	// SetPage sets the page of metrics that endpoint i shows from now on, "" for none.
	SetPage(i int, page string)
	// Open sends a request.
	Open(r Request) Stream
	// Load returns what is in flight on endpoint i as the plugin counts it.
	Load(i int) Load
	// Counter returns the value of one of the plugin's counters, labels included in its name.
	Counter(name string) uint64
	// Gauge is Counter for a gauge.
	Gauge(name string) uint64
	// AccessLog returns what the plugin has written for the access log, one text per request that has ended.
	AccessLog() []string
	// Advance advances the clock, or waits where time is real.
	Advance(d time.Duration)
	// Await reports whether the condition is met: at once, or within a deadline where time is real.
	Await(condition func() bool) bool
	// Lose ends the VM of a worker with all its streams, without any callback in it. It needs LostVM.
	Lose(worker int)
}

// Ability is something that not every gateway can do.
type Ability int

// The abilities.
const (
	SimulatedTime Ability = iota // Advance by seconds, and nothing happens in between
	LostVM                       // Lose
	FirstConfig                  // a gateway without any configuration yet
	HostDraining                 // endpoints that are draining
	HostEjection                 // endpoints that the gateway has ejected
	HostWeights                  // endpoint weights that the gateway knows
	SecondHop                    // a retry follows the plugin's list
	PickWorker                   // a request goes to the worker that it names
	LocalReply                   // a filter behind the plugin answers
	NewestFrame                  // a plugin that holds a body sees all of it that has come
	NoUpstream                   // a request can fail to reach its endpoint
	RareMetrics                  // a request after a pause goes by metrics
	RefillTime                   // budgets refill by the clock that Advance moves
	WakeUp                       // a worker notices at once what another one has freed for a request that waits
	RecordTime                   // what stores record of prompts ages by the clock that Advance moves
)

// ErrRefused is returned for a configuration that was not put into force.
var ErrRefused = errors.New("streamtest: configuration refused")

// Names are the names that rules match.
type Names struct{ Route, Cluster, Service string }

// State is the gateway's view of an endpoint's health.
type State int

// The states of an endpoint.
const (
	Healthy State = iota
	Unhealthy
	Draining
	Ejected
	Refusing // listed as healthy, but connections are refused
)

// Endpoint is one model server.
type Endpoint struct {
	State  State
	Weight int // 0 = 1
}

// Load is work in flight.
type Load struct{ Requests, Tokens int64 }

// Request is what the client sends: headers, and the body frame by frame.
type Request struct {
	Worker    int    // that takes the request, with PickWorker
	Client    string // address that it comes from, "" = 127.0.0.1
	Method    string // "" = POST, or GET without a body
	Path      string // "" = /v1/chat/completions
	Authority string // "" = llm.example
	Headers   [][2]string
	Frames    []string    // of the body; none: the request has no body
	Trailers  [][2]string // end the request
	Unended   bool        // the body continues with Stream.Send
	Local     int         // status with which a filter behind the plugin answers; needs LocalReply
	NoRetry   bool        // a failed attempt is final
}

// Answer is a good answer.
const Answer = `{"choices":[{"text":"a","finish_reason":"stop"}]}`

// Stream is an open request. The test decides what the model server does.
type Stream interface {
	// Upstream returns the endpoint that has the request, -1 when it never reached one. Where time is real it waits.
	Upstream() int
	// Held reports whether the plugin holds the request back.
	Held() bool
	// Received returns the request as the model server has it so far.
	Received() Received
	// Send continues the body of an Unended request.
	Send(frame string, end bool)
	// Retry makes the attempt fail before a response and returns the endpoint of the next one.
	Retry() int
	// Head begins the response, Data continues it, Finish ends it; Finish alone is a complete response with status 200.
	// What has that status and no part is Answer.
	Head(status int, headers ...[2]string)
	Data(frame string)
	Finish()
	// ResetByUpstream and ResetByClient break the request off.
	ResetByUpstream()
	ResetByClient()
	// Result returns what the client has got. Where time is real it waits for the end.
	Result() Result
}

// Received is a request as a model server has it.
type Received struct {
	Headers  map[string]string
	Body     string
	Trailers map[string]string
	Ended    bool
}

// Result is a response as the client has it.
type Result struct {
	Status  int // 0 when there was none
	Headers map[string]string
	Body    string
	Cut     bool // broken off
}

// Open returns a fresh gateway for a test, without endpoints. With Unconfigured the plugin has had no configuration;
// otherwise any configuration will do.
type Open func(t *testing.T, o Options) Gateway

// Options are what a scenario requires of its gateway.
type Options struct{ Unconfigured bool }

// Filled returns the request with its defaults written out.
func (r Request) Filled() Request {
	if r.Method == "" {
		r.Method = "POST"
		if len(r.Frames) == 0 && !r.Unended {
			r.Method = "GET"
		}
	}
	if r.Path == "" {
		r.Path = "/v1/chat/completions"
	}
	if r.Authority == "" {
		r.Authority = "llm.example"
	}
	return r
}
