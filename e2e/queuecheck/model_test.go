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
		classes: map[string]float64{}, flows: map[[2]string]float64{},
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
		m.classes[q.Class] = max(m.classes[q.Class], m.classes[""])
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
	var best *request
	for _, r := range m.waiting {
		if slices.Contains(r.Endpoints, e) && !m.patient(r, e) && (best == nil || m.before(r, best)) {
			best = r
		}
	}
	if best == nil {
		return false
	}
	best = m.warmer(best, e)
	counted := best.since < m.now || len(m.waiting) > 1
	m.waiting = slices.DeleteFunc(m.waiting, func(r *request) bool { return r == best })
	m.running = append(m.running, best)
	best.at, best.until = e, m.now+best.service
	m.inFlight[e]++
	if counted {
		m.classes[""], m.flows[[2]string{best.Class, "\x00"}] = m.classes[best.Class], m.flows[best.flow()]
		m.classes[best.Class] += best.Cost / weights[best.Class]
		m.flows[best.flow()] += best.Cost
	}
	m.add(queuecheck.Event{Kind: queuecheck.Granted, ID: best.id, Endpoint: e})
	return true
}

func (m *model) patient(r *request, e string) bool {
	return len(r.Warm) > 0 && !slices.Contains(r.Warm, e) && m.now-r.since <= r.Patience
}

func (m *model) aged(r *request) bool { return r.Aging > 0 && m.now-r.since >= r.Aging }

func (m *model) before(a, b *request) bool {
	if m.aged(a) || m.aged(b) {
		return m.aged(a) && (!m.aged(b) || a.since < b.since)
	}
	byClass := cmp.Compare(m.classes[a.Class], m.classes[b.Class])
	if m.rules.Strict {
		byClass = cmp.Compare(weights[b.Class], weights[a.Class])
	}
	return cmp.Or(byClass, cmp.Compare(a.Class, b.Class), cmp.Compare(m.flows[a.flow()], m.flows[b.flow()]),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.since, b.since)) < 0
}

// warmer returns the request of the same tenant that may pass the head at the endpoint, or the head.
func (m *model) warmer(head *request, e string) *request {
	if m.aged(head) || slices.Contains(head.Warm, e) {
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
