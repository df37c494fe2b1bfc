package storetest

import (
	"errors"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/e2e/queuecheck"
	"github.com/warmgate/warmgate/lb"
)

// className returns the name of a class in the history.
func className(c lb.Class) string { return strconv.Itoa(int(c.ID)) }

func (l *line) record(e queuecheck.Event) {
	e.At = l.now
	l.history = append(l.history, e)
}

// entered notes a request before it is reserved, with the endpoints that were granted to its prompt before.
func (l *line) entered(r *asked) {
	w := &r.plan.Wait
	q := queuecheck.Request{
		Class: className(w.Class), Tenant: strconv.FormatUint(w.Tenant, 10), Cost: float64(r.plan.AddedTokens(0)),
		Skip: w.Skip, MaxWait: w.Max, Aging: w.Aging, Patience: w.Patience,
	}
	for i := range r.plan.Candidates {
		addr := r.plan.Candidates[i].Addr
		q.Endpoints = append(q.Endpoints, addr)
		if b := r.plan.Prefix.Blocks; len(b) > 0 && slices.Contains(l.warm[b[0].Key], addr) {
			q.Warm = append(q.Warm, addr)
		}
	}
	l.record(queuecheck.Event{Kind: queuecheck.Entered, ID: uint64(r.id), Request: q})
}

// refusals are the codes in the history.
var refusals = []struct {
	err  error
	code string
}{
	{lb.ErrEvicted, queuecheck.CodeEvicted},
	{lb.ErrWaitOver, queuecheck.CodeTimeout},
	{lb.ErrQueueFull, "full"},
	{lb.ErrHopeless, "hopeless"},
	{lb.ErrFull, "no wait"},
	{lb.ErrOverBudget, "no wait"},
}

// answered notes the answer to a request.
func (l *line) answered(r *asked) {
	if r.err == nil {
		l.record(queuecheck.Event{
			Kind: queuecheck.Granted, ID: uint64(r.id), Endpoint: r.addr, Warm: r.Cached > 0,
			Cost: float64(r.plan.AddedTokens(r.Cached)), Tokens: r.plan.AddedTokens(r.Cached),
		})
		if b := r.plan.Prefix.Blocks; len(b) > 0 {
			if l.warm == nil {
				l.warm = map[uint64][]string{}
			}
			l.warm[b[0].Key] = append(l.warm[b[0].Key], r.addr)
		}
		return
	}
	for _, c := range refusals {
		if errors.Is(r.err, c.err) {
			l.record(queuecheck.Event{Kind: queuecheck.Refused, ID: uint64(r.id), Code: c.code})
			return
		}
	}
	if l.faults {
		l.record(queuecheck.Event{Kind: queuecheck.Refused, ID: uint64(r.id), Code: "store"})
		return
	}
	l.t.Errorf("request %d: %v", r.id, r.err)
}

// ends notes that a request is released, or leaves the queue.
func (l *line) ends(r *asked) {
	switch {
	case r.waits() && !r.gone:
		l.record(queuecheck.Event{Kind: queuecheck.Left, ID: uint64(r.id)})
	case r.calls > 0 && r.err == nil && !r.gone:
		l.record(queuecheck.Event{Kind: queuecheck.Released, ID: uint64(r.id)})
	}
	r.gone = true
}

// check fails the test if the history breaks a rule.
func (l *line) check(rules queuecheck.Rules) {
	l.t.Helper()
	rules.Weights = map[string]float64{className(high): high.Weight, className(low): low.Weight}
	found := queuecheck.Check(l.history, rules)
	for _, v := range found[:min(len(found), 5)] {
		l.t.Error(v)
	}
	if len(found) > 0 {
		l.t.Fatalf("the history of %d events breaks %d rules", len(l.history), len(found))
	}
}
