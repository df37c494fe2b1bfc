package gains

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/wire"
)

// crowd is VMs with their recorders, and a ledger of what they tell of one cluster.
type crowd struct {
	now       time.Duration
	recorders []*Recorder
	list      []Place
	ledger    *Ledger
}

func newCrowd(vms int, list []Place) *crowd {
	c := &crowd{now: time.Hour, ledger: NewLedger(1), list: list}
	for range vms {
		c.recorders = append(c.recorders, NewRecorder())
	}
	return c
}

// tick has a second pass: all tell, and the ledger reads.
func (c *crowd) tick() {
	c.now += time.Second
	var log wire.Writer
	for vm, r := range c.recorders {
		if r != nil && r.Active() {
			log = r.Append(log, uint64(vm), "llm", "prefix_cache", c.list)
		}
	}
	c.ledger.Read(c.now, log)
	c.ledger.Advance(c.now)
}

func (c *crowd) gained() Gained {
	for range 60 {
		c.tick()
	}
	return c.ledger.Clusters["llm"].Worlds.Take()
}

// twice is a crowd, and worlds that see all requests themselves.
type twice struct {
	*crowd
	rt   *rapid.T
	all  *Worlds
	open []*told
}

// told is a request of both.
type told struct {
	vm     int
	id     ID
	flight *Flight
	sent   bool
}

// pass lets some time pass.
func (c *twice) pass() {
	at := c.now
	c.now += time.Duration(rapid.IntRange(1, 999).Draw(c.rt, "ms")) * time.Millisecond
	if now := c.now / time.Second * time.Second; now > at {
		c.now = now - time.Second
		c.tick()
	}
}

// happen has something happen to a request.
func (c *twice) happen() {
	q := &told{vm: rapid.IntRange(0, len(c.recorders)-1).Draw(c.rt, "VM")}
	kind := rapid.IntRange(0, 3).Draw(c.rt, "event")
	if kind >= 2 && len(c.open) > 0 {
		q = c.open[rapid.IntRange(0, len(c.open)-1).Draw(c.rt, "which")]
	}
	switch r := c.recorders[q.vm]; {
	case kind == 0:
		r.Come(c.now, &q.id)
		q.flight = c.all.Come(c.now)
		c.open = append(c.open, q)
	case kind == 1, !q.sent:
		addr := c.list[rapid.IntRange(0, len(c.list)-1).Draw(c.rt, "endpoint")].Addr
		if r.Sent(c.now, &q.id, addr); q.flight == nil {
			c.open = append(c.open, q)
		}
		q.flight, q.sent = c.all.Send(c.now, q.flight, c.all.PlaceOf(addr)), true
	default:
		c.end(q)
	}
}

func (c *twice) end(q *told) {
	c.recorders[q.vm].Ended(c.now, &q.id)
	c.all.End(c.now, q.flight)
	c.open = slices.DeleteFunc(c.open, func(o *told) bool { return o == q })
}

// TestLedger holds that what several VMs tell is what one would count that sees all requests.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := places(rapid.IntRange(1, 4).Draw(rt, "endpoints"), rapid.IntRange(1, 3).Draw(rt, "slots"))
		c := &twice{crowd: newCrowd(rapid.IntRange(1, 4).Draw(rt, "VMs"), list), rt: rt, all: NewWorlds(1)}
		var first ID // so that the ledger knows the endpoints
		c.recorders[0].Sent(c.now, &first, "0")
		c.recorders[0].Ended(c.now, &first)
		c.gained()
		c.all.Arrange(c.now, list)
		for range rapid.IntRange(0, 100).Draw(rt, "events") {
			c.pass()
			c.happen()
		}
		for len(c.open) > 0 {
			c.now += time.Millisecond // VMs do not agree on what is first of what happens at the same time
			c.end(c.open[0])
		}
		got := c.gained()
		c.all.Advance(c.now)
		want := c.all.Take()
		if got.Idle[Real] != want.Idle[Real] || got.Vacant[Real] != want.Vacant[Real] {
			rt.Errorf("%+v, want %+v", got, want)
		}
		if got.Same+got.Elsewhere != want.Same+want.Elsewhere {
			rt.Errorf("%+v picks, want %+v", got, want)
		}
	})
}

// TestVMsThatAreGone ends the requests of a VM that tells nothing any more.
func TestVMsThatAreGone(t *testing.T) {
	c := newCrowd(2, places(2, 1))
	var a, b, lost ID
	c.recorders[1].Sent(c.now, &lost, "0")
	c.recorders[0].Sent(c.now, &a, "0")
	c.recorders[0].Sent(c.now, &b, "1")
	c.tick()
	c.recorders[1] = nil
	for range 20 {
		c.tick()
	}
	if n := len(c.ledger.Clusters["llm"].feeds); n != 1 {
		t.Errorf("%d VMs are known", n)
	}
	c.recorders[0].Ended(c.now, &a)
	c.recorders[0].Ended(c.now, &b)
	c.gained()
	settled(t, c.ledger.Clusters["llm"].Worlds, c.now)
}

// TestMissingBatches has the worlds begin anew, after a pause: what is missing would show as requests that never end.
func TestMissingBatches(t *testing.T) {
	for name, lose := range map[string]func(c *crowd, t *ID){
		"a batch was not reported": func(c *crowd, _ *ID) { c.recorders[0].Append(nil, 0, "llm", "", nil) },
		"too many events": func(c *crowd, id *ID) {
			for range maxEvents + 1 {
				c.recorders[0].Sent(c.now, id, "0")
			}
		},
	} {
		c := newCrowd(1, places(2, 1))
		var kept, id ID
		c.recorders[0].Sent(c.now, &kept, "0")
		c.tick()
		before := c.ledger.Clusters["llm"].Worlds
		c.recorders[0].Sent(c.now, &id, "0")
		lose(c, &id)
		c.recorders[0].Ended(c.now, &id)
		c.tick()
		of := c.ledger.Clusters["llm"]
		if of.Worlds == before || of.pausedTo != c.now+pause {
			t.Errorf("%s: the worlds go on", name)
		}
		c.recorders[0].Ended(c.now, &kept)
		var later ID
		for c.now < of.pausedTo {
			c.tick()
		}
		c.recorders[0].Sent(c.now, &later, "1")
		c.tick()
		c.recorders[0].Ended(c.now, &later)
		if got := c.gained(); got.Same+got.Elsewhere != 1 {
			t.Errorf("%s: %+v after the pause, want the one request", name, got)
		}
	}
}

// TestSavedPrefill tells cached tokens as time once the speed is known, and keeps those of before.
func TestSavedPrefill(t *testing.T) {
	c, rng := newCrowd(1, nil), rand.New(rand.NewPCG(1, 2))
	const rate = 1e-4
	c.recorders[0].Cached("qwen", 5000)
	c.tick()
	model := c.ledger.Clusters["llm"].Models["qwen"]
	if ms := model.Take(); ms != 0 {
		t.Fatalf("%d ms without a speed", ms)
	}
	for range minPrefills/maxPerBatch + 1 {
		for range maxPerBatch + 1 {
			tokens := 1000 * rng.ExpFloat64()
			c.recorders[0].Prefill("qwen", Prefill{At: c.now, Tokens: tokens, Took: 0.1 + rate*tokens, Load: 1})
		}
		c.tick()
	}
	for range 12 {
		c.tick()
	}
	c.recorders[0].Cached("qwen", 5005)
	c.tick()
	saved := uint64(0)
	for range 3 {
		saved += model.Take()
	}
	if math.Abs(float64(saved)-1000.5) > 10 {
		t.Errorf("%d ms saved by 10005 tokens of %g s", saved, rate)
	}
	for i := range 2 * maxModels {
		c.recorders[0].Cached(strconv.Itoa(i), 1)
	}
	if c.tick(); len(c.ledger.Clusters["llm"].Models) != maxModels {
		t.Errorf("%d models are known", len(c.ledger.Clusters["llm"].Models))
	}
}

// TestBounds holds that clusters and VMs are bounded, and that unused ones are forgotten.
func TestBounds(t *testing.T) {
	l, r := NewLedger(1), NewRecorder()
	r.Cached("m", 1)
	for i := range 2 * maxClusters {
		l.Read(0, r.Append(nil, 1, strconv.Itoa(i), "", nil))
	}
	if len(l.Clusters) != maxClusters {
		t.Errorf("%d clusters", len(l.Clusters))
	}
	for i := range 2 * maxFeeds {
		l.Read(0, r.Append(nil, uint64(i), "0", "", nil))
	}
	if n := len(l.Clusters["0"].feeds); n != maxFeeds {
		t.Errorf("%d VMs", n)
	}
	l.Advance(idleCluster + 1)
	if l.Advance(idleCluster + 2); len(l.Clusters) != 0 {
		t.Errorf("%d clusters are kept", len(l.Clusters))
	}
	var ids []ID
	for range maxOpen + 1 {
		var t ID
		r.Sent(0, &t, "")
		ids = append(ids, t)
	}
	if last := ids[maxOpen]; last != 0 || ids[maxOpen-1] != maxOpen {
		t.Errorf("ID %d for one too many", last)
	}
}

// TestFormats pins what other VMs read.
func TestFormats(t *testing.T) {
	r := NewRecorder()
	var first, next ID
	r.Come(time.Second, &first)
	r.Sent(time.Second+2*time.Millisecond, &first, "b:1")
	r.Sent(time.Second+3*time.Millisecond, &next, "gone")
	r.Ended(time.Second+3*time.Millisecond, &first)
	r.Cached("m", 200)
	r.Prefill("m", Prefill{At: time.Second, Tokens: 1, Took: 0.5, Load: 2})
	got := r.Append(wire.Writer("x"), 0x1112131415161718, "llm", "p", []Place{{"a:1", 300}, {"b:1", 0}})
	want := "x" + "\x63\x00\x00\x00" + "\x18\x17\x16\x15\x14\x13\x12\x11" + "\x01\x00\x00\x00" + "\x03llm" + "\x01p" +
		"\x02" + "\x03a:1\xac\x02" + "\x03b:1\x00" + "\x00\xca\x9a\x3b\x00\x00\x00\x00" + "\x04" +
		"\x00\x00\x01" + "\x01\xd0\x0f\x01\x02" + "\x01\xe8\x07\x02\x00" + "\x02\x00\x01" +
		"\x01\x01m" + "\x00\xca\x9a\x3b\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\xf0\x3f" +
		"\x00\x00\x00\x00\x00\x00\xe0\x3f" + "\x00\x00\x00\x00\x00\x00\x00\x40" + "\x01\x01m\xc8\x01"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// FuzzLog reads any log: nothing of it breaks the ledger, and what came before is kept.
func FuzzLog(f *testing.F) {
	good := func() []byte {
		r := NewRecorder()
		var a, b ID
		r.Come(time.Second, &a)
		r.Sent(time.Second, &a, "0")
		r.Sent(2*time.Second, &b, "1")
		r.Ended(3*time.Second, &a)
		r.Cached("m", 7)
		r.Prefill("m", Prefill{Tokens: 1, Took: 1})
		return r.Append(nil, 1, "llm", "p", places(2, 1))
	}()
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Fuzz(func(t *testing.T, log []byte) {
		l := NewLedger(1)
		l.Read(time.Second, good)
		l.Read(2*time.Second, log)
		for i := range 20 {
			l.Advance(time.Duration(2+i) * time.Second)
		}
		if l.Clusters["llm"] == nil {
			t.Error("what was read is gone")
		}
		for _, c := range l.Clusters {
			if c.Worlds.open > maxOpen || len(c.Worlds.places) > maxPlaces || len(c.Models) > maxModels {
				t.Errorf("%d requests, %d endpoints, %d models", c.Worlds.open, len(c.Worlds.places), len(c.Models))
			}
		}
	})
}

// BenchmarkRecorded is what of that is done where the request is.
func BenchmarkRecorded(b *testing.B) {
	r, list := NewRecorder(), places(16, 8)
	ids, log := make([]ID, 512), wire.Writer(nil)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		at, t := time.Hour+time.Duration(n)*time.Millisecond, &ids[n%512]
		r.Ended(at, t) // that of 512 requests ago
		r.Sent(at, t, list[n*7%16].Addr)
		if n%256 == 255 {
			log = r.Append(log[:0], 1, "llm", "prefix_cache", list)
		}
	}
}

// BenchmarkRequest is what a request costs: recorded and told by one of four VMs, and read by one for all.
func BenchmarkRequest(b *testing.B) {
	c, ids := newCrowd(4, places(16, 8)), make([]ID, 512)
	addrs := make([]string, 16)
	for i := range addrs {
		addrs[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		vm := n % 4
		r, t := c.recorders[vm], &ids[n%512]
		at := c.now + time.Duration(n%1000)*time.Millisecond
		r.Ended(at, t) // that of 512 requests ago
		r.Sent(at, t, addrs[n*7%16])
		if n%1000 == 999 {
			c.tick()
		}
	}
}
