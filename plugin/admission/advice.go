package admission

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/endpoints"
	"github.com/warmgate/warmgate/plugin/process"
)

// This file is the call for advice: how many tasks a caller should have in flight, by how the calls of all workers of
// the gateway have fared in the last minute.

// board counts the calls of schedule in all VMs of the gateway. Each VM adds its own at each tick.
type board struct {
	Pressure // of this VM, not added yet
	changed  bool
	usedAt   time.Duration
}

// board returns the board of an API.
func (a *API) board(now time.Duration, c *config.Config) *board {
	b := a.boards[c.API.Path]
	if b == nil {
		b = &board{}
		a.boards[c.API.Path] = b
	}
	b.usedAt = now
	return b
}

func (b *board) addCall(now, wait time.Duration, admitted bool) {
	b.Pressure.addCall(now, wait, admitted)
	b.changed = true
}

// Tick adds what this VM has counted to what the others have. A swap that is lost is tried again at the next tick.
func (a *API) Tick(now time.Duration) {
	for path, b := range a.boards {
		switch {
		case b.changed:
			all, cas := a.counted(path)
			all.merge(&b.Pressure)
			// of the first values the last one stays
			if a.GW.KV().Set(process.KeyAdmission+path, all.pack(), cas) == nil {
				b.Pressure, b.changed = Pressure{}, false
			}
		case now-b.usedAt > endpoints.ClusterAge:
			delete(a.boards, path)
		}
	}
}

// counted returns what all VMs have added.
func (a *API) counted(path string) (all Pressure, cas uint32) {
	raw, cas, err := a.GW.KV().Get(process.KeyAdmission + path)
	if err != nil {
		return Pressure{}, 0
	}
	return ReadPressure(raw), cas
}

// minParallelism is the least that is suggested, unless the caps allow less.
const minParallelism = 4

// advice answers how much pressure there is, and how many tasks should be in flight: as many as there are, and the more
// of the room the less pressure there is. It is not known where a target has no cap.
func (c *call) advice(string) {
	now := c.api.ReadClock()
	all, _ := c.api.counted(c.cfg.API.Path)
	all.merge(&c.api.board(now, c.cfg).Pressure)
	score := all.Share(now)
	c.whenLoaded(now, func(targets []target) {
		if c.by != nil {
			for i := range targets {
				targets[i].limit = c.by.Slots(targets[i].limit)
			}
		}
		var o apicall.Object
		o.Rounded("backpressure_score", score)
		if n, known := suggested(targets, score); known {
			o.Int("suggested_parallelism", n)
		} else {
			o.Add("suggested_parallelism", "null")
		}
		c.Reply(200, "ok", o.End())
	})
}

// suggested returns how many tasks should be in flight; false where a target has no cap. What is in flight beyond a
// limit is not the caller's, or too much.
func suggested(targets []target, score float64) (n int64, known bool) {
	inflight, room, caps := int64(0), int64(0), int64(0)
	for i := range targets {
		t := &targets[i]
		if t.limit <= 0 {
			return 0, false
		}
		inflight, caps = inflight+min(t.load.Requests, t.limit), caps+t.limit
		if t.candidate {
			room += max(0, t.limit-t.load.Requests)
		}
	}
	n = inflight + int64(math.Round(float64(room)*(1-score)))
	return min(max(n, minParallelism), caps), true
}

// target is one of those of an API.
type target struct {
	policy.BudgetTarget
	set       [3]bool // which limits were set at run time: see policy.LimitKeys
	limit     int64   // of requests in flight, 0 for none
	candidate bool    // it may be chosen
	load      lb.Load
	level     budget.Level
}

// whenLoaded calls f, which answers, with the targets and what is in flight and left there, over all that share the
// store.
func (c *call) whenLoaded(now time.Duration, f func([]target)) {
	a, settings := c.api, c.cfg.Budget()
	targets := make([]target, len(settings.Targets))
	for i := range targets {
		t, set := settings.Targets[i].InForce(&a.limits)
		targets[i] = target{BudgetTarget: t, set: set, limit: int64(t.MaxConcurrent)}
	}
	if plan, ok := a.core.PlanTask(now, c.cfg, 1); ok {
		for i := range plan.Candidates {
			for j := range targets {
				if t := &targets[j]; t.Name == plan.Candidates[i].Addr {
					t.candidate, t.limit = true, plan.Candidates[i].Cap
				}
			}
		}
	}
	tasks, remote := a.core.Tasks(c.cfg)
	tasks.Levels(now, a.scope, settings.Names(), func(levels []lb.BudgetLevel, err error) {
		c.WhenThere(func() {
			if err != nil {
				c.Unavailable()
				return
			}
			for i := range levels {
				t := &targets[i]
				t.load, t.level = levels[i].Load, levels[i].Budget.Level(t.Limits)
			}
			f(targets)
		}, nil)
	})
	c.wakeFor(now, remote)
}
