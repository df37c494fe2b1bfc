package admission

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is the calls about tasks: schedule, complete, heartbeat.

// blindWait is what a caller is told to wait while nothing is known of when a target will be open.
const blindWait = time.Second

// schedule admits a task to a target, or tells how long to wait.
func (c *call) schedule(body string) {
	call, err := config.ReadSchedule(body, c.cfg.Budget().Names(), &c.cfg.Queue)
	if err != nil {
		c.Refuse(400, "bad_request", err.Error())
		return
	}
	now := c.api.ReadClock()
	plan, ok := c.planTask(now, &call)
	if !ok {
		c.tellWait(now, blindWait, "no_target")
		return
	}
	key := uint64(0)
	if call.Key != "" {
		key = xxhash.Sum64String(call.Key) | 1
	}
	tasks, remote := c.api.core.Tasks(c.cfg)
	tasks.Schedule(now, key, c.cfg.API.LeaseTTL, &plan, func(t lb.Task, err error) {
		c.WhenThere(func() { c.scheduled(now, &plan, t, err) }, func() {
			if err == nil && key == 0 { // nobody will ever know of it
				tasks.Complete(c.api.Clock(), plan.Scope, t.ID, 0, func(lb.TaskEnd, error) {})
			}
		})
	})
	c.wakeFor(now, remote)
}

// scheduled answers what the store has decided.
func (c *call) scheduled(now time.Duration, plan *lb.Plan, t lb.Task, err error) {
	switch {
	case errors.Is(err, lb.ErrOverBudget), errors.Is(err, lb.ErrFull):
		c.tellWait(now, t.Grant.Expected, "wait")
	case err != nil:
		c.tellWait(now, blindWait, "unavailable")
	default:
		c.api.board(now, c.cfg).addCall(now, 0, true)
		var o apicall.Object
		o.String("model_backend_id", plan.Candidates[t.Grant.Index].Addr)
		o.String("task_id", formatTask(t.ID))
		c.Reply(200, "admitted", o.End())
	}
}

// tellWait answers that the task is not admitted.
func (c *call) tellWait(now, expected time.Duration, result string) {
	wait := c.api.WaitFor(expected)
	c.api.board(now, c.cfg).addCall(now, wait, false)
	var o apicall.Object
	o.Int("wait_for_ms", wait.Milliseconds())
	c.Reply(200, result, o.End())
}

// complete ends a task.
func (c *call) complete(body string) {
	call, err := config.ReadComplete(body)
	if err != nil {
		c.Refuse(400, "bad_request", err.Error())
		return
	}
	id, ok := parseTask(call.TaskID)
	if !ok {
		c.completed(lb.TaskUnknown, nil)
		return
	}
	now := c.api.ReadClock()
	tasks, remote := c.api.core.Tasks(c.cfg)
	tasks.Complete(now, c.api.scope, id, int64(call.Tokens), func(end lb.TaskEnd, err error) {
		c.WhenThere(func() { c.completed(end, err) }, nil)
	})
	c.wakeFor(now, remote)
}

func (c *call) completed(end lb.TaskEnd, err error) {
	switch {
	case err != nil:
		c.Unavailable()
	case end == lb.TaskCompleted:
		c.Reply(200, "completed", `{"ok":true}`)
	case end == lb.TaskEnded:
		c.Reply(200, "repeated", `{"ok":true}`)
	case end == lb.TaskAbandoned:
		c.Reply(200, "abandoned", `{"ok":false,"reason":"abandoned"}`)
	default:
		c.Refuse(404, "not_found", "Task not found")
	}
}

// heartbeat renews a task.
func (c *call) heartbeat(body string) {
	call, err := config.ReadHeartbeat(body)
	if err != nil {
		c.Refuse(400, "bad_request", err.Error())
		return
	}
	id, ok := parseTask(call.TaskID)
	if !ok {
		c.renewed(false, nil)
		return
	}
	now := c.api.ReadClock()
	tasks, remote := c.api.core.Tasks(c.cfg)
	tasks.Renew(now, c.api.scope, id, c.cfg.API.LeaseTTL, func(found bool, err error) {
		c.WhenThere(func() { c.renewed(found, err) }, nil)
	})
	c.wakeFor(now, remote)
}

func (c *call) renewed(found bool, err error) {
	switch {
	case err != nil:
		c.Unavailable()
	case found:
		c.Reply(200, "renewed", `{"ok":true}`)
	default:
		c.Reply(200, "not_found", `{"ok":false,"reason":"not_found"}`)
	}
}

// planTask plans a task. There is no plan while none of the targets that will do is healthy.
func (c *call) planTask(now time.Duration, call *config.ScheduleCall) (plan lb.Plan, ok bool) {
	if plan, ok = c.api.core.PlanTask(now, c.cfg, int64(call.Tokens)); !ok {
		return plan, false
	}
	if len(call.Models) > 0 {
		restrict(&plan, call.Models)
	}
	if class := call.Class; class != nil { // who waits in a lower class gains less
		plan.Budget.AgeBonus *= class.Weight / c.cfg.Queue.Classes[0].Weight
	}
	return plan, len(plan.Candidates) > 0
}

// restrict leaves those candidates of the plan that have these names.
func restrict(plan *lb.Plan, names []string) {
	n := len(plan.Candidates)
	left, limits := make([]lb.Candidate, 0, n), make([]budget.Limits, 0, n)
	for i, c := range plan.Candidates {
		if slices.Contains(names, c.Addr) {
			left, limits = append(left, c), append(limits, plan.Budget.Limits[i])
		}
	}
	plan.List, plan.Budget.Limits = lb.NewList(left), limits
}

// taskPrefix begins the id of a task as callers have it; hexadecimal digits follow.
const taskPrefix = "tsk_"

func formatTask(id lb.TaskID) string {
	b := []byte(taskPrefix)
	for _, c := range id {
		b = append(b, apicall.HexDigits[c>>4], apicall.HexDigits[c&15])
	}
	return string(b)
}

// parseTask reads what formatTask has written. ok is false for any other text, of which there is no task.
func parseTask(text string) (id lb.TaskID, ok bool) {
	if len(text) != len(taskPrefix)+2*len(id) || text[:len(taskPrefix)] != taskPrefix {
		return id, false
	}
	text = text[len(taskPrefix):]
	for i := range id {
		high := strings.IndexByte(apicall.HexDigits, text[2*i])
		low := strings.IndexByte(apicall.HexDigits, text[2*i+1])
		if high < 0 || low < 0 {
			return id, false
		}
		id[i] = byte(high<<4 | low)
	}
	return id, true
}
