package push

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"pgregory.net/rapid"
)

// sharedMemory is shared memory with one key.
type sharedMemory struct {
	val    []byte
	cas    uint32
	getErr error
	setErr error
}

func (m *sharedMemory) Get(string) ([]byte, uint32, error) {
	if m.getErr == nil && m.val == nil {
		return nil, 0, lb.ErrNotFound
	}
	return m.val, m.cas, m.getErr
}

func (m *sharedMemory) Set(_ string, val []byte, cas uint32) error {
	if m.setErr != nil {
		return m.setErr
	}
	if cas != 0 && cas != m.cas {
		return lb.ErrMismatch
	}
	m.val, m.cas = val, m.cas+1
	return nil
}

// number gives each part of a value another number, and returns how many there are.
func number(v reflect.Value, n int) int {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			n = number(v.Field(i), n)
		}
		return n
	case reflect.String:
		*(*string)(v.Addr().UnsafePointer()) = fmt.Sprint(n)
	case reflect.Bool:
		*(*bool)(v.Addr().UnsafePointer()) = true
	case reflect.Float64:
		*(*float64)(v.Addr().UnsafePointer()) = float64(n)
	default: // an integer of 64 bits
		*(*int64)(v.Addr().UnsafePointer()) = int64(n)
	}
	return n + 1
}

// All that is known of an endpoint is shared, but for what is a worker's own, in as many bytes as documented.
func TestSharedLimitsAreComplete(t *testing.T) {
	p := &endpointLimit{}
	number(reflect.ValueOf(p).Elem(), 7)
	p.search.step = lastStep // what is above 1 is odd
	l := New(nil)
	l.endpoints[p.addr] = p
	val := l.pack()
	p.rank, p.published = 0, 0
	if got := readLimits(val)[p.addr]; got == nil || *got != *p {
		t.Errorf("\n got %+v\nwant %+v", got, p)
	}
	if want := 1 + 1 + len(p.addr) + 1 + len(p.peers.follows) + sharedLimitBytes; len(val) != want {
		t.Errorf("%d bytes, want %d", len(val), want)
	}
	for n := range val {
		if got := readLimits(val[:n]); len(got) > 0 {
			t.Fatalf("of %d bytes of %d: %+v", n, len(val), got)
		}
	}
	for _, c := range []struct {
		number *float64
		odd    float64
	}{
		{&p.search.known.wait, math.NaN()},
		{&p.proven, math.Inf(1)},
		{&p.limit, 0.5},
		{&p.limit, 1e12},
		{&p.search.above, -1},
		{&p.search.above, 1e12},
		{&p.search.step, 0},
		{&p.search.step, 2},
	} {
		good := *c.number
		*c.number = c.odd
		if got := readLimits(l.pack()); len(got) > 0 {
			t.Errorf("with %v: %+v", c.odd, got)
		}
		*c.number = good
	}
}

// crew is workers that see any answers, and one that learns alone from the same ones in the order in which they are
// learned from.
type crew struct {
	*rapid.T
	now     time.Duration
	memory  sharedMemory
	workers []*Limits
	alone   *Limits
	depth   int // of exchanges within one
	lost    int // swaps
	seen    int // answers
	learned map[int]bool
}

func (c *crew) worker() *Limits {
	return c.workers[rapid.IntRange(0, len(c.workers)-1).Draw(c.T, "worker")]
}

// answer has any worker see an answer.
func (c *crew) answer() {
	c.seen++
	took := time.Duration(rapid.IntRange(0, 3000).Draw(c.T, "ms")) * time.Millisecond
	a := Answer{
		Addr:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(c.T, "endpoint"),
		PlacedAt: c.now - took, Inflight: int64(rapid.IntRange(1, 60).Draw(c.T, "in flight")), Bytes: c.seen,
		Begun: rapid.Bool().Draw(c.T, "begun"),
	}
	c.worker().Observe(c.now, a)
}

// exchange has a worker learn, while others may do so in between.
func (c *crew) exchange(w *Limits) {
	w.Exchange(c.now, crewMemory{c, w, w.pending}, "")
}

// crewMemory is the memory as one worker sees it.
type crewMemory struct {
	*crew
	worker  *Limits
	pending pendingEvidence // of it
}

func (m crewMemory) Get(key string) ([]byte, uint32, error) { return m.memory.Get(key) }

func (m crewMemory) Set(key string, val []byte, cas uint32) error {
	if m.depth == 0 && m.memory.cas > 0 && rapid.IntRange(0, 3).Draw(m.T, "another is faster") == 0 {
		m.depth++
		other := m.crew.worker()
		if other != m.worker {
			m.exchange(other)
		}
		m.depth--
	}
	err := m.memory.Set(key, val, cas)
	if err == nil {
		m.alone.learnAll(m.now, &m.pending)
		for i := range m.pending.answers {
			n := m.pending.answers[i].Bytes
			if m.learned[n] {
				m.Fatalf("answer %d counts twice", n)
			}
			m.learned[n] = true
		}
	} else {
		m.lost++
	}
	return err
}

// Workers that lose swaps to each other end with what one would know that has seen all answers: each counts once.
func TestWorkersLearnAsOne(t *testing.T) {
	lost := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := &crew{T: rt, now: time.Hour, alone: New(nil), learned: map[int]bool{}}
		for range rapid.IntRange(1, 4).Draw(rt, "workers") {
			l := New(nil)
			l.Exchange(c.now, &c.memory, "")
			c.workers = append(c.workers, l)
		}
		c.memory.val, c.memory.cas = New(nil).pack(), 1 // so that no first value is lost
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			for range rapid.IntRange(0, 30).Draw(rt, "answers") {
				c.now += time.Duration(rapid.IntRange(0, 100).Draw(rt, "pause")) * time.Millisecond
				c.answer()
			}
			w := c.worker()
			c.exchange(w)
			c.check(w)
		}
		kept := 0 // by those that have lost all swaps
		for _, w := range c.workers {
			c.exchange(w)
			kept += len(w.pending.answers)
		}
		if len(c.learned)+kept != c.seen {
			rt.Fatalf("%d of %d answers count", len(c.learned), c.seen)
		}
		if want := c.alone.pack(); !bytes.Equal(c.memory.val, want) {
			rt.Fatalf("together\n%+v\nalone\n%+v", readLimits(c.memory.val), readLimits(want))
		}
		lost += c.lost
	})
	if lost == 0 {
		t.Error("no swap was lost")
	}
}

// check checks the limits of a worker.
func (c *crew) check(l *Limits) {
	for _, p := range l.endpoints {
		if p.published < 1 || !(p.limit >= 1) {
			c.Fatalf("limit %v, published %d", p.limit, p.published)
		}
	}
}

// A worker that loses swaps learns once, also of an endpoint of which the others do not know.
func TestLostSwapOfLimits(t *testing.T) {
	m, l := &sharedMemory{val: []byte{0}, cas: 1}, New(nil)
	a := Answer{Addr: "a", PlacedAt: time.Hour, Inflight: 1, Bytes: 9}
	l.Observe(time.Hour+time.Second, a)
	l.Exchange(time.Hour+time.Second, m, "")
	l.Observe(time.Hour+2*time.Second, a)
	for range 3 {
		m.setErr = lb.ErrMismatch
		l.Exchange(time.Hour+2*time.Second, m, "")
		m.setErr = nil
	}
	l.Exchange(time.Hour+2*time.Second, m, "")
	if p := readLimits(m.val)["a"]; p == nil || p.search.ended != 2 {
		t.Errorf("of two answers count %+v", p)
	}
}

// Memory that fails has a worker learn alone, at once, until it is there again.
func TestLimitsWithoutSharedMemory(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ get, set error }{"reads": {broken, nil}, "writes": {nil, broken}} {
		m := &sharedMemory{}
		s, l, alone := server{time.Hour, 6}, New(nil), server{time.Hour, 6}
		want := New(nil)
		l.Exchange(s.now, m, "")
		s.serve(l, "a", false)
		l.Exchange(s.now, m, "")
		m.getErr, m.setErr = c.get, c.set
		for s.now < 80*time.Minute {
			s.serve(l, "a", false)
			l.Exchange(s.now, m, "")
		}
		for alone.now < 80*time.Minute {
			alone.serve(want, "a", false)
		}
		n, _ := l.Limit("a")
		if all, _ := want.Limit("a"); math.Abs(float64(n-all)) > 1 || n > 8 {
			t.Errorf("%s fail: limit %d, alone %d", name, n, all)
		}
		m.getErr, m.setErr = nil, nil
		l.Exchange(s.now, m, "")
		s.serve(l, "a", false)
		if l.Exchange(s.now, m, ""); len(readLimits(m.val)) != 1 {
			t.Errorf("%s fail: what was learned meanwhile is not shared", name)
		}
	}
}

// Once no policy goes by limits, nothing is kept for the time when one does again.
func TestAloneAfterTogether(t *testing.T) {
	l := New(nil)
	l.Exchange(time.Hour, &sharedMemory{}, "")
	a := Answer{Addr: "a", PlacedAt: time.Hour, Inflight: 1, Bytes: 9}
	l.Observe(time.Hour+time.Second, a)
	l.Alone()
	l.Observe(time.Hour+time.Second, a)
	if n := l.endpoints["a"].search.ended; n != 1 || len(l.pending.answers) != 0 {
		t.Errorf("of two answers %d count, and %d are kept", n, len(l.pending.answers))
	}
}

// A worker keeps a bounded number of answers, and what is shared has a bound: of endpoints beyond it each worker learns
// alone. Those that have left are forgotten.
func TestSharedLimitsAreBounded(t *testing.T) {
	const n, most = maxSharedLimits + 50, 1 << 17
	m := &sharedMemory{}
	a, b, now := New(nil), New(nil), time.Hour
	a.Exchange(now, m, "")
	b.Exchange(now, m, "")
	for i := range 2 * maxPending {
		addr := fmt.Sprintf("[2001:db8:85a3:8d3:1319:8a2e:370:%04d]:12345", i%n)
		a.Observe(now, Answer{Addr: addr, PlacedAt: now - time.Second, Inflight: 1, Bytes: 1})
	}
	if len(a.pending.answers) != maxPending {
		t.Errorf("%d answers are kept", len(a.pending.answers))
	}
	a.Exchange(now, m, "")
	b.pending.used = true
	b.Exchange(now, m, "")
	if len(a.endpoints) != n || len(b.endpoints) != maxSharedLimits || len(m.val) > most {
		t.Errorf("%d endpoints, and %d in %d bytes", len(a.endpoints), len(b.endpoints), len(m.val))
	}
	now += unusedEndpointTTL + 1
	b.Observe(now, Answer{Addr: "b", PlacedAt: now, Inflight: 1, Bytes: 1})
	if b.Exchange(now, m, ""); len(b.endpoints) != 1 || len(readLimits(m.val)) != 1 {
		t.Errorf("%d endpoints are known", len(b.endpoints))
	}
}

// All workers read the same samples, from which they learn once.
func TestWorkersLearnFromASampleOnce(t *testing.T) {
	m := &sharedMemory{}
	var workers []*Limits
	for range 3 {
		l := New(engines.New())
		l.staleAfter = time.Minute
		l.Exchange(time.Hour, m, "")
		workers = append(workers, l)
	}
	for second, want := range []int64{24, 36} { // by half, since it is reached
		now := time.Hour + time.Duration(second)*time.Second
		s := sampleOf(t, fields{"running": 60, "waiting": 0})
		s.Counted, s.Inflight.Requests, s.At, s.ScrapedAt, s.FreshAt = true, 60, now, now, now
		for range 2 {
			for _, l := range workers {
				l.engines.Update(now, nil, map[string]engines.Sample{"a": s})
				l.Exchange(now, m, "")
				if n, _ := l.Limit("a"); n != want {
					t.Errorf("limit %d, want %d", n, want)
				}
			}
		}
	}
}

// Whatever is in shared memory, nothing fails, and there is a limit of at least 1.
func FuzzSharedLimits(f *testing.F) {
	l := New(nil)
	for _, addr := range []string{"a", "b"} {
		p := l.endpoint(time.Hour, addr)
		p.peers.follows, p.search.above = "b", 20
	}
	f.Add(l.pack())
	f.Add([]byte{0})
	f.Add([]byte{200, 1, 0})
	f.Fuzz(func(t *testing.T, val []byte) {
		m, l, now := &sharedMemory{val: val, cas: 1}, New(nil), time.Hour
		for range 40 {
			for _, addr := range []string{"a", "b"} {
				a := Answer{Addr: addr, PlacedAt: now - time.Second, Inflight: 16, Bytes: 9}
				l.Observe(now, a)
			}
			l.Exchange(now, m, "")
			now += tickOfWorkers
			for _, c := range l.Apply(now, lb.NewList([]lb.Candidate{{Addr: "a"}, {Addr: "b"}}), 0).Candidates {
				if c.Cap < 1 || c.Cap > 2*maxLimit {
					t.Fatalf("%+v", c)
				}
			}
		}
		if len(readLimits(m.val)) < 2 {
			t.Errorf("what was learned is not shared: %q", m.val)
		}
	})
}
