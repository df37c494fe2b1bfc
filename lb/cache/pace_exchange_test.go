package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// memory is shared memory with one key.
type memory struct {
	val            []byte
	cas            uint32
	getErr, setErr error
	between        func() // runs once before the next swap
}

func (m *memory) Get(string) ([]byte, uint32, error) {
	if m.getErr == nil && m.val == nil {
		return nil, 0, lb.ErrNotFound
	}
	return m.val, m.cas, m.getErr
}

func (m *memory) Set(_ string, val []byte, cas uint32) error {
	if f := m.between; f != nil {
		m.between = nil
		f()
	}
	if m.setErr != nil {
		return m.setErr
	}
	if cas != 0 && cas != m.cas {
		return lb.ErrMismatch
	}
	m.val, m.cas = val, m.cas+1
	return nil
}

// randomAnswer is one of a few endpoints and kinds.
func randomAnswer(rng *rand.Rand) *lb.Outcome {
	i := rng.IntN(5)
	return &lb.Outcome{
		Addr: fleetAddr(i), Model: rng.Uint64N(3), Streamed: rng.IntN(4) > 0, Load: float64(rng.IntN(20)),
		PerToken:     time.Duration((1 + float64(i)) * (5 + 10*rng.Float64()) * float64(time.Millisecond)),
		OutputTokens: int64(1 + rng.IntN(400)),
	}
}

// Answers that are spread over workers show what they show to one, to the bit, if it learns from them in that order;
// in whatever order workers learn, and however often a swap is lost. After an exchange of all, all have equal lists.
func TestWorkersLearnAsOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		workers := make([]*Tracker, rapid.IntRange(1, 6).Draw(rt, "workers"))
		kept := make([][]*lb.Outcome, len(workers))
		now, shared, alone := time.Minute, &memory{val: []byte{0}, cas: 1}, &paces{}
		exchange := func(i int) {
			workers[i].Exchange(now, shared, "key")
			if len(workers[i].paces.pending.answers) > 0 {
				return
			}
			for _, o := range kept[i] {
				alone.observe(now, o)
			}
			if kept[i] = nil; alone.outputs > 0 {
				alone.settle(now)
			}
		}
		for i := range workers {
			workers[i] = NewTracker()
			workers[i].paces.pending.used = true
			exchange(i)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			now += time.Duration(rng.IntN(3000)) * time.Millisecond
			for range rng.IntN(60) {
				i, o := rng.IntN(len(workers)), randomAnswer(rng)
				workers[i].paces.observe(now, o)
				kept[i] = append(kept[i], o)
			}
			i := rng.IntN(len(workers))
			if faster := rng.IntN(len(workers)); faster != i {
				shared.between = func() { exchange(faster) }
			}
			exchange(i)
		}
		now, shared.between = now+time.Minute, nil
		for range 2 {
			for i := range workers {
				workers[i].paces.pending.used = true
				exchange(i)
			}
			now += exchangeInterval
		}
		list := fleetList(5)
		for i, w := range workers {
			if p := &w.paces.paceState; !reflect.DeepEqual(p.paceSums, alone.paceSums) ||
				!reflect.DeepEqual(p.endpoints, alone.endpoints) && len(alone.endpoints) > 0 ||
				!reflect.DeepEqual(p.kinds, alone.kinds) && len(alone.kinds) > 0 {
				rt.Fatalf("worker %d knows\n%+v\none that saw all knows\n%+v", i, p, alone.paceState)
			}
			got, want := w.Paced(now, list, 4, 1), workers[0].Paced(now, list, 4, 1)
			if got.Digest() != want.Digest() {
				rt.Fatalf("workers 0 and %d have different lists", i)
			}
		}
	})
}

func fleetList(n int) lb.List {
	cs := make([]lb.Candidate, n)
	for i := range cs {
		cs[i] = lb.Candidate{Addr: fleetAddr(i), Slope: 1, Weight: 1}
	}
	return lb.NewList(cs)
}

// Sixteen workers, each of which sees an answer of an endpoint in some eight seconds, know together what one would; a
// worker that is new knows it at once.
func TestManyWorkersOfLittleTraffic(t *testing.T) {
	shared := &memory{}
	workers := make([]*Tracker, 16)
	for i := range workers {
		workers[i] = NewTracker()
	}
	f := newFleet(3, 1, 1, 2)
	for f.now < 3*time.Minute {
		f.now += time.Second / 2
		for i := range f.slower {
			w := workers[f.rng.IntN(len(workers))]
			f.paces = &w.paces
			f.answer(i, 1, 1)
		}
		for _, w := range workers {
			w.Exchange(f.now, shared, "key")
		}
	}
	fresh := NewTracker()
	for i, w := range append(workers, fresh) {
		w.Paced(f.now, fleetList(3), 4, 1)
		w.Exchange(f.now+exchangeInterval, shared, "key")
		f.paces = &w.paces
		if a, b, c := f.more(0), f.more(1), f.more(2); a > 0 || b > 0 || c < 0.6 || c > 1.3 {
			t.Errorf("worker %d says that endpoints take %.2f, %.2f and %.2f more", i, a, b, c)
		}
	}
}

// While shared memory fails a worker learns alone; then what was learned last counts for all.
func TestPacesWithoutMemory(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*memory, error){
		"reading": func(m *memory, err error) { m.getErr = err },
		"writing": func(m *memory, err error) { m.setErr = err },
	} {
		shared, f, other := &memory{}, newFleet(1, 1, 1, 3), NewTracker()
		c := NewTracker()
		f.paces = &c.paces
		run := func() {
			for range 10 {
				f.run(time.Second)
				c.Exchange(f.now, shared, "key")
			}
		}
		run()
		before := len(shared.val)
		fail(shared, broken)
		f.slower[1] = 3
		run()
		if c.paces.pending.together || f.more(1) < 0.6 {
			t.Errorf("%s: with failing memory, %.2f more is told", name, f.more(1))
		}
		fail(shared, nil)
		c.Paced(f.now, fleetList(3), 4, 1)
		c.Exchange(f.now, shared, "key")
		other.paces.pending.used = true
		other.Exchange(f.now, shared, "key")
		if f.paces = &other.paces; before == 0 || f.more(1) < 0.6 || f.more(2) < 0.6 {
			t.Errorf("%s: %.2f and %.2f more is told to another worker", name, f.more(1), f.more(2))
		}
	}
}

// A worker whose swaps are all lost keeps its answers, and learns from them at its next tick.
func TestPacesOfLostSwaps(t *testing.T) {
	shared, f := &memory{val: []byte{0}, cas: 1}, newFleet(1, 1, 3)
	c := NewTracker()
	f.paces = &c.paces
	c.paces.pending.used = true
	c.Exchange(f.now, shared, "key")
	f.run(10 * time.Second)
	kept := len(c.paces.pending.answers)
	shared.setErr = lb.ErrMismatch
	c.Exchange(f.now, shared, "key")
	if got := len(c.paces.pending.answers); kept == 0 || got != kept || c.paces.outputs > 0 || len(shared.val) > 1 {
		t.Errorf("%d of %d answers are kept, %.0f were learned from", got, kept, c.paces.outputs)
	}
	shared.setErr = nil
	c.Exchange(f.now+time.Millisecond, shared, "key")
	if p := &c.paces; len(p.pending.answers) > 0 || p.outputs != float64(kept) || len(shared.val) == 1 {
		t.Errorf("of %d answers %.0f were learned from", kept, c.paces.outputs)
	}
}

// What is damaged in shared memory is as nothing: a new worker starts anew, another goes on, and both can write.
func TestPacesBesideGarbage(t *testing.T) {
	good, f := &memory{}, newFleet(1, 1, 3)
	c := NewTracker()
	f.paces = &c.paces
	c.paces.pending.used = true
	c.Exchange(f.now, good, "key")
	f.run(30 * time.Second)
	c.Exchange(f.now, good, "key")
	damaged := map[string][]byte{
		"empty": {}, "zero": {0}, "zeros": make([]byte, len(good.val)),
		"cut": good.val[:len(good.val)-1], "longer": append(good.val[:len(good.val):len(good.val)], 0),
	}
	for i := 0; i < 8+8*sumNumbers; i += 8 {
		b := append([]byte{}, good.val...)
		copy(b[i:], "\xff\xff\xff\xff\xff\xff\xff\xff")
		damaged[fmt.Sprint("number at ", i)] = b
	}
	for name, val := range damaged {
		m := &memory{val: val, cas: 7}
		fresh := NewTracker()
		fresh.paces.pending.used = true
		fresh.Exchange(f.now, m, "key")
		if p := &fresh.paces; p.outputs > 0 || len(p.endpoints) > 0 || len(p.kinds) > 0 {
			t.Errorf("%s: a new worker knows %+v", name, p.paceState)
		}
		c.paces.pending.used, c.paces.pending.triedAt = true, 0
		c.Exchange(f.now, m, "key")
		if _, ok := readPaces(string(m.val), f.now+maxClockLead); !ok {
			t.Errorf("%s: one that knows something has not written it", name)
		}
		if f.more(1) < 0.6 {
			t.Errorf("%s: one that knew something knows %.2f", name, f.more(1))
		}
	}
}

// The value is bounded, however many endpoints answer and whatever they are asked for, and so is what is kept until the
// next exchange; the kind that many ask for stays, whatever one client makes up.
func TestSharedPacesAreBounded(t *testing.T) {
	shared, now := &memory{}, time.Minute
	c := NewTracker()
	for range 4 {
		c.paces.pending.used = true
		now += time.Second
		c.Exchange(now, shared, "key")
		for i := range 4000 {
			model := uint64(1)
			if i%4 == 0 {
				model = uint64(now) + uint64(i)
			}
			c.paces.observe(now, &lb.Outcome{
				Addr: fmt.Sprintf("10.0.%d.%d:80", i/250, i%250), Model: model, PerToken: 1e7, OutputTokens: 50,
			})
		}
		if n := len(c.paces.pending.answers); n != maxPendingAnswers {
			t.Fatalf("%d answers are kept", n)
		}
	}
	const most = 8 + 8*sumNumbers + 4 + maxSharedPaces*(sharedPaceBytes+16) + maxKinds*sharedKindBytes
	if p := &c.paces; len(shared.val) > most || len(p.kinds) != maxKinds || p.kinds[answerKind{model: 1}] == nil {
		t.Errorf("%d bytes, at most %d; %d kinds", len(shared.val), most, len(p.kinds))
	}
	all, ok := readPaces(string(shared.val), now+maxClockLead)
	if !ok || len(all.endpoints) != maxSharedPaces {
		t.Errorf("%d endpoints are shared, %t", len(all.endpoints), ok)
	}
	now += exchangeInterval
	c.Exchange(now, shared, "key")
	now += time.Hour
	c.paces.observe(now, &lb.Outcome{Addr: "10.9.9.9:80", Model: 1, PerToken: 1e7, OutputTokens: 50})
	c.Exchange(now, shared, "key")
	if all, ok := readPaces(string(shared.val), now+maxClockLead); !ok || len(all.endpoints) != 1 {
		t.Errorf("%d endpoints after an hour", len(all.endpoints))
	}
}

// FuzzReadPaces: whatever is read as what is known can be learned on from, and makes costs that are numbers.
func FuzzReadPaces(f *testing.F) {
	p, rng := &paces{}, rand.New(rand.NewPCG(1, 1))
	for range 200 {
		p.observe(time.Minute, randomAnswer(rng))
	}
	p.settle(time.Minute)
	f.Add(p.pack(time.Minute))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, val []byte) {
		const now = time.Hour
		read, ok := readPaces(string(val), now+maxClockLead)
		if !ok {
			if !reflect.DeepEqual(read, paceState{}) {
				t.Fatalf("%+v of garbage", read)
			}
			return
		}
		c := NewTracker()
		c.paces.take(read)
		for range 50 {
			c.paces.observe(now, randomAnswer(rng))
		}
		c.paces.updatedAt = 0
		for _, o := range c.Paced(now, fleetList(5), 4, 1).Candidates {
			if !(o.Base >= 0 && o.Base <= outputCost*maxPacedTokens*(maxPaceRatio-1)) {
				t.Fatalf("%+v", o)
			}
		}
		again, ok := readPaces(string(c.paces.pack(now)), now+maxClockLead)
		if !ok || math.IsNaN(again.output) {
			t.Fatalf("what was learned from what was read cannot be read")
		}
	})
}

// TestFormatsOfPaces pins what other VMs read.
func TestFormatsOfPaces(t *testing.T) {
	const at = time.Duration(0x0102030400000000)
	p := paceState{
		learnedAt: at,
		endpoints: map[string]*pace{"a:1": {
			seen: 8, answers: 32, load: 1, log: -2, lastAt: at, level: -4, known: 0.5,
		}},
		kinds: map[answerKind]*kindPace{{model: 7, streamed: true}: {log: -4, answers: 16, lastAt: at}},
		paceSums: paceSums{
			dxdx: 1, dxdy: -1, squares: 2, answers: 4, output: 128, outputs: 8, length: 64, margin: 0.25,
		},
	}
	const stamp = "\x00\x00\x00\x00\x04\x03\x02\x01"
	double := func(top string) string { return "\x00\x00\x00\x00\x00\x00" + top }
	want := stamp +
		double("\xf0\x3f") + double("\xf0\xbf") + double("\x00\x40") + double("\x10\x40") + // sums: dxdx, dxdy, …
		double("\x60\x40") + double("\x20\x40") + double("\x50\x40") + double("\xd0\x3f") +
		"\x01\x03a:1" + stamp + double("\x20\x40") + double("\x40\x40") + double("\xf0\x3f") + double("\x00\xc0") +
		double("\x10\xc0") + double("\xe0\x3f") +
		"\x01\x07\x00\x00\x00\x00\x00\x00\x00\x01" + stamp + double("\x10\xc0") + double("\x30\x40")
	if got := string(p.pack(at)); got != want {
		t.Errorf("paces\n got %q\nwant %q", got, want)
	}
	if read, ok := readPaces(want, at); !ok || !reflect.DeepEqual(read, p) {
		t.Errorf("read %+v, %t", read, ok)
	}
}

// BenchmarkExchange: a second's answers of one worker, at 64 endpoints.
func BenchmarkExchange(b *testing.B) {
	c, shared, now := NewTracker(), &memory{}, time.Minute
	c.paces.pending.used = true
	for b.Loop() {
		for i := range 64 {
			c.paces.observe(now, &lb.Outcome{
				Addr: fmt.Sprintf("10.0.0.%d:8000", 100+i), Model: 1, PerToken: 1e7, OutputTokens: 50,
				Load: float64(i % 8),
			})
		}
		now += exchangeInterval
		c.Exchange(now, shared, "key")
	}
	b.ReportMetric(float64(len(shared.val)), "bytes")
}
