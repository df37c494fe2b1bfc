package admission

import (
	"crypto/subtle"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// The admission API is for callers that send requests to the targets of token_budget themselves: they ask which target
// they may use, and say when they are done. The plugin answers every request to its path and below it, whatever the
// route; none of them is forwarded. This file is how such a request is taken in and answered; what the calls do is in
// tasks.go, advice.go and models.go.

// API is the part of a VM that answers the admission API.
type API struct {
	*host.Env
	core   Core
	wakeAt func(now, at time.Duration)
	scope  string            // in which tasks are counted
	boards map[string]*board // by the paths of APIs
}

// Core is what the API needs of the VM.
type Core interface {
	// PlanTask plans a task of that many tokens among all targets of a configuration. It reports false while no target
	// may be chosen.
	PlanTask(now time.Duration, c *config.Config, tokens int64) (lb.Plan, bool)
	// Tasks returns where the tasks of a configuration are counted, and whether that is in Redis.
	Tasks(c *config.Config) (tasks lb.TaskStore, remote bool)
}

// New returns the API of a VM. wakeAt has a tick come soon after a time, and scope is that in which tasks are counted.
func New(e *host.Env, core Core, wakeAt func(now, at time.Duration), scope string) *API {
	return &API{Env: e, core: core, wakeAt: wakeAt, scope: scope, boards: map[string]*board{}}
}

// Request is a request to the API, of which the core knows the headers.
type Request struct {
	Stream  host.GatewayStream
	Context uint32                   // the gateway's
	Length  int                      // of its body by the headers, 0 if that is not known
	Awaits  bool                     // the body comes after 100 Continue
	Value   func(name string) string // of a header
	Hold    func(most time.Duration) // has the answer's Late called, unless Release is before
	Release func()
}

// Call is a request to the API, until it is answered.
type Call struct {
	in         Request
	api        *API
	cfg        *config.Config // nil: it is refused
	kind       *callKind
	inCallback bool // a callback of the request runs
	reading    bool // its body is still to come
	open       bool // it is not answered yet
}

// callKind is one of the calls.
type callKind struct {
	name   string // in the path, and in statistics
	method string
	run    func(c *Call, body string)
}

var callKinds = []callKind{
	{"schedule", "POST", (*Call).schedule},
	{"complete", "POST", (*Call).complete},
	{"heartbeat", "POST", (*Call).heartbeat},
	{"advice", "GET", (*Call).advice},
	{"models", "GET", (*Call).models},
}

// noCall stands for a path that is none of a call.
var noCall callKind

// callBodyTimeout is how long a call may take to send its body.
const callBodyTimeout = 10 * time.Second

// retrySoon has the caller repeat the call.
var retrySoon = [2]string{"retry-after", "1"}

// NewCall takes in a request to the API of a configuration, nil for one that is refused.
func (a *API) NewCall(r Request, cfg *config.Config) *Call {
	return &Call{in: r, api: a, cfg: cfg, kind: &noCall, open: true}
}

// Meet answers the request, or holds it: to what is below the path of the API. end: it has no body.
func (c *Call) Meet(below string, end bool) host.Action {
	c.inCallback = true
	defer func() { c.inCallback = false }()
	if c.cfg == nil {
		return c.refuse(503, "config_refused", "the configuration is refused", retrySoon)
	}
	return c.begin(below, end)
}

// begin answers the request by its headers, or waits for its body. A stranger learns nothing.
func (c *Call) begin(below string, end bool) host.Action {
	if !c.isAuthorized() {
		return c.refuse(401, "unauthorized", "no or wrong token, want authorization: Bearer and the token",
			[2]string{"www-authenticate", "Bearer"})
	}
	for i := range callKinds {
		if below == "/"+callKinds[i].name {
			c.kind = &callKinds[i]
		}
	}
	switch method := c.in.Value(":method"); {
	case c.kind == &noCall:
		return c.refuse(404, "no_such_path",
			"no such path, want schedule, complete, heartbeat, advice or models below "+c.cfg.API.Path)
	case method != c.kind.method:
		return c.refuse(405, "wrong_method", "wrong method, want "+c.kind.method, [2]string{"allow", c.kind.method})
	case method == "GET":
		return c.start("")
	case !isIdentity(c.in.Value("content-encoding")):
		return c.refuse(415, "encoded", "the body is encoded, want plain JSON")
	case c.in.Length > config.MaxCall:
		return c.refuseLong()
	case c.in.Awaits: // the gateway leaves it to whoever answers to send 100 Continue, which a plugin cannot
		return c.refuse(417, "expects", "cannot answer 100 Continue, want the body without expect")
	case end:
		return c.start("")
	}
	c.reading = true
	c.in.Stream.HoldBody(config.MaxCall + 1)
	c.in.Hold(callBodyTimeout)
	return host.Hold
}

// isAuthorized reports whether the caller has the token. How long that takes depends on the length of the one that it
// has, not on what is in it.
func (c *Call) isAuthorized() bool {
	const scheme = "Bearer "
	value := c.in.Value("authorization")
	return len(value) >= len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) &&
		subtle.ConstantTimeCompare([]byte(value[len(scheme):]), []byte(c.cfg.API.Token)) == 1
}

func isIdentity(encoding string) bool {
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// Read implements host.Answer.
func (c *Call) Read(size int, end bool) host.Action {
	c.inCallback = true
	defer func() { c.inCallback = false }()
	switch {
	case !c.open:
		return host.Proceed
	case !c.reading: // it will be answered
		return host.Stop
	case size > config.MaxCall:
		return c.refuseLong()
	case !end:
		return host.Hold
	}
	return c.start(string(c.in.Stream.RequestBody(0, size)))
}

// Late implements host.Answer.
func (c *Call) Late() {
	if c.open {
		c.refuse(408, "late", "the body did not come within "+callBodyTimeout.String())
	}
}

// endBody ends the wait for the body.
func (c *Call) endBody() {
	c.reading = false
	c.in.Release()
}

// start does what is asked for.
func (c *Call) start(body string) host.Action {
	c.endBody()
	if c.kind.run(c, body); c.open {
		return host.Stop
	}
	return host.Hold
}

// whenThere runs f, which answers, if the caller still waits: at once, or in its context. Else it runs gone, unless
// that is nil.
func (c *Call) whenThere(f, gone func()) {
	switch {
	case !c.open:
		if gone != nil {
			gone()
		}
	case c.inCallback:
		f()
	default:
		c.api.RunAs(c.in.Context, "the answer to an admission call", f, func() { c.Failed() })
	}
}

// wakeFor has the VM look after an answer of Redis.
func (c *Call) wakeFor(now time.Duration, remote bool) {
	if remote && c.open {
		c.api.wakeAt(now, now+c.cfg.ReserveTimeout)
	}
}

// refuse answers with an error.
func (c *Call) refuse(status int, result, why string, headers ...[2]string) host.Action {
	c.reply(status, result, errorText(why), headers...)
	return host.Hold
}

func (c *Call) refuseLong() host.Action {
	return c.refuse(413, "too_long", "the body is too long, want at most 65536 bytes")
}

// unavailable answers that the caller should repeat the call.
func (c *Call) unavailable() {
	c.refuse(503, "unavailable", "the store does not answer, try again", retrySoon)
}

// reply answers. The request is counted by its call and result, under no reason.
func (c *Call) reply(status int, result, body string, headers ...[2]string) {
	c.endBody()
	c.open = false
	c.count(result)
	headers = append(headers, [2]string{"content-type", "application/json"}, [2]string{"cache-control", "no-store"})
	c.in.Stream.Reply(status, headers, body)
}

// Left implements host.Answer.
func (c *Call) Left() {
	if !c.open {
		return
	}
	c.endBody()
	c.open = false
	c.count("left")
}

// count counts the call by its result.
func (c *Call) count(result string) {
	if c.kind != &noCall {
		result = c.kind.name + "_" + result
	}
	c.api.Stats.CountIf(statname.With(stats.APICalls, "result", result), 1)
	c.in.Stream.SetNote("api=" + result)
}

// Failed implements host.Answer.
func (c *Call) Failed() host.Action {
	if c.open {
		return c.refuse(500, "panic", "the plugin failed")
	}
	c.in.Stream.Reply(500, nil, errorText("the plugin failed"))
	return host.Hold
}
