package push

import (
	"errors"
	"maps"
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// The workers of a gateway search together: what is known of the limits of a cluster is one value of shared memory. A
// worker keeps the answers that it sees until its next tick. Then it reads that value, learns from them, and writes it.
// So all have the same limits, but for a tick, and each answer counts once. Of samples, which all workers see, the
// value says which were learned from.
//
// The value is packed as by internal/wire: the number of endpoints as a varint, and for each one its address and that
// of the one that it follows, texts behind their lengths as varints; page.page u64; then what endpointLimit.parts
// lists: float64 each, 64-bit integers each (times in nanoseconds, on the clock that the process shares), and bits of a
// byte.

const (
	// maxSharedLimits is how many endpoints of a cluster workers learn of together: the first ones by address. Of
	// others each learns alone.
	maxSharedLimits = 128
	// sharedLimitBytes is how long what is known of an endpoint is, without the two addresses and their lengths.
	sharedLimitBytes = 8 + 8*sharedNumbers + 8*sharedCounts + 1
	sharedNumbers    = 18 + 3*windowNumbers
	windowNumbers    = 10
	sharedCounts     = 20
	// maxLimit is above any limit; what says otherwise is damaged.
	maxLimit = 1 << 31
	// maxPending is how many answers are kept until the next tick. More would not show more.
	maxPending = 1024
	// exchangeTries is how often a worker tries to write while others are faster. It goes on at its next tick.
	exchangeTries = 4
	// idleExchange is how often a worker reads the limits of a cluster for which it has no requests.
	idleExchange = time.Second
)

// pendingEvidence is what a worker has seen since it has last learned together with others.
type pendingEvidence struct {
	together bool // it is kept here, else learned from at once
	answers  []pendingAnswer
	samples  bool // there are new ones
	used     bool // limits were needed, or something was seen
	readAt   time.Duration
	unshared bool // what was learned could not be written: until it is, this worker goes on with that
}

type pendingAnswer struct {
	Answer
	seconds float64 // that it took
}

func (e *pendingEvidence) add(a Answer, seconds float64) {
	if e.used = true; len(e.answers) < maxPending {
		e.answers = append(e.answers, pendingAnswer{a, seconds})
	}
}

// Exchange learns from what was observed since the last call, together with the other VMs that use the key. It is
// called at every tick; a VM in which it never was learns alone, and at once. So does one whose memory fails, until it
// works again. Where other VMs have written between every read and write of this one it is tried again at the next
// call.
func (l *Limits) Exchange(now time.Duration, kv lb.KV, key string) {
	if e := &l.pending; e.unshared {
		if _, cas, err := kv.Get(key); err == nil && kv.Set(key, l.pack(), cas) == nil {
			*e = pendingEvidence{together: true, readAt: now}
		}
		return
	} else if !e.used && now-e.readAt < idleExchange {
		return
	}
	own, seen := l.endpoints, l.pending
	l.pending = pendingEvidence{together: true, readAt: now} // so that what makes learning fail does so once
	for range exchangeTries {
		raw, cas, err := kv.Get(key)
		read := err == nil
		if read || errors.Is(err, lb.ErrNotFound) {
			l.adopt(now, own, raw)
			l.learnAll(now, &seen)
			if len(seen.answers) == 0 && !seen.samples {
				return
			}
			err = kv.Set(key, l.pack(), cas)
		}
		switch {
		case err == nil:
			l.pending.answers = seen.answers[:0]
			return
		case !errors.Is(err, lb.ErrMismatch):
			// What can still be read must not take the place of what is learned here from now on.
			l.endpoints, l.ranked, l.pending = own, false, pendingEvidence{unshared: read}
			l.learnAll(now, &seen)
			return
		}
	}
	l.endpoints, l.ranked, l.pending = own, false, seen
	l.pending.together, l.pending.readAt = true, now
}

// Alone has this VM learn alone, and at once, until the next Exchange.
func (l *Limits) Alone() { l.pending = pendingEvidence{} }

// learnAll learns from what a worker has seen.
func (l *Limits) learnAll(now time.Duration, seen *pendingEvidence) {
	for i := range seen.answers {
		l.learn(now, &seen.answers[i].Answer, seen.answers[i].seconds)
	}
	if seen.samples {
		l.learnSamples(now)
	}
	l.findLongest()
	for _, p := range l.endpoints {
		l.refresh(now, p)
		l.publish(now, p)
	}
}

// adopt puts what all workers know in place of what this one knew, and keeps that of endpoints of which they know
// nothing.
func (l *Limits) adopt(now time.Duration, own map[string]*endpointLimit, shared []byte) {
	all := readLimits(shared)
	for addr, p := range own {
		q := all[addr]
		if q == nil {
			q = new(endpointLimit)
			*q, all[addr] = *p, q
			continue
		}
		q.published, q.usedAt = p.published, max(p.usedAt, q.usedAt)
	}
	maps.DeleteFunc(all, func(_ string, p *endpointLimit) bool { return now-p.usedAt > unusedEndpointTTL })
	l.endpoints, l.ranked = all, false
}

// pack returns what is known, for all workers.
func (l *Limits) pack() []byte {
	addrs := order.Keys(l.endpoints)
	addrs = addrs[:min(len(addrs), maxSharedLimits)]
	w := make(wire.Writer, 0, 16+len(addrs)*(sharedLimitBytes+64)).Uvarint(uint64(len(addrs)))
	for _, addr := range addrs {
		p := l.endpoints[addr]
		numbers, counts, flags := p.parts()
		w = w.Text(addr).Text(p.peers.follows).Uint64(p.page.Page)
		for _, v := range numbers {
			w = w.Float64(*v)
		}
		for _, v := range counts {
			w = w.Int64(*v)
		}
		var bits byte
		for i, v := range flags {
			if *v {
				bits |= 1 << i
			}
		}
		w = w.Byte(bits)
	}
	return w
}

// readLimits reads what pack has written. Of anything else nothing is known, nor of an endpoint with odd numbers.
func readLimits(shared []byte) map[string]*endpointLimit {
	all, r := map[string]*endpointLimit{}, wire.NewReader(shared)
	for range min(r.Count(sharedLimitBytes), maxSharedLimits) {
		p := &endpointLimit{addr: string(r.Text())}
		p.peers.follows, p.page.Page = string(r.Text()), r.Uint64()
		numbers, counts, flags := p.parts()
		odd := false
		for _, v := range numbers {
			*v = r.Float64()
			odd = odd || math.IsNaN(*v) || math.IsInf(*v, 0)
		}
		for _, v := range counts {
			*v = r.Int64()
		}
		bits := r.Byte()
		for i, v := range flags {
			*v = bits>>i&1 > 0
		}
		s := &p.search
		odd = odd || p.limit < 1 || s.above < 0 || max(p.limit, s.above) > maxLimit || s.step <= 0 || s.step > 1 ||
			s.ended < 0
		if !odd {
			all[p.addr] = p
		}
	}
	if !r.OK() || r.Len() > 0 {
		clear(all)
	}
	return all
}

// parts returns what is shared of an endpoint, in the order in which it is packed.
func (p *endpointLimit) parts() (numbers [sharedNumbers]*float64, counts [sharedCounts]*int64, flags [5]*bool) {
	s, q := &p.search, &p.peers
	n := copy(numbers[:], []*float64{
		&p.limit, &p.step, &p.raised, &p.proven, &p.lastQueued,
		&p.page.Prompts, &p.page.Output, &p.page.running, &p.page.queued,
		&s.took, &s.step, &s.above, &s.known.inflight, &s.known.wait, &s.known.rest,
		&q.lately.inflight, &q.lately.wait, &q.lately.rest,
	})
	for _, w := range [...]*window{&s.at, &s.below, &q.answers} {
		n += copy(numbers[n:], []*float64{
			&w.n, &w.inflight, &w.most, &w.begun, &w.whole,
			&w.bytes, &w.took, &w.perByte, &w.tookEach, &w.shortest,
		})
	}
	n = copy(counts[:], []*int64{&p.fewer, &p.rest, &p.rests, &s.ended, &s.rest, &s.rests, &s.check})
	for _, d := range [...]*time.Duration{
		&p.learnedAt, &p.pageAt, &p.freshAt, &p.usedAt, &s.changedAt, &s.triedAt,
		&s.at.began, &s.below.began, &q.answers.began, &q.warmAt, &q.seenAt, &q.alone, &q.rests,
	} {
		counts[n] = (*int64)(d)
		n++
	}
	return numbers, counts, [5]*bool{&p.sampled, &s.lower, &s.tooHigh, &s.full, &s.slower}
}
