// Package models says which endpoints of a cluster serve a request's model: by what they have answered, and by the
// models that they list.
package models

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Facts is what the endpoints of one cluster have said of models: that there is no such model, or adapter, at an
// endpoint, or that a prompt is longer than the model's context there. That is no fault of the endpoint: its other
// requests stay as they are. Requests that it concerns go to the other endpoints, if there are any, until it is time to
// ask again. One VM has one Facts per cluster; Export and Import share it between VMs.
type Facts struct {
	models        []*modelFacts
	look          patience        // to find out what endpoints have refused
	readUntil     time.Duration   // until then requests are read for their models, since endpoints differ
	lists         lb.DerivedLists // without endpoints, by a digest of those
	listed        listed          // before any request has shown it
	spreads       spreads         // over how many endpoints the requests for a model are spread
	exportPending bool
}

// modelFacts is what is known of one model.
type modelFacts struct {
	id        uint64 // digest of its name
	endpoints []*modelFact
	lastAt    time.Duration // when it was last asked for
	servedAt  time.Duration // when some endpoint last served it, 0 for never
	longest   int64         // prompt that was served lately, in bytes
	until     time.Duration // no fact counts after that
}

// modelFact is what is known of a model at an endpoint.
type modelFact struct {
	endpoint uint64 // hash of the address
	absent   patience
	tooLong  patience
	length   int64 // the shortest prompt that was refused for its length, in bytes
	doubtful int   // refusals in a row since the model was served, all within servedLately of that

	servedAt  time.Duration // when it last served the model, 0 for never
	longest   int64         // prompt that it served lately, in bytes
	longestAt time.Duration
}

// patience is when an endpoint is asked again that has refused something.
type patience struct {
	from, until time.Duration
}

const (
	// firstPatience is how long an endpoint is not asked again after its first refusal. It doubles with each further
	// one, up to maxPatience.
	firstPatience = 5 * time.Second
	maxPatience   = 2 * time.Minute
	// lookFor is how long requests are read for their models after a refusal: long enough to learn which model it was,
	// and whether another endpoint has it. If none has, the next such look may begin after twice as long each time, up
	// to maxLookPause: clients can make up models as they like.
	lookFor      = time.Minute
	maxLookPause = 20 * time.Minute
	// factsActive is how long requests are read for their models after a fact that tells endpoints apart.
	factsActive = 10 * time.Minute
	// maxFactModels and maxFactEndpoints bound what is known. Models that no endpoint has served lately make room
	// first: clients can make up as many as they like.
	maxFactModels    = 64
	maxFactEndpoints = 256
	// surely is how many refusals in a row it takes where the endpoint has served the model within servedLately.
	surely       = 3
	servedLately = 30 * time.Second
)

// NewFacts returns the facts of a cluster of which nothing is known.
func NewFacts() *Facts { return &Facts{} }

// Active reports whether requests have to be read for their models: an endpoint has refused lately what another one has
// served, or it is to be found out whether that is so; or their lists differ.
func (f *Facts) Active(now time.Duration) bool {
	return len(f.listed.partly) > 0 || now < f.readUntil || f.look.waits(now) && now-f.look.from < lookFor
}

// waits reports whether the endpoint is not asked.
func (p *patience) waits(now time.Duration) bool { return now < p.until }

// refused takes a refusal. What was under way when the last one came adds nothing.
func (p *patience) refused(now, first, most time.Duration) {
	if p.waits(now) {
		return
	}
	next := first
	if last := p.until - p.from; last > 0 && now-p.until < factsActive {
		next = min(2*last, most)
	}
	p.from, p.until = now, now+next
}

// Absent notes that the endpoint has answered that there is no such model. A model of 0 is one that was not read.
func (f *Facts) Absent(now time.Duration, model uint64, addr string) {
	m, e := f.refused(now, model, addr)
	if e == nil {
		return
	}
	if e.servedAt > 0 && now-e.servedAt < servedLately {
		if e.doubtful++; e.doubtful < surely {
			return
		}
	}
	f.learned(now, m, e, &e.absent)
}

// IsAbsent reports whether the endpoint has answered that there is no such model, and is not asked again yet.
func (f *Facts) IsAbsent(now time.Duration, model uint64, addr string) bool {
	m := f.find(model)
	if m == nil {
		return false
	}
	e := m.find(lb.EndpointHash(addr))
	return e != nil && e.absent.waits(now)
}

// TooLong notes that the endpoint has refused a prompt of so many bytes for its length. It says nothing if the endpoint
// has served one as long lately: then the client wanted too long an answer.
func (f *Facts) TooLong(now time.Duration, model uint64, addr string, length int64) {
	m, e := f.refused(now, model, addr)
	if e == nil || length <= 0 || length <= e.longest && now-e.longestAt < factsActive {
		return
	}
	if e.length == 0 || length < e.length {
		e.length = length
	}
	f.learned(now, m, e, &e.tooLong)
}

func (f *Facts) learned(now time.Duration, m *modelFacts, e *modelFact, p *patience) {
	p.refused(now, firstPatience, maxPatience)
	e.doubtful = 0
	m.until = max(m.until, p.until)
	f.exportPending = true
	f.read(now, m)
}

// read has requests read for their models if what is known of this one tells endpoints apart.
func (f *Facts) read(now time.Duration, m *modelFacts) {
	if until := now + factsActive; m.divided(now) {
		f.exportPending = f.exportPending || until-f.readUntil > lookFor
		f.readUntil = max(f.readUntil, until)
	}
}

// divided reports whether one endpoint has refused what another one has served lately.
func (m *modelFacts) divided(now time.Duration) bool {
	return m.found(now) && slices.ContainsFunc(m.endpoints, func(e *modelFact) bool {
		return e.absent.until > 0 || e.length > 0 && e.length <= m.longest
	})
}

// found reports whether some endpoint has served the model lately.
func (m *modelFacts) found(now time.Duration) bool {
	return m.servedAt > 0 && now-m.servedAt < factsActive
}

// refused returns what is known of the model at the endpoint, which has refused it; nil if there is no room.
func (f *Facts) refused(now time.Duration, model uint64, addr string) (*modelFacts, *modelFact) {
	f.look.refused(now, lookFor, maxLookPause)
	if model == 0 {
		return nil, nil
	}
	return f.at(now, model, lb.EndpointHash(lb.ServerOf(addr)))
}

// at returns what is known of the model at the endpoint, which was asked for it there at that time; nil if there is no
// room.
func (f *Facts) at(then time.Duration, model, endpoint uint64) (*modelFacts, *modelFact) {
	m := f.find(model)
	if m == nil {
		f.evict(then)
		m = &modelFacts{id: model}
		f.models = append(f.models, m)
	}
	m.lastAt = max(m.lastAt, then)
	e := m.find(endpoint)
	if e == nil && len(m.endpoints) < maxFactEndpoints {
		e = &modelFact{endpoint: endpoint}
		m.endpoints = append(m.endpoints, e)
	}
	return m, e
}

// find returns what is known of a model, nil if nothing is. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (f *Facts) find(model uint64) *modelFacts {
	for _, m := range f.models {
		if m.id == model {
			return m
		}
	}
	return nil
}

// find returns what is known of the model at an endpoint, nil if nothing is. It is not inlined either.
//
//go:noinline
func (m *modelFacts) find(endpoint uint64) *modelFact {
	for _, e := range m.endpoints {
		if e.endpoint == endpoint {
			return e
		}
	}
	return nil
}

// evict makes room for a model: that of the one that was asked for longest ago, of those that no endpoint has served
// lately if there are any.
func (f *Facts) evict(now time.Duration) {
	if len(f.models) < maxFactModels {
		return
	}
	worst := 0
	for i, m := range f.models {
		of := f.models[worst]
		if kept, rather := m.found(now), of.found(now); rather && !kept || kept == rather && m.lastAt < of.lastAt {
			worst = i
		}
	}
	last := len(f.models) - 1
	f.models[worst] = f.models[last]
	f.models = f.models[:last]
}

// Served notes that the endpoint has served a request for the model, with a prompt of so many bytes.
func (f *Facts) Served(now time.Duration, model uint64, addr string, length int64) {
	if model == 0 {
		return
	}
	m, e := f.at(now, model, lb.EndpointHash(lb.ServerOf(addr)))
	if !m.found(now) {
		m.longest = 0
	}
	m.servedAt, m.longest = now, max(m.longest, length)
	if e != nil {
		e.servedAt, e.doubtful, e.absent = now, 0, patience{}
		if length >= e.longest || now-e.longestAt >= factsActive {
			e.longest, e.longestAt = length, now
		}
		if e.length > 0 && length >= e.length { // it has another context now, or a longer answer was wanted then
			e.length, e.tooLong = 0, patience{}
		}
	}
	f.read(now, m)
}

// avoids reports whether a request with so many bytes is not sent to the endpoint.
func (e *modelFact) avoids(now time.Duration, length int64) bool {
	return e.absent.waits(now) || e.length > 0 && length >= e.length && e.tooLong.waits(now)
}

// Filter returns the candidates for a request: those that list its model, if there are any, without those at which it
// is known to be refused, unless that is all of them.
func (f *Facts) Filter(now time.Duration, r *lb.Request, l lb.List) lb.List {
	if f == nil || r.ModelID == 0 {
		return l
	}
	m := f.find(r.ModelID)
	l = f.listing(now, r.ModelName, m, l)
	if m == nil || now >= m.until {
		return l
	}
	digest := uint64(0) // of the endpoints, in any order
	for _, e := range m.endpoints {
		if e.avoids(now, r.Length) {
			digest += lb.Mix(e.endpoint)
		}
	}
	if digest == 0 {
		return l
	}
	return f.lists.Get(now, l, digest, func(cs []lb.Candidate) []lb.Candidate {
		left := make([]lb.Candidate, 0, len(cs))
		for i := range cs {
			if e := m.find(lb.EndpointHash(lb.ServerOf(cs[i].Addr))); e == nil || !e.avoids(now, r.Length) {
				left = append(left, cs[i])
			}
		}
		if len(left) == 0 || len(left) == len(cs) {
			return cs
		}
		return left
	})
}
