package admission

import (
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// This file is limits of targets that are set at run time. They are in the store: who sets them sees them in force with
// the answer, all other workers and gateways within about a second. What one VM has from Redis is in shared memory,
// too, for those that get no answer.

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

// RefreshLimits reads them again. Call it once a second. While the store does not answer, those stay in force that any
// VM of the process has read last.
func (a *API) RefreshLimits(now time.Duration) {
	c := a.keeper()
	if c == nil {
		a.limitsAt = 0
		a.putLimits(now, nil, nil)
		return
	}
	tasks, remote := a.core.Tasks(c)
	if remote {
		a.takeShared(now, c)
	}
	tasks.Overrides(now, a.scope, nil, func(list []lb.Override, err error) {
		if err == nil {
			a.takeLimits(now, c, list, remote)
		}
	})
}

// takeShared puts those in force that are in shared memory, if another VM has asked the store for them later.
func (a *API) takeShared(now time.Duration, c *config.Config) {
	raw, _, _ := a.GW.KV().Get(process.KeyOverrides)
	if at, list := readShared(raw); at > a.limitsAt {
		a.limitsAt = at
		a.putLimits(now, c, list)
	}
}

// takeLimits puts those in force that the store has answered with, which was asked at a time, and shares them with
// other VMs, unless the store itself is in shared memory.
func (a *API) takeLimits(asked time.Duration, c *config.Config, list []lb.Override, remote bool) {
	if asked < a.limitsAt {
		return // another VM has asked later, and shared the answer
	}
	a.limitsAt = asked
	a.putLimits(asked, c, list)
	if !remote {
		return
	}
	raw, cas, err := a.GW.KV().Get(process.KeyOverrides)
	at, shared := readShared(raw)
	if err == nil && at < asked && (at == 0 || !slices.Equal(shared, list)) {
		// If another VM writes first, these are shared at the next refresh.
		_ = a.GW.KV().Set(process.KeyOverrides, packShared(asked, list), cas)
	}
}

// packShared returns limits as they are in shared memory: when the store was asked for them, and lb.PackOverrides.
func packShared(asked time.Duration, list []lb.Override) []byte {
	return append(wire.Writer(nil).Duration(asked), lb.PackOverrides(list)...)
}

// readShared reads what packShared has written. at is 0 if there is nothing.
func readShared(raw []byte) (at time.Duration, list []lb.Override) {
	in := wire.NewReader(raw)
	return in.Duration(), lb.ReadOverrides(in.Rest())
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
			a.takeLimits(now, keeper, list, remote)
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
