package admission

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// The admission API is for callers that send requests to the targets of token_budget themselves: they ask which target
// they may use, and say when they are done. How a call is taken in is in package apicall; what the calls do is in
// tasks.go, advice.go, models.go and limits.go.

// API is the part of a VM that answers the admission API.
type API struct {
	*host.Env
	core   Core
	wakeAt func(now, at time.Duration)
	scope  string            // in which tasks are counted
	boards map[string]*board // by the paths of APIs
	limits lb.Overrides      // of targets that were set at run time

	limitsAt time.Duration // when a store was asked for them, 0 if none has answered
}

// Core is what the API needs of the VM.
type Core interface {
	// PlanTask plans a task of that many tokens among all targets of a configuration. It reports false while no target
	// may be chosen.
	PlanTask(now time.Duration, c *config.Config, tokens int64) (lb.Plan, bool)
	// Parts returns the parts of all configurations in force, those of the newest first.
	Parts() []*config.Config
	// SetLimits puts limits of targets in force that were set at run time, by a call to the API of the configuration.
	SetLimits(now time.Duration, c *config.Config, list []lb.Override)
	// Tasks returns where the tasks of a configuration are counted, and whether that is in Redis.
	Tasks(c *config.Config) (tasks lb.TaskStore, remote bool)
}

// New returns the API of a VM. wakeAt has a tick come soon after a time, and scope is that in which tasks are counted.
func New(e *host.Env, core Core, wakeAt func(now, at time.Duration), scope string) *API {
	return &API{Env: e, core: core, wakeAt: wakeAt, scope: scope, boards: map[string]*board{}}
}

// call is a request to the API of a configuration.
type call struct {
	*apicall.Call
	api *API
	cfg *config.Config
	by  *config.Caller // nil: nobody's token
}

var kinds = []apicall.Kind{
	{Name: "schedule", Method: "POST"},
	{Name: "complete", Method: "POST"},
	{Name: "heartbeat", Method: "POST"},
	{Name: "advice", Method: "GET"},
	{Name: "models", Method: "GET"},
	{Name: "targets", Method: "PUT, DELETE", Nested: true},
}

// runs is what a call of each kind does.
var runs = []func(c *call, body string){
	(*call).schedule, (*call).complete, (*call).heartbeat, (*call).advice, (*call).models,
	(*call).setLimits,
}

// NewCall takes in a request to the API of a configuration.
func (a *API) NewCall(r apicall.Request, cfg *config.Config) *apicall.Call {
	c := &call{api: a, cfg: cfg}
	names := []string{""}
	for i := range cfg.API.Callers {
		names = append(names, cfg.API.Callers[i].Name)
	}
	c.Call = apicall.New(a.Env, r, &apicall.API{
		Path: cfg.API.Path, Tokens: cfg.API.Tokens(), Callers: names, Kinds: kinds,
		Run: func(kind int, body string) {
			if i := c.Caller(); i > 0 {
				c.by = &cfg.API.Callers[i-1]
			}
			runs[kind](c, body)
		},
	})
	return c.Call
}

// wakeFor has the VM look after an answer of Redis.
func (c *call) wakeFor(now time.Duration, remote bool) {
	if remote && c.Open() {
		c.api.wakeAt(now, now+c.cfg.ReserveTimeout)
	}
}
