package core

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
// apitasks.go, apiadvice.go and apimodels.go.

// api is the part of a VM that answers the admission API.
type api struct {
	*host.Env
	clusters clusters
	views    *views
	ticks    *ticks
	boards   map[string]*board  // by the paths of APIs
	choices  map[choice]lb.Plan // parts of lists of candidates; only these and their limits are set
	// tasksOf returns where the tasks of a configuration are counted, and the store in Redis if that is one.
	tasksOf func(c *config.Config) (lb.TaskStore, *redisStore)
}

func newAPI(e *host.Env, cs clusters, st *stores, vs *views, t *ticks) *api {
	return &api{
		Env: e, clusters: cs, views: vs, ticks: t, boards: map[string]*board{},
		choices: map[choice]lb.Plan{}, tasksOf: st.tasks,
	}
}

// apiCall is a request to the API, until it is answered.
type apiCall struct {
	s          *Stream
	api        *api
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
	run    func(c *apiCall, body string)
}

var callKinds = []callKind{
	{"schedule", "POST", (*apiCall).schedule},
	{"complete", "POST", (*apiCall).complete},
	{"heartbeat", "POST", (*apiCall).heartbeat},
	{"advice", "GET", (*apiCall).advice},
	{"models", "GET", (*apiCall).models},
}

// noCall stands for a path that is none of a call.
var noCall callKind

// callBodyTimeout is how long a call may take to send its body.
const callBodyTimeout = 10 * time.Second

// retrySoon has the caller repeat the call.
var retrySoon = [2]string{"retry-after", "1"}

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (a host.Action, isCall bool) {
	set := s.plugin.set
	if !s.plugin.hasAPI() {
		return host.Proceed, false
	}
	s.traits.read(s)
	var cfg *config.Config
	var below string
	if set != nil {
		cfg, below = set.API(s.traits.path)
	}
	if cfg == nil && !s.plugin.isRefusedAPI(s.traits.path) {
		return host.Proceed, false
	}
	c := &apiCall{s: s, api: s.plugin.vm.api, cfg: cfg, kind: &noCall, inCallback: true, open: true}
	s.answer = c
	defer func() { c.inCallback = false }()
	if cfg == nil {
		return c.refuse(503, "config_refused", "the configuration is refused", retrySoon), true
	}
	return c.begin(below, end), true
}

// hasAPI reports whether there is an API, in force or refused.
func (p *Plugin) hasAPI() bool {
	return len(p.apis) > 0 || p.set != nil && (p.set.HasAPI() || len(p.set.RefusedAPIs()) > 0)
}

// isRefusedAPI reports whether the path of a request is one of an API whose configuration is refused.
func (p *Plugin) isRefusedAPI(path string) bool {
	return p.apis.Contain(path) || p.set != nil && p.set.RefusedAPIs().Contain(path)
}

// begin answers the request by its headers, or waits for its body. A stranger learns nothing.
func (c *apiCall) begin(below string, end bool) host.Action {
	s, v := c.s, c.s.plugin.vm
	if !c.isAuthorized() {
		return c.refuse(401, "unauthorized", "no or wrong token, want authorization: Bearer and the token",
			[2]string{"www-authenticate", "Bearer"})
	}
	for i := range callKinds {
		if below == "/"+callKinds[i].name {
			c.kind = &callKinds[i]
		}
	}
	switch method := s.traits.value(":method"); {
	case c.kind == &noCall:
		return c.refuse(404, "no_such_path",
			"no such path, want schedule, complete, heartbeat, advice or models below "+c.cfg.API.Path)
	case method != c.kind.method:
		return c.refuse(405, "wrong_method", "wrong method, want "+c.kind.method, [2]string{"allow", c.kind.method})
	case method == "GET":
		return c.start("")
	case !isIdentity(s.traits.value("content-encoding")):
		return c.refuse(415, "encoded", "the body is encoded, want plain JSON")
	case s.traits.length > config.MaxCall:
		return c.refuseLong()
	case s.traits.awaits: // the gateway leaves it to whoever answers to send 100 Continue, which a plugin cannot
		return c.refuse(417, "expects", "cannot answer 100 Continue, want the body without expect")
	case end:
		return c.start("")
	}
	c.reading = true
	s.HoldBody(config.MaxCall + 1)
	v.bodies.reading[s] = v.GW.Now() + callBodyTimeout
	return host.Hold
}

// isAuthorized reports whether the caller has the token. How long that takes depends on the length of the one that it
// has, not on what is in it.
func (c *apiCall) isAuthorized() bool {
	const scheme = "Bearer "
	value := c.s.traits.value("authorization")
	return hasPrefixFold(value, scheme) &&
		subtle.ConstantTimeCompare([]byte(value[len(scheme):]), []byte(c.cfg.API.Token)) == 1
}

func isIdentity(encoding string) bool {
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

func (c *apiCall) read(size int, end bool) host.Action {
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
	return c.start(string(c.s.RequestBody(0, size)))
}

func (c *apiCall) late() {
	if c.open {
		c.refuse(408, "late", "the body did not come within "+callBodyTimeout.String())
	}
}

// endBody ends the wait for the body.
func (c *apiCall) endBody() {
	c.reading = false
	delete(c.s.plugin.vm.bodies.reading, c.s)
}

// start does what is asked for.
func (c *apiCall) start(body string) host.Action {
	c.endBody()
	if c.kind.run(c, body); c.open {
		return host.Stop
	}
	return host.Hold
}

// whenThere runs f, which answers, if the caller still waits: at once, or in its context. Else it runs gone, unless
// that is nil.
func (c *apiCall) whenThere(f, gone func()) {
	switch s := c.s; {
	case !c.open:
		if gone != nil {
			gone()
		}
	case c.inCallback:
		f()
	default:
		s.plugin.vm.RunAs(s.context, "the answer to an admission call", f, func() { c.failed() })
	}
}

// wakeFor has the VM look after an answer of Redis.
func (c *apiCall) wakeFor(now time.Duration, redis *redisStore) {
	if redis != nil && c.open {
		c.api.ticks.wakeAt(now, now+c.cfg.ReserveTimeout)
	}
}

// refuse answers with an error.
func (c *apiCall) refuse(status int, result, why string, headers ...[2]string) host.Action {
	c.reply(status, result, errorText(why), headers...)
	return host.Hold
}

func (c *apiCall) refuseLong() host.Action {
	return c.refuse(413, "too_long", "the body is too long, want at most 65536 bytes")
}

// unavailable answers that the caller should repeat the call.
func (c *apiCall) unavailable() {
	c.refuse(503, "unavailable", "the store does not answer, try again", retrySoon)
}

// reply answers. The request is counted by its call and result, under no reason.
func (c *apiCall) reply(status int, result, body string, headers ...[2]string) {
	c.endBody()
	c.open = false
	c.count(result)
	headers = append(headers, [2]string{"content-type", "application/json"}, [2]string{"cache-control", "no-store"})
	c.s.Reply(status, headers, body)
}

func (c *apiCall) left() {
	if !c.open {
		return
	}
	c.endBody()
	c.open = false
	c.count("left")
}

// count counts the call by its result.
func (c *apiCall) count(result string) {
	if c.kind != &noCall {
		result = c.kind.name + "_" + result
	}
	c.api.Stats.CountIf(statname.With(stats.APICalls, "result", result), 1)
	c.s.SetNote("api=" + result)
}

func (c *apiCall) failed() host.Action {
	if c.open {
		return c.refuse(500, "panic", "the plugin failed")
	}
	c.s.Reply(500, nil, errorText("the plugin failed"))
	return host.Hold
}
