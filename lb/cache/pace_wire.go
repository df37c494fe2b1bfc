package cache

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
)

// What is known of paces is packed as by internal/wire: learnedAt i64; what paceSums.numbers lists, float64 each; the
// number of endpoints as a varint, and for each one its address, a text behind its length as a varint, lastAt i64, and
// what pace.numbers lists, float64 each; the number of kinds of answers as a varint, and for each one model u64,
// whether it is streamed as a byte, lastAt i64, log and answers float64. Times are in nanoseconds, on the clock that
// the process shares.

const (
	// maxSharedPaces is of how many endpoints of a cluster workers learn together: the first ones by address. Of
	// others each learns alone.
	maxSharedPaces = 512
	// sharedPaceBytes and sharedKindBytes are how long what is known of an endpoint and of a kind of answers is,
	// without the address and its length.
	sharedPaceBytes = 8 + 8*paceNumbers
	sharedKindBytes = 8 + 1 + 8 + 8 + 8
	paceNumbers     = 6
	sumNumbers      = 8
	// maxSum is above all sums; what says otherwise is damaged.
	maxSum = 1 << 18
)

// number is one number of a state, and between what it is.
type number struct {
	at      *float64
	lo, hi  float64
	integer bool
}

func (p *paceSums) numbers() [sumNumbers]number {
	return [...]number{
		{at: &p.dxdx, hi: maxSum},
		{at: &p.dxdy, lo: -maxSum, hi: maxSum},
		{at: &p.squares, hi: maxSum},
		{at: &p.answers, hi: pooledAnswers, integer: true},
		{at: &p.output, hi: maxPacedTokens},
		{at: &p.outputs, hi: pooledAnswers, integer: true},
		{at: &p.length, hi: maxPacedTokens},
		{at: &p.margin, hi: maxLog},
	}
}

func (e *pace) numbers() [paceNumbers]number {
	return [...]number{
		{at: &e.seen, hi: minPacedAnswers, integer: true},
		{at: &e.answers, hi: pacedAnswers},
		{at: &e.load, hi: maxLogLoad},
		{at: &e.log, lo: -maxLog, hi: maxLog},
		{at: &e.level, lo: -maxLog - maxLogLoad, hi: maxLog},
		{at: &e.known, hi: 1},
	}
}

func (k *kindPace) numbers() [2]number {
	return [...]number{{at: &k.log, lo: -maxLog, hi: maxLog}, {at: &k.answers, lo: 1, hi: pooledAnswers}}
}

// read reads a number, and makes the reader fail if it is not what it can be.
func (n *number) read(r *wire.Reader[string]) {
	v := r.Float64()
	if !(v >= n.lo && v <= n.hi) || n.integer && v != math.Trunc(v) {
		r.Fail()
	}
	*n.at = v
}

// pack returns what is known, for all workers, without endpoints of which nothing counts any more.
func (p *paceState) pack(now time.Duration) []byte {
	addrs := order.Keys(p.endpoints)
	shared := addrs[:0]
	for _, addr := range addrs {
		if now-p.endpoints[addr].lastAt <= idleEndpointTTL && len(shared) < maxSharedPaces {
			shared = append(shared, addr)
		}
	}
	w := make(wire.Writer, 0, 256+len(shared)*(sharedPaceBytes+32)+len(p.kinds)*sharedKindBytes)
	w = w.Duration(p.learnedAt)
	for _, n := range p.paceSums.numbers() {
		w = w.Float64(*n.at)
	}
	w = w.Uvarint(uint64(len(shared)))
	for _, addr := range shared {
		e := p.endpoints[addr]
		w = w.Text(addr).Duration(e.lastAt)
		for _, n := range e.numbers() {
			w = w.Float64(*n.at)
		}
	}
	w = w.Uvarint(uint64(len(p.kinds)))
	for kind, k := range p.kinds {
		var streamed byte
		if kind.streamed {
			streamed = 1
		}
		w = w.Uint64(kind.model).Byte(streamed).Duration(k.lastAt).Float64(k.log).Float64(k.answers)
	}
	return w
}

// readPaces reads what pack has written, before that time, and returns whether it is that: whatever else is there,
// nothing is known.
func readPaces(shared string, before time.Duration) (paceState, bool) {
	r := wire.NewReader(shared)
	readTime := func() time.Duration {
		at := r.Duration()
		if at < 0 || at > before {
			r.Fail()
		}
		return at
	}
	p := paceState{learnedAt: readTime()}
	for _, n := range p.paceSums.numbers() {
		n.read(&r)
	}
	count := r.Count(1 + sharedPaceBytes)
	if count > maxSharedPaces {
		return paceState{}, false
	}
	p.endpoints = make(map[string]*pace, count)
	for range count {
		addr, e := r.Text(), &pace{lastAt: readTime()}
		for _, n := range e.numbers() {
			n.read(&r)
		}
		p.endpoints[addr] = e
	}
	count = r.Count(sharedKindBytes)
	if count > maxKinds {
		return paceState{}, false
	}
	p.kinds = make(map[answerKind]*kindPace, count)
	for range count {
		kind := answerKind{model: r.Uint64(), streamed: r.Byte() == 1}
		k := &kindPace{lastAt: readTime()}
		for _, n := range k.numbers() {
			n.read(&r)
		}
		p.kinds[kind] = k
	}
	if !r.OK() || r.Len() > 0 || p.learnedAt == 0 {
		return paceState{}, false
	}
	return p, true
}
