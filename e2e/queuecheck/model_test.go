package queuecheck_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/queuecheck"
)

// model is a queue that is simple enough to be right: a list of requests, of which it looks at each for every grant.
type model struct {
	rng       *rand.Rand
	rules     queuecheck.Rules
	now       time.Duration
	h         queuecheck.History
	caps      map[string]int
	inFlight  map[string]int
	waiting   []*request
	running   []*request
	classes   map[string]float64 // virtual time
	flows     map[[2]string]float64
	due       map[string]float64 // by class: what it is owed because it is aged
	endpoints []string
	next      uint64
}

type request struct {
	queuecheck.Request
	id      uint64
	since   time.Duration
	at      string
	until   time.Duration
	passed  int
	service time.Duration
}

var weights = map[string]float64{"high": 8, "low": 1}

func newModel(seed uint64, rules queuecheck.Rules) *model {
	m := &model{
		rng: rand.New(rand.NewPCG(seed, 1)), rules: rules, caps: map[string]int{}, inFlight: map[string]int{},
		classes: map[string]float64{}, flows: map[[2]string]float64{}, due: map[string]float64{},
	}
	for i := range 3 {
		e := fmt.Sprintf("e%d", i)
		m.endpoints = append(m.endpoints, e)
		m.caps[e] = 2
		m.add(queuecheck.Event{Kind: queuecheck.Capped, Endpoint: e, Cap: 2})
	}
	return m
}

func (m *model) add(e queuecheck.Event) {
	e.At = m.now
	m.h = append(m.h, e)
}

// run lets n requests come, about as fast as load times what the endpoints serve, until all have ended.
func (m *model) run(n int, load float64, draw func(*rand.Rand, []string) queuecheck.Request) queuecheck.History {
	for came := 0; came < n || len(m.waiting)+len(m.running) > 0; {
		m.now += time.Millisecond
		m.finish()
		if came < n && m.rng.Float64() < load*6/50 {
			m.enter(draw(m.rng, m.endpoints))
			came++
		}
		m.leave()
		m.dispatch()
	}
	return m.h
}

func (m *model) enter(r queuecheck.Request) {
	m.next++
	q := &request{Request: r, id: m.next, since: m.now, service: time.Duration(1+m.rng.IntN(100)) * time.Millisecond}
	m.add(queuecheck.Event{Kind: queuecheck.Entered, ID: q.id, Request: r})
	if !slices.ContainsFunc(m.waiting, func(w *request) bool { return w.Class == q.Class }) {
		m.classes[q.Class], m.due[q.Class] = max(m.classes[q.Class], m.classes[""]), 0
	}
	if !slices.ContainsFunc(m.waiting, func(w *request) bool { return w.flow() == q.flow() }) {
		m.flows[q.flow()] = max(m.flows[q.flow()], m.flows[[2]string{q.Class, "\x00"}])
	}
	m.waiting = append(m.waiting, q)
}

func (r *request) flow() [2]string { return [2]string{r.Class, r.Tenant} }

func (m *model) finish() {
	m.running = slices.DeleteFunc(m.running, func(r *request) bool {
		if r.until > m.now {
			return false
		}
		m.inFlight[r.at]--
		m.add(queuecheck.Event{Kind: queuecheck.Released, ID: r.id})
		return true
	})
}

func (m *model) leave() {
	m.waiting = slices.DeleteFunc(m.waiting, func(r *request) bool {
		switch {
		case r.MaxWait > 0 && m.now-r.since >= r.MaxWait:
			m.add(queuecheck.Event{Kind: queuecheck.Refused, ID: r.id, Code: queuecheck.CodeTimeout})
		case m.rng.IntN(20000) == 0:
			m.add(queuecheck.Event{Kind: queuecheck.Left, ID: r.id})
		default:
			return false
		}
		return true
	})
}

func (m *model) dispatch() {
	for {
		granted := false
		for _, e := range m.endpoints {
			if m.inFlight[e] < m.caps[e] {
				granted = m.grant(e) || granted
			}
		}
		if !granted {
			return
		}
	}
}

// grant gives the endpoint to the request whose turn it is.
func (m *model) grant(e string) bool {
	best := m.first(e, func(*request) bool { return true })
	if best == nil {
		return false
	}
	usual := true
	for _, class := range []string{"high", "low"} {
		owed := m.aged(class) && m.due[class] > 0
		if r := m.first(e, func(r *request) bool { return r.Class == class }); r != nil && owed && class != best.Class {
			best, usual = r, false
			break
		}
	}
	best = m.warmer(best, e)
	m.count(best, usual)
	m.waiting = slices.DeleteFunc(m.waiting, func(r *request) bool { return r == best })
	m.running = append(m.running, best)
	best.at, best.until = e, m.now+best.service
	m.inFlight[e]++
	m.add(queuecheck.Event{Kind: queuecheck.Granted, ID: best.id, Endpoint: e})
	return true
}

// first returns the first of the requests that may have the endpoint.
func (m *model) first(e string, of func(*request) bool) (best *request) {
	for _, r := range m.waiting {
		if of(r) && slices.Contains(r.Endpoints, e) && !m.patient(r, e) && (best == nil || m.before(r, best)) {
			best = r
		}
	}
	return best
}

// count advances the virtual times, unless nobody waits, and what the other class is owed.
func (m *model) count(r *request, usual bool) {
	if r.since == m.now && len(m.waiting) == 1 {
		return
	}
	m.flows[[2]string{r.Class, "\x00"}] = m.flows[r.flow()]
	m.flows[r.flow()] += r.Cost
	other := map[string]string{"high": "low", "low": "high"}[r.Class]
	m.due[r.Class] -= r.Cost
	if !usual {
		return
	}
	m.due[r.Class] = max(m.due[r.Class], min(m.due[r.Class]+r.Cost, -r.Cost))
	m.classes[""] = m.classes[r.Class]
	m.classes[r.Class] += r.Cost / weights[r.Class]
	if m.aged(other) {
		m.due[other] = max(m.due[other], min(m.due[other], 0)+r.Cost/9)
	}
}

// aged reports whether one of the class has waited for its aging.
func (m *model) aged(class string) bool {
	return slices.ContainsFunc(m.waiting, func(r *request) bool {
		return r.Class == class && r.Aging > 0 && m.now-r.since >= r.Aging
	})
}

func (m *model) patient(r *request, e string) bool {
	return len(r.Warm) > 0 && !slices.Contains(r.Warm, e) && m.now-r.since <= r.Patience
}

func (m *model) before(a, b *request) bool {
	byClass := cmp.Compare(m.classes[a.Class], m.classes[b.Class])
	if m.rules.Strict {
		byClass = cmp.Compare(weights[b.Class], weights[a.Class])
	}
	return cmp.Or(byClass, cmp.Compare(a.Class, b.Class), cmp.Compare(m.flows[a.flow()], m.flows[b.flow()]),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.since, b.since)) < 0
}

// warmer returns the request of the same tenant that may pass the head at the endpoint, or the head.
func (m *model) warmer(head *request, e string) *request {
	if slices.Contains(head.Warm, e) {
		return head
	}
	var passed []*request
	for _, r := range m.waiting {
		if r.flow() != head.flow() || !slices.Contains(r.Endpoints, e) || m.patient(r, e) {
			continue
		}
		if slices.Contains(r.Warm, e) && len(passed) <= r.Skip {
			for _, p := range passed {
				p.passed++
			}
			return r
		}
		if passed = append(passed, r); r.passed >= 3*r.Skip {
			return head
		}
	}
	return head
}
