package host

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/discovery"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/redisclient"
)

// Gateway is the proxy this VM runs in. Higress, stock Envoy and the fake of the tests implement it.
type Gateway interface {
	// KV is the memory shared by all VMs of the process.
	KV() lb.KV
	// Now is monotonic and the same for all VMs of the process.
	Now() time.Duration
	// Random returns 64 random bits.
	Random() uint64
	// Serves notes that this VM is one that serves requests: a worker's. Only those reach Redis through a tunnel.
	Serves()
	// View returns the cluster's endpoints, nil if none is known; and a view without any if the gateway lists none,
	// where the configuration has requests wait then. It is called while the request that is routed to the cluster is
	// being handled. now may be a tick old. The name may come from a client.
	View(now time.Duration, cluster string, c *config.Config) *lb.View
	// KnownView returns the endpoints of a cluster that the current request, if there is one, is perhaps not routed to,
	// nil if none is known.
	KnownView(now time.Duration, cluster string, c *config.Config) *lb.View
	// Breakers returns the circuit breakers that are known, by cluster, and which state of them that is: another number
	// with each look at them.
	Breakers(c *config.Config) (map[string]discovery.Breaker, uint32)
	// HasSubsets reports whether a route may be for a part of the cluster's endpoints only, which the view does not
	// show. It is called after View.
	HasSubsets(cluster string, c *config.Config) bool
	// Tick lets the gateway look for endpoints. source is where the configurations in force find them, nil when none
	// names a source.
	Tick(now time.Duration, source *config.EnvoySource)
	// Hurry has the gateway look for endpoints as often as it can for a while: requests wait for them.
	Hurry(now time.Duration)
	// Scrapes reports whether this VM is one that scrapes engines. shared: what is in flight is counted in Redis.
	Scrapes(now time.Duration, shared bool) bool
	// Scrape scrapes the engines of a cluster that are due. report is called for each, then or later, with the page of
	// metrics or why there is none, and returns whether the page could be used. Scrape returns the endpoints that there
	// are, nil if that is not known.
	Scrape(now time.Duration, j *endpoints.Job, report endpoints.PageReport) []lb.Endpoint
	// ModelsPage requests an endpoint's list of models. answered is called with the page and a result:
	// endpoints.ScrapeOK, or why there is no page.
	ModelsPage(addr string, c *config.Config, answered func(page []byte, result string)) error
	// Wall is the time since the Unix epoch. It may jump: it is for what other machines are told.
	Wall() time.Duration
	// Probe sends a request to a cluster, with a header and its text. answered is called with the text of another
	// header of the answer, "" if there is no such answer in time, unless there is an error.
	Probe(cluster string, p ProbeCall, answered func(text string)) error
	// RedisLink returns a connection to the Redis that the configuration names.
	RedisLink(c *config.Config) RedisLink
	// Enter makes a context, of a request or of a configuration, the one that calls act on.
	Enter(context uint32)
	// SetTick has the configuration of that context ticked after the period, and then as often.
	SetTick(context uint32, period time.Duration) error
	// Listen has OnWake called for the configuration of that context when another VM of the process wakes the
	// owner.
	Listen(context uint32, owner uint64) error
	// Wake has the VM called of that owner with the message, if it listens.
	Wake(owner uint64, message []byte)
	// PluginDone lets the gateway drop a configuration that it is done with.
	PluginDone(context uint32)
	// Metrics defines and changes statistics.
	Metrics() stats.Metrics
	// Log writes to the gateway's log, each line of the text as a line of its own.
	Log(l Level, text string)
}

// ProbeCall is a request that asks the gateways of another region how they are.
type ProbeCall struct {
	Path    string
	Headers [][2]string // of the request, beside those that all have
	Answer  string      // name of the header of the answer
	Timeout time.Duration
}

// Level is the severity of a log line.
type Level uint8

// The levels that the plugin uses.
const (
	Info Level = iota
	Warn
	Error
)

// Action is what a callback wants of the gateway.
type Action uint8

// The actions of callbacks.
const (
	Proceed Action = iota
	Hold           // keep the headers, or the body so far, until more of the request is known
	Stop           // keep all of the request until it is resumed
)

// GatewayStream is one request in the gateway. Its methods act on the request during its own callbacks, and elsewhere
// after its context was entered.
type GatewayStream interface {
	Cluster() string
	Route() string
	// RequestHeaders returns all headers of the request, names in lower case: one call costs the gateway little more
	// than reading a single header.
	RequestHeaders() [][2]string
	// HoldBody announces that up to max bytes of the request's body will be held back.
	HoldBody(max int)
	// ReleaseHeaders lets the headers continue before the part of the body that the callback is for, of which none is
	// held.
	ReleaseHeaders()
	// RequestBody returns at most max bytes of what a callback shows of the body, from the given place on: of all that
	// has come while it is held, else of the latest part. They are in memory that the next call, for this or another
	// request, uses again.
	RequestBody(from, max int) []byte
	// Steer sends the request to addr, and its retries to the others in turn where the gateway can.
	Steer(addr string, others []string) error
	// Unsteer removes any destination, also one that the client has set.
	Unsteer()
	// SubsetHint returns to which endpoints filters in front of the plugin limit the request, as a property of the
	// gateway has it: a text, or a list; nil for no limit. It is in memory that the next call uses again.
	SubsetHint() []byte
	// Client returns the address that the request came from, "" when it is not known: of the client, if the gateway
	// trusts what proxies in front of it report.
	Client() string
	// ServedBy returns the address of the endpoint that answers, "" before there is one.
	ServedBy() string
	SetRequestHeader(name, value string)
	RemoveRequestHeader(name string)
	// SetCluster sets the header by which the route takes the cluster, "" to remove it, and has the gateway select the
	// route again.
	SetCluster(header, cluster string)
	ResponseHeader(name string) string
	// ResponseHeaders returns all headers of the response, names in lower case: see RequestHeaders.
	ResponseHeaders() [][2]string
	SetResponseHeader(name, value string)
	RemoveResponseHeader(name string)
	// ResponseBody returns at most max bytes from the given place of the part of the response that is passing, in
	// memory that the next call of any method uses again.
	ResponseBody(from, max int) []byte
	// Attempts returns how often the request was sent to an endpoint so far, 0 where the gateway does not say.
	Attempts() int
	// Details returns how the response came about, as the gateway calls it: such as via_upstream.
	Details() string
	// SetNote sets a text for the access log, and for an instance of the plugin behind this one: no client can write
	// it.
	SetNote(text []byte)
	// SetFields shows what is known of the request by now, for its span and for access logs with fields, in place of
	// what was shown before. A span has what was shown by the end of the answer: gateways finish it before OnDone.
	SetFields(fields []measured.Field)
	// LogFields shows what is known of the request that is over, for access logs with fields.
	LogFields(fields []measured.Field)
	// Note returns the text that an instance of the plugin in front of this one has set, "" for none.
	Note() string
	// Resume continues a held request.
	Resume()
	// Reply answers the request in the endpoint's place.
	Reply(status int, headers [][2]string, body string)
}

// RedisLink is a gateway's connection to one Redis.
type RedisLink interface {
	redisclient.Transport
	// Connect has the connection open, with the login as it is now. It is called at each tick while a configuration in
	// force names this Redis.
	Connect(now time.Duration, r config.Redis)
	// Expire gives up what has not been answered in time, and returns the earliest deadline still to come, 0 for none.
	Expire(now time.Duration) time.Duration
	// Postpone moves all deadlines: for so long no answer could have been read.
	Postpone(d time.Duration)
}
