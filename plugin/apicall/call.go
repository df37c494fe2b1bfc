// Package apicall takes in the calls of APIs that are the plugin's own, and answers them: of the admission API, and of
// what the gateway shows of itself. Every request to the path of such an API and below it is answered here, whatever
// the route; none of them is forwarded.
package apicall

import (
	"crypto/subtle"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Request is a request to an API, of which the core knows the headers.
type Request struct {
	Stream  host.GatewayStream
	Context uint32                   // the gateway's
	Length  int                      // of its body by the headers, 0 if that is not known
	Awaits  bool                     // the body comes after 100 Continue
	Value   func(name string) string // of a header
	Hold    func(most time.Duration) // has the answer's Late called, unless Release is before
	Release func()
}

// API is an API as a configuration has it.
type API struct {
	Path    string
	Tokens  []string // of which a caller has to send one; "": none
	Callers []string // names of those who have the tokens, for statistics; "" or none: nobody's
	Kinds   []Kind
	Run     func(kind int, body string) // does what a call of that kind asks for
}

// Kind is one of the calls of an API.
type Kind struct {
	Name   string // in the path, and in statistics
	Method string // several apart by ", "
	Nested bool   // it is also for all paths below its own
	NoBody bool   // it does not wait for the body
}

// Call is a request to an API, until it is answered.
type Call struct {
	in         Request
	env        *host.Env
	api        *API // nil: its configuration is refused
	kind       *Kind
	caller     int    // number of the token that it has sent, -1 for none
	below      string // what follows the path of a nested kind
	inCallback bool   // a callback of the request runs
	reading    bool   // its body is still to come
	open       bool   // it is not answered yet
}

// noKind stands for a path that is none of a call.
var noKind Kind

// bodyTimeout is how long a call may take to send its body.
const bodyTimeout = 10 * time.Second

// RetrySoon has the caller repeat the call.
var RetrySoon = [2]string{"retry-after", "1"}

// New takes in a request to an API, nil for one whose configuration is refused.
func New(e *host.Env, r Request, api *API) *Call {
	return &Call{in: r, env: e, api: api, kind: &noKind, caller: -1, open: true}
}

// Meet answers the request, or holds it: to what is below the path of the API. end: it has no body.
func (c *Call) Meet(below string, end bool) host.Action {
	c.inCallback = true
	defer func() { c.inCallback = false }()
	if c.api == nil {
		return c.Refuse(503, "config_refused", "the configuration is refused", RetrySoon)
	}
	return c.begin(below, end)
}

// begin answers the request by its headers, or waits for its body. A stranger learns nothing.
func (c *Call) begin(below string, end bool) host.Action {
	if !c.isAuthorized() {
		return c.Refuse(401, "unauthorized", "no or wrong token, want authorization: Bearer and the token",
			[2]string{"www-authenticate", "Bearer"})
	}
	c.find(below)
	switch method := c.in.Value(":method"); {
	case c.kind == &noKind:
		return c.Refuse(404, "no_such_path", "no such path, want "+c.paths()+" below "+c.api.Path)
	case !slices.Contains(strings.Split(c.kind.Method, ", "), method):
		return c.Refuse(405, "wrong_method", "wrong method, want "+c.kind.Method, [2]string{"allow", c.kind.Method})
	case method == "GET" || method == "DELETE" || c.kind.NoBody:
		return c.start("")
	case !isIdentity(c.in.Value("content-encoding")):
		return c.Refuse(415, "encoded", "the body is encoded, want plain JSON")
	case c.in.Length > config.MaxCall:
		return c.refuseLong()
	case c.in.Awaits: // the gateway leaves it to whoever answers to send 100 Continue, which a plugin cannot
		return c.Refuse(417, "expects", "cannot answer 100 Continue, want the body without expect")
	case end:
		return c.start("")
	}
	c.reading = true
	c.in.Stream.HoldBody(config.MaxCall + 1)
	c.in.Hold(bodyTimeout)
	return host.Hold
}

// find finds what kind of call is at a path below that of the API.
func (c *Call) find(below string) {
	for i := range c.api.Kinds {
		k := &c.api.Kinds[i]
		rest, ok := strings.CutPrefix(below, "/"+k.Name)
		if ok && (rest == "" || k.Nested && rest[0] == '/') {
			c.kind, c.below = k, rest
			if _, query, ok := strings.Cut(c.in.Value(":path"), "?"); ok && rest != "" {
				c.below += "?" + query
			}
		}
	}
}

// paths lists the kinds of calls, for a person.
func (c *Call) paths() string {
	var list strings.Builder
	for i := range c.api.Kinds {
		switch {
		case i == 0:
		case i == len(c.api.Kinds)-1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(c.api.Kinds[i].Name)
	}
	return list.String()
}

// isAuthorized reports whether the caller has one of the tokens, and notes which. How long that takes depends on the
// length of the one that it has, not on what is in it, nor on whose it is.
func (c *Call) isAuthorized() bool {
	const scheme = "Bearer "
	value := c.in.Value("authorization")
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return false
	}
	sent := []byte(value[len(scheme):])
	for i, token := range c.api.Tokens {
		if subtle.ConstantTimeCompare(sent, []byte(token)) == 1 {
			c.caller = i
		}
	}
	return c.caller >= 0
}

// Caller returns the number of the token that the caller has sent.
func (c *Call) Caller() int { return c.caller }

func isIdentity(encoding string) bool {
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// Method returns the method of the call.
func (c *Call) Method() string { return c.in.Value(":method") }

// Below returns what follows the path of a nested kind of call, with the query, such as "/v1/models?limit=20".
func (c *Call) Below() string { return c.below }

// Query returns the value of a parameter in the query of the request's path, "" if it has none.
func (c *Call) Query(name string) string {
	_, query, _ := strings.Cut(c.in.Value(":path"), "?")
	for part := range strings.SplitSeq(query, "&") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
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
		c.Refuse(408, "late", "the body did not come within "+bodyTimeout.String())
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
	for i := range c.api.Kinds {
		if &c.api.Kinds[i] == c.kind {
			c.api.Run(i, body)
		}
	}
	if c.open {
		return host.Stop
	}
	return host.Hold
}

// WhenThere runs f, which answers, if the caller still waits: at once, or in its context. Else it runs gone, unless
// that is nil.
func (c *Call) WhenThere(f, gone func()) {
	switch {
	case !c.open:
		if gone != nil {
			gone()
		}
	case c.inCallback:
		f()
	default:
		c.env.RunAs(c.in.Context, "the answer to a call", f, func() { c.Failed() })
	}
}

// Open reports whether the call is not answered yet.
func (c *Call) Open() bool { return c.open }

// Refuse answers with an error.
func (c *Call) Refuse(status int, result, why string, headers ...[2]string) host.Action {
	c.Reply(status, result, errorText(why), headers...)
	return host.Hold
}

func (c *Call) refuseLong() host.Action {
	return c.Refuse(413, "too_long", "the body is too long, want at most "+strconv.Itoa(config.MaxCall)+" bytes")
}

// Unavailable answers that the caller should repeat the call.
func (c *Call) Unavailable() {
	c.Refuse(503, "unavailable", "the store does not answer, try again", RetrySoon)
}

// Reply answers. The request is counted by its call and result, under no reason.
func (c *Call) Reply(status int, result, body string, headers ...[2]string) {
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
	if c.kind != &noKind {
		result = c.kind.Name + "_" + result
	}
	c.env.Stats.CountIf(statname.With(stats.APICalls, "result", result), 1)
	c.in.Stream.SetNote([]byte("api=" + result))
	if c.caller >= 0 && c.caller < len(c.api.Callers) && c.api.Callers[c.caller] != "" {
		c.env.Stats.CountIf(statname.With(stats.CallerCalls, "caller", c.api.Callers[c.caller], "result", result), 1)
	}
}

// Failed implements host.Answer.
func (c *Call) Failed() host.Action {
	if c.open {
		return c.Refuse(500, "panic", "the plugin failed")
	}
	c.in.Stream.Reply(500, nil, errorText("the plugin failed"))
	return host.Hold
}
