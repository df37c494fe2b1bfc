package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// This file reads the bodies of calls of the admission API, as strictly as configurations.

const (
	// MaxCall is how many bytes the body of a call has at most.
	MaxCall = 64 << 10
	// maxTaskTokens is how many tokens a task has at most: more than any model takes at once.
	maxTaskTokens = 2_000_000
)

// ScheduleCall asks for a target for a task.
type ScheduleCall struct {
	Tokens int      // estimated, of prompt and answer
	Models []string // names of the targets that will do; nil: all
	Class  *Class   // nil where no queue is configured

	HasClass bool   // the call names it
	Key      string // the same in a repeated call; "" for none
}

// TaskCall is about a task.
type TaskCall struct {
	TaskID     string // as the caller has sent it: it may be no id
	Tokens     int    // that it has used, -1 if that is not known
	Status     int    // of the target's answer, 0 if that is not known
	RetryAfter string // as the header of that answer has it, "" for none
}

// callMember is a member of the body of a call.
type callMember struct {
	name     string
	required string // what is wanted, of one that has to be there
	read     func(p *parser, at string, v value)
}

// ReadSchedule reads the body of a call that schedules a task at one of the targets. An error names every problem.
func ReadSchedule(body string, targets []string, q *Queue) (ScheduleCall, error) {
	call := ScheduleCall{Class: q.Class("")}
	tokens := tokensKey(1, &call.Tokens)
	key := setting.Key{Type: setting.Text, Field: func(any) any { return &call.Key }}
	err := readCall(body, `{"estimated_tokens": 1800}`, []callMember{
		{"estimated_tokens", wanted(&tokens), byType(&tokens)},
		{"models", "", func(p *parser, at string, v value) { call.Models = p.models(at, v, targets) }},
		{"class", "", func(p *parser, at string, v value) {
			call.Class, call.HasClass = p.queueClass(at, v, q), true
		}},
		{"idempotency_key", "", byType(&key)},
	})
	return call, err
}

// ReadComplete reads the body of a call that completes a task.
func ReadComplete(body string) (TaskCall, error) {
	call := TaskCall{Tokens: -1}
	tokens := tokensKey(0, &call.Tokens)
	status := setting.Key{Type: setting.Integer, Min: 100, Max: 599, Field: func(any) any { return &call.Status }}
	err := readCall(body, exampleTask, []callMember{
		taskID(&call),
		{"actual_tokens", "", byType(&tokens)},
		{"status", "", byType(&status)},
		{"retry_after", "", func(p *parser, at string, v value) { call.RetryAfter = p.retryAfter(at, v) }},
	})
	if err == nil && call.RetryAfter != "" && !answer.RefusesForNow(call.Status) {
		err = errors.New("retry_after: got it without a status of 429, 503 or 529, whose answers have it")
	}
	return call, err
}

// ReadLimits reads the body of a call that sets limits of a target. Those that it does not name are as configured.
func ReadLimits(body string, configured *policy.BudgetTarget) (lb.Override, error) {
	t, keys := *configured, policy.LimitKeys()
	o := lb.NoOverride(t.Name, t.Adjustable())
	names, members := make([]string, len(keys)), make([]callMember, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
		members[i] = callMember{keys[i].Name, "", func(p *parser, at string, v value) {
			p.decode(&keys[i], &t, at, v)
			o.Set[i] = t.Adjustable()[i]
		}}
	}
	err := readCall(body, `{"max_tokens_per_minute": 100000}`, members)
	if err == nil && o.IsNone() {
		err = errors.New("body: names no limit, want at least " + oneOf(names) + "; DELETE ends what was set")
	}
	return o, err
}

// retryAfter reads what an answer's header of that name has: a number of seconds, or a time as text.
func (p *parser) retryAfter(at string, v value) string {
	isNumber := v.kind == kindNumber && v.text[0] != '-'
	if !isNumber && (v.kind != kindString || v.text == "" || len(v.text) > maxRetryAfter) {
		p.badValue(at, v, wantRetryAfter)
		return ""
	}
	return strings.Clone(v.text)
}

const (
	maxRetryAfter  = 64
	wantRetryAfter = ", want what the header Retry-After has: a number of seconds, or a time as text"
)

// ReadHeartbeat reads the body of a call that renews a task.
func ReadHeartbeat(body string) (TaskCall, error) {
	call := TaskCall{Tokens: -1}
	err := readCall(body, exampleTask, []callMember{taskID(&call)})
	return call, err
}

const exampleTask = `{"task_id": "tsk_..."}`

func taskID(call *TaskCall) callMember {
	id := setting.Key{Type: setting.Text, Field: func(any) any { return &call.TaskID }}
	return callMember{"task_id", "the one that schedule has answered", byType(&id)}
}

func tokensKey(least float64, into *int) setting.Key {
	return setting.Key{Type: setting.Integer, Min: least, Max: maxTaskTokens, Field: func(any) any { return into }}
}

func byType(k *setting.Key) func(p *parser, at string, v value) {
	return func(p *parser, at string, v value) { p.decode(k, nil, at, v) }
}

// readCall reads an object with these members and no others.
func readCall(body, example string, members []callMember) error {
	p := &parser{}
	root, err := parseJSON(body)
	switch {
	case strings.TrimSpace(body) == "":
		return errors.New("body: empty, want an object like " + example)
	case err != nil:
		return errors.New("body: " + err.Error())
	case root.kind != kindObject:
		return errors.New("body: " + got(root) + ", want an object like " + example)
	}
	names := make([]string, len(members))
	for i := range members {
		names[i] = members[i].name
	}
	seen := make([]bool, len(members))
	for i, name := range root.names {
		at := clip(printable(name))
		switch m := slices.Index(names, name); {
		case m < 0:
			p.bad(at, "unknown member, want "+oneOf(names)+DidYouMean(name, names))
		case seen[m]:
			p.bad(at, "written twice")
		default:
			seen[m] = true
			members[m].read(p, at, root.items[i])
		}
	}
	for i := range members {
		if m := &members[i]; m.required != "" && !seen[i] {
			p.bad(m.name, "missing, want "+m.required)
		}
	}
	return p.callErr()
}

// models reads the names of some of the targets.
func (p *parser) models(at string, v value, known []string) (names []string) {
	if v.kind != kindArray {
		p.badValue(at, v, ", want a list of names of targets, or nothing for all of them")
		return nil
	}
	if n := len(v.items); n == 0 || n > len(known) {
		p.bad(at, "got "+strconv.Itoa(n)+" names, want 1 to "+strconv.Itoa(len(known))+", or nothing for all targets")
		return nil
	}
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		name, ok := p.oneOf(known, place, item)
		switch {
		case !ok:
		case slices.Contains(names, name):
			p.bad(place, "got "+quote(name)+" twice")
		default:
			names = append(names, name)
		}
	}
	return names
}

// queueClass reads the name of a class of the queue.
func (p *parser) queueClass(at string, v value, q *Queue) *Class {
	if !q.Enabled() {
		p.bad(at, "not known: there are no classes without lb_config.queue")
		return nil
	}
	if name, ok := p.oneOf(q.classNames(), at, v); ok {
		return q.Class(name)
	}
	return nil
}
