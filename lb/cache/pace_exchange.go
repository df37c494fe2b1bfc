package cache

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// The workers of a gateway learn together how fast endpoints are: what is known of a cluster is one value of shared
// memory, and where somebody has a target, another one what is known of the times to the first token. A worker keeps
// the answers that it sees until its next exchange. Then it reads that value, learns from them, and writes it, as one
// step. So each answer counts once, all workers have the same levels, but for an interval, and so the same lists, and a
// worker that is new knows what the others do.

const (
	// maxPendingAnswers is how many answers a worker keeps until its next exchange. More would not show more.
	maxPendingAnswers = 1024
	// exchangeInterval is how often a worker learns together with others.
	exchangeInterval = time.Second
	// maxClockLead is by how much the clock of one VM may be ahead of another's.
	maxClockLead = time.Minute
	// exchangeTries is how often a worker tries to write while others are faster. It goes on at its next tick.
	exchangeTries = 4
)

// pacedAnswer is what paces learn from.
type pacedAnswer struct {
	addr   string // "" for an answer whose time per token means nothing
	kind   answerKind
	load   float64 // logarithm of the requests in flight
	log    float64 // logarithm of the seconds per token
	tokens int64
}

// pendingAnswers are answers that a worker has seen since it last learned together with others.
type pendingAnswers struct {
	together bool // they are kept here, else learned from at once
	used     bool // times were needed, or an answer came
	triedAt  time.Duration
	answers  []pacedAnswer
}

// add keeps an answer, and returns whether that is to be done.
func (n *pendingAnswers) add(a *pacedAnswer) bool {
	if n.used = true; n.together && len(n.answers) < maxPendingAnswers {
		n.answers = append(n.answers, *a)
	}
	return n.together
}

// sharedTimes is what a worker knows of times that all workers learn together, and its own answers that are not shared
// yet.
type sharedTimes struct {
	paceState
	pending pendingAnswers
}

// observe learns from an answer: at once, or when this worker next learns together with others.
func (p *sharedTimes) observe(now time.Duration, a *pacedAnswer) {
	if !p.pending.add(a) {
		p.learn(now, a)
	}
}

// Exchange learns how fast endpoints are together with the other VMs that use the key. It is called at every tick; a VM
// in which it never was learns alone, and at once. So does one whose memory fails, until it works again: then the value
// counts that was learned last.
func (c *Tracker) Exchange(now time.Duration, kv lb.KV, key string) {
	if c.paces.exchange(now, kv, key) {
		c.paces.version++
	}
}

// ExchangeFirsts does so for the times to the first token, where somebody has a target.
func (c *Tracker) ExchangeFirsts(now time.Duration, kv lb.KV, key string) {
	c.firsts.exchange(now, kv, key)
}

// exchange returns whether what lists are made of has changed.
func (p *sharedTimes) exchange(now time.Duration, kv lb.KV, key string) (changed bool) {
	n := &p.pending
	if !n.used || n.together && now-n.triedAt < exchangeInterval && now >= n.triedAt {
		return false
	}
	seen := n.answers
	*n = pendingAnswers{together: true, triedAt: now} // so that what makes learning fail does so once
	for range exchangeTries {
		raw, cas, err := kv.Get(key)
		if err == nil || errors.Is(err, lb.ErrNotFound) {
			next, newer := p.joined(now, string(raw))
			next.learnAll(now, seen)
			if len(seen) == 0 && !newer {
				return p.take(next)
			}
			if err = kv.Set(key, next.pack(now), cas); err == nil {
				n.answers = seen[:0]
				return p.take(next)
			}
		}
		if !errors.Is(err, lb.ErrMismatch) {
			next := p.clone()
			next.learnAll(now, seen)
			n.together = false
			return p.take(next)
		}
	}
	n.answers, n.used, n.triedAt = seen, true, now-exchangeInterval
	return false
}

// learnAll learns from what a worker has seen.
func (p *paceState) learnAll(now time.Duration, seen []pacedAnswer) {
	for i := range seen {
		p.learn(now, &seen[i])
	}
	if p.outputs > 0 {
		p.settle(now)
	}
}

// joined returns what is known with what all workers know in the place of what this one does, or after failures of the
// memory the reverse: what was learned last counts. It returns whether that is this worker's. Of endpoints of which
// the others know nothing it keeps what it knows.
func (p *paceState) joined(now time.Duration, shared string) (next paceState, newer bool) {
	all, ok := readPaces(shared, max(now, p.learnedAt)+maxClockLead)
	if !ok || all.learnedAt < p.learnedAt {
		return p.clone(), p.learnedAt > 0
	}
	for addr, e := range p.endpoints {
		if all.endpoints[addr] == nil && now-e.lastAt <= idleEndpointTTL {
			own := *e
			all.endpoints[addr] = &own
		}
	}
	return all, false
}

// clone returns a copy that learns by itself.
func (p *paceState) clone() paceState {
	c := *p
	c.endpoints, c.kinds = make(map[string]*pace, len(p.endpoints)), make(map[answerKind]*kindPace, len(p.kinds))
	for addr, e := range p.endpoints {
		own := *e
		c.endpoints[addr] = &own
	}
	for kind, k := range p.kinds {
		own := *k
		c.kinds[kind] = &own
	}
	return c
}

// take goes on with another state, and returns whether what lists are made of has changed.
func (p *paceState) take(next paceState) (changed bool) {
	changed = next.length != p.length || next.margin != p.margin || len(next.endpoints) != len(p.endpoints)
	for addr, e := range next.endpoints {
		own := p.endpoints[addr]
		changed = changed || own == nil || own.level != e.level || own.known != e.known
	}
	*p = next
	return changed
}
