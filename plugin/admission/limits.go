package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is limits of targets that are set at run time. They are in the store: who sets them sees them in force with
// the answer, all other workers and gateways within about a second.

// keeper returns the configuration in whose store they are, the first one under which a caller may set some; nil if
// nobody may.
func (a *API) keeper() *config.Config {
	parts := a.core.Parts()
	i := slices.IndexFunc(parts, func(c *config.Config) bool {
		return c.Enabled && c.API.Path != "" && c.API.SetsLimits()
	})
	if i < 0 {
		return nil
	}
	return parts[i]
}

// RefreshLimits reads them again. Call it once a second. While the store does not answer, those that are known stay in
// force.
func (a *API) RefreshLimits(now time.Duration) {
	c := a.keeper()
	if c == nil {
		a.putLimits(now, nil, nil)
		return
	}
	tasks, _ := a.core.Tasks(c)
	tasks.Overrides(now, a.scope, nil, func(list []lb.Override, err error) {
		if err == nil {
			a.putLimits(now, c, list)
		}
	})
}

func (a *API) putLimits(now time.Duration, c *config.Config, list []lb.Override) {
	a.limits.Put(list)
	a.core.SetLimits(now, c, list)
}

// setLimits sets limits of the target that the path names, or has them be as configured again.
func (c *call) setLimits(body string) {
	if c.by == nil || !c.by.SetsLimits {
		c.Refuse(403, "forbidden", "this token may not set limits, want that of a caller with sets_limits")
		return
	}
	path, _, _ := strings.Cut(c.Below(), "?")
	name, settings := apicall.Unescape(strings.TrimPrefix(path, "/")), c.cfg.Budget()
	target := settings.Target(name)
	if target == nil {
		c.Refuse(404, "not_found", "no such target, want /targets/ and one of "+strings.Join(settings.Names(), ", "))
		return
	}
	set, result := lb.NoOverride(name, target.Adjustable()), "deleted"
	if c.Method() == "PUT" {
		var err error
		if set, err = config.ReadLimits(body, target); err != nil {
			c.Refuse(400, "bad_request", err.Error())
			return
		}
		result = "set"
	}
	c.keep(&set, result)
}

// keep has the store keep what was set for a target.
func (c *call) keep(set *lb.Override, result string) {
	a, keeper := c.api, c.api.keeper()
	if keeper == nil { // by a new configuration: nobody may set limits any more
		c.Unavailable()
		return
	}
	now := a.ReadClock()
	tasks, remote := a.core.Tasks(keeper)
	tasks.Overrides(now, a.scope, set, func(list []lb.Override, err error) {
		if err == nil {
			a.putLimits(now, keeper, list)
		}
		c.WhenThere(func() {
			if err != nil {
				c.Unavailable()
				return
			}
			c.Reply(200, result, `{"ok":true}`)
		}, nil)
	})
	c.wakeFor(now, remote)
}
