package admission

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/plugin/apicall"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/ratelimit"
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
	if err := c.takeClass(&call); err != "" {
		c.Refuse(400, "bad_request", err)
		return
	}
	now := c.api.ReadClock()
	plan, ok := c.planTask(now, &call)
	plan.Budget.Call = digest(&call)
	if !ok {
		c.tellWait(now, blindWait, "no_target")
		return
	}
	key := c.keyOf(&call)
	tasks, remote := c.api.core.Tasks(c.cfg)
	tasks.Schedule(now, key, c.cfg.API.LeaseTTL, &plan, func(t lb.Task, err error) {
		c.WhenThere(func() { c.scheduled(now, &plan, t, err) }, func() {
			if err == nil && key == 0 { // nobody will ever know of it
				tasks.Complete(c.api.Clock(), plan.Scope, t.ID, lb.TaskUse{}, func(lb.TaskEnd, error) {})
			}
		})
	})
	c.wakeFor(now, remote)
}

// keyOf returns the key by which stores know the call, 0 for none. Callers do not share theirs.
func (c *call) keyOf(call *config.ScheduleCall) uint64 {
	key := call.Key
	if key == "" {
		return 0
	}
	if c.by != nil {
		key = c.by.Name + "\x00" + key
	}
	return xxhash.Sum64String(key) | 1
}

// scheduled answers what the store has decided.
func (c *call) scheduled(now time.Duration, plan *lb.Plan, t lb.Task, err error) {
	switch {
	case errors.Is(err, lb.ErrOverBudget), errors.Is(err, lb.ErrFull):
		c.tellWait(now, t.Grant.Expected, "wait")
	case errors.Is(err, lb.ErrOtherCall):
		c.Refuse(422, "other_call", "idempotency_key: the task that has it was asked for by another body, "+
			"want the same one, or another key")
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
	wait := c.hint(expected)
	c.api.board(now, c.cfg).addCall(now, wait, false)
	var o apicall.Object
	o.Int("wait_for_ms", wait.Milliseconds())
	c.Reply(200, result, o.End())
}

// hint returns for how long a caller is told to wait that can expect to be admitted after that time: up to a tenth
// longer or shorter. If that is longer than anybody is told, it is a time in the second half of the longest one by
// chance, so that those who have to wait for long do not come back together.
func (c *call) hint(expected time.Duration) time.Duration {
	most := c.cfg.API.MaxHint
	wait := c.api.Varied(expected)
	if wait > most {
		wait = most - time.Duration(c.api.GW.Random()%uint64(most/2))
	}
	return max(host.MinWait, (wait + time.Millisecond - 1).Truncate(time.Millisecond))
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
	use, ok := c.useOf(&call)
	if !ok {
		c.Refuse(400, "bad_request", "retry_after: got "+apicall.Quote(call.RetryAfter)+
			", want a number of seconds, or a time such as \"Sun, 06 Nov 1994 08:49:37 GMT\"")
		return
	}
	now := c.api.ReadClock()
	tasks, remote := c.api.core.Tasks(c.cfg)
	tasks.Complete(now, c.api.scope, id, use, func(end lb.TaskEnd, err error) {
		c.WhenThere(func() { c.completed(end, err) }, nil)
	})
	c.wakeFor(now, remote)
}

// useOf returns what is said of a task: of one that its target has refused, all that it was charged is given back. ok
// is false if it cannot be read when the target is to be tried again.
func (c *call) useOf(call *config.TaskCall) (use lb.TaskUse, ok bool) {
	use.Tokens = int64(call.Tokens)
	if call.Tokens < 0 && answer.IsUnserved(call.Status) {
		use.Tokens = 0
	}
	var headers [][2]string
	if call.RetryAfter != "" {
		headers = [][2]string{{"retry-after", call.RetryAfter}}
	}
	r, _, silent := ratelimit.Read(call.Status, headers, c.api.GW.Wall)
	use.Closed, use.Most = r.RetryAfter, c.cfg.Budget().MaxClosed
	return use, call.RetryAfter == "" || !silent
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
	if len(call.Models) > 0 || c.by != nil && c.by.Share < 1 {
		restrict(&plan, call.Models, c.by)
	}
	plan.Budget.MaxHint = c.cfg.API.MaxHint
	if class := call.Class; class != nil { // who waits in a lower class gains less
		plan.Budget.AgeBonus *= class.Weight / c.cfg.Queue.Classes[0].Weight
	}
	return plan, len(plan.Candidates) > 0
}

// digest returns a digest of what is asked for, in whichever form and order that is written.
func digest(call *config.ScheduleCall) uint16 {
	d := uint64(call.Tokens)
	if call.HasClass { // that of the caller, or the default one, is not asked for
		d ^= xxhash.Sum64String(call.Class.Name) // its number changes with the configuration
	}
	for _, name := range call.Models {
		d += xxhash.Sum64String(name) | 1
	}
	return uint16((d * 0x9e3779b97f4a7c15) >> 48)
}

// takeClass gives the task the class of its caller. A call that names another one is told why it cannot.
func (c *call) takeClass(call *config.ScheduleCall) (problem string) {
	if c.by == nil || c.by.Class == "" {
		return ""
	}
	if call.HasClass && call.Class.Name != c.by.Class {
		return "class: got " + apicall.Quote(call.Class.Name) + ", want none or " + apicall.Quote(c.by.Class) +
			": all tasks of this caller have that"
	}
	call.Class = c.cfg.Queue.Class(c.by.Class)
	return ""
}

// restrict leaves those candidates of the plan that have these names, all if there are none, and those of their slots
// that the caller may fill.
func restrict(plan *lb.Plan, names []string, by *config.Caller) {
	n := len(plan.Candidates)
	left, limits := make([]lb.Candidate, 0, n), make([]budget.Limits, 0, n)
	for i, c := range plan.Candidates {
		if len(names) > 0 && !slices.Contains(names, c.Addr) {
			continue
		}
		if by != nil {
			all := c.Cap
			c.Cap = by.Slots(all)
			plan.Budget.OwnCaps = plan.Budget.OwnCaps || c.Cap < all
		}
		left, limits = append(left, c), append(limits, plan.Budget.Limits[i])
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
