package memstore

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// loadsOf returns the load of each endpoint in a table, by hash, without rows that have no endpoint.
func loadsOf(t table) map[uint64]lb.Load {
	loads := map[uint64]lb.Load{}
	for i := range t.rows() {
		if h := t.hash(i); h != 0 {
			loads[h] = t.loadOf(i)
		}
	}
	return loads
}

// withLoad returns the loads that are not zero.
func withLoad(loads map[uint64]lb.Load) map[uint64]lb.Load {
	out := maps.Clone(loads)
	maps.DeleteFunc(out, func(_ uint64, l lb.Load) bool { return l == (lb.Load{}) })
	return out
}

// tableHistory is a table, with the loads and the members that it should have.
type tableHistory struct {
	table
	loads  map[uint64]lb.Load
	owners map[uint64]bool
	latest uint64 // owner
}

// step draws a change: endpoints need rows, an owner joins or leaves, or a load changes.
func (h *tableHistory) step(rt *rapid.T) {
	switch rapid.IntRange(0, 4).Draw(rt, "action") {
	case 0:
		h.addRows(rt)
	case 1:
		h.latest++
		h.table = h.withMember()
		h.member(h.members()-1).set(h.latest, int(h.latest), 0)
		h.owners[h.latest] = true
	case 2:
		if h.members() > 0 {
			i := rapid.IntRange(0, h.members()-1).Draw(rt, "member")
			delete(h.owners, h.member(i).owner())
			h.table = h.withoutMember(i)
		}
	default:
		h.addLoad(rt)
	}
}

func (h *tableHistory) addRows(rt *rapid.T) {
	hashes := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 40), 1, 6, rapid.ID[uint64]).Draw(rt, "hashes")
	grown, err := h.withRows(hashes)
	if err != nil {
		rt.Fatal(err)
	}
	for _, hash := range hashes {
		if grown.find(hash) == noRow {
			rt.Fatalf("endpoint %d has no row", hash)
		}
	}
	if grown.generation() == h.generation() {
		rt.Fatal("rows were given away, and the generation stayed")
	}
	h.table = grown
}

func (h *tableHistory) addLoad(rt *rapid.T) {
	if h.rows() == 0 {
		return
	}
	row := rapid.IntRange(0, h.rows()-1).Draw(rt, "row")
	d := lb.Load{
		Requests: int64(rapid.IntRange(-3, 5).Draw(rt, "requests")),
		Tokens:   int64(rapid.IntRange(-3000, 5000).Draw(rt, "tokens")),
	}
	if hash := h.hash(row); hash != 0 {
		was := h.loads[hash]
		h.loads[hash] = lb.Load{Requests: max(0, was.Requests+d.Requests), Tokens: max(0, was.Tokens+d.Tokens)}
		h.table.addLoad(row, d)
	}
}

// A table never loses a load when it gets rows and members: each endpoint keeps its own, and the scope's name stays.
func TestTablesKeepLoads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		scope := rapid.StringN(0, 20, 40).Draw(rt, "scope")
		h := &tableHistory{
			table: newTable(scope), loads: map[uint64]lb.Load{}, owners: map[uint64]bool{},
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			h.step(rt)
			if h.check() != nil || !h.isFor(scope) || h.members() != len(h.owners) {
				rt.Fatalf("%x: %v, %d of %d members", []byte(h.table), h.check(), h.members(), len(h.owners))
			}
			if !maps.Equal(withLoad(loadsOf(h.table)), withLoad(h.loads)) {
				rt.Fatalf("loads %v, want %v", loadsOf(h.table), h.loads)
			}
			if h.isIdle() != (len(withLoad(h.loads)) == 0) {
				rt.Fatalf("idle: %v, with %v", h.isIdle(), h.loads)
			}
			for owner := range h.owners {
				if at := h.memberOf(owner); at < 0 || h.member(at).index() != int(owner) {
					rt.Fatalf("owner %d is member %d", owner, at)
				}
			}
		}
	})
}

// Rows are reused, so that endpoints that come and go do not make a table grow without bound.
func TestRowsAreReused(t *testing.T) {
	tab := newTable("llm")
	for i := range uint64(1000) {
		var err error
		if tab, err = tab.withRows([]uint64{2*i + 1, 2*i + 2}); err != nil {
			t.Fatal(err)
		}
	}
	if tab.rows() > 2+2*spareRows {
		t.Errorf("2,000 endpoints without load have %d rows", tab.rows())
	}
	full := newTable("llm")
	hashes := make([]uint64, maxRows)
	for i := range hashes {
		hashes[i] = uint64(i + 1)
	}
	full, err := full.withRows(hashes)
	if err != nil || full.rows() != maxRows {
		t.Fatalf("%d rows, %v", full.rows(), err)
	}
	for i := range full.rows() {
		full.addLoad(i, lb.Load{Requests: 1})
	}
	if _, err := full.withRows([]uint64{1 << 40}); !errors.Is(err, lb.ErrNoRoom) {
		t.Errorf("one endpoint more: %v", err)
	}
}

// A cut table, and one with bytes behind it, is damaged and not read as something else.
func TestDamagedTablesAreRefused(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tab, err := newTable("scope").withRows([]uint64{1, 2, 3})
		if err != nil {
			rt.Fatal(err)
		}
		tab = tab.withMember()
		cut := rapid.IntRange(0, len(tab)-1).Draw(rt, "cut")
		if tab[:cut].check() == nil || append(slices.Clone(tab), 0).check() == nil {
			rt.Fatalf("%d of %d bytes, or one more, are a table", cut, len(tab))
		}
	})
}

// A checkpoint and the steps behind it come to what an owner holds, at whatever step the checkpoint was written.
func TestCheckpointsAndSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const rows = 4
		m := member(make([]byte, memberSize))
		m.set(7, 3, rapid.SampledFrom([]uint32{0, 5, 1<<32 - 3}).Draw(rt, "first step"))
		c, held := newCheckpoint(7).grow(rows), make([]lb.Load, rows)
		c.apply(m.seq(), noStep)
		behind := 0
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			s := step{from: noRow, to: rapid.IntRange(0, rows-1).Draw(rt, "to")}
			s.toTokens = int64(rapid.IntRange(0, 4000).Draw(rt, "tokens"))
			from := rapid.IntRange(0, rows-1).Draw(rt, "from")
			if held[from].Requests > 0 && rapid.Bool().Draw(rt, "move") {
				s.from, s.fromTokens = from, min(held[from].Tokens, 4000)
				held[from].Requests--
				held[from].Tokens -= s.fromTokens
			}
			held[s.to].Requests++
			held[s.to].Tokens += s.toTokens
			m.log(s)
			if behind++; behind == logLength || rapid.IntRange(0, 3).Draw(rt, "checkpoint") == 0 {
				for seq := c.seq() + 1; seq != m.seq()+1; seq++ {
					c.apply(seq, m.step(seq))
				}
				behind = 0
			}
			now := slices.Clone(c)
			for seq := c.seq() + 1; seq != m.seq()+1; seq++ {
				now.apply(seq, m.step(seq))
			}
			for row, want := range held {
				if got := now.load(row); got != want {
					rt.Fatalf("step %d, row %d: %+v, want %+v", m.seq(), row, got, want)
				}
			}
			if !c.check(7) || c.check(8) || now.isEmpty() {
				rt.Fatalf("checkpoint %x", []byte(c))
			}
		}
	})
}

// The directory is a map from owners to indices: an owner keeps its index as long as it is there, no two have the same,
// and an owner is alive as long as its heartbeat is no older than the TTL.
func TestDirectoryAgainstAMap(t *testing.T) {
	const ttl = 10 * time.Second
	rapid.Check(t, func(rt *rapid.T) {
		d, now := newDirectory(), time.Hour
		index, heartbeat := map[uint64]int{}, map[uint64]time.Duration{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now += time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond
			owner := uint64(rapid.IntRange(1, 8).Draw(rt, "owner"))
			if rapid.IntRange(0, 3).Draw(rt, "leaves") == 0 {
				if at, ok := index[owner]; ok {
					d.set(at, 0, 0)
					delete(index, owner)
					delete(heartbeat, owner)
				}
			} else {
				before, known := index[owner]
				if !known {
					before = rapid.IntRange(-1, 9).Draw(rt, "outdated index")
				}
				next, at, err := d.register(owner, before, now)
				if err != nil || known && at != before {
					rt.Fatalf("owner %d had index %d and has %d, %v", owner, before, at, err)
				}
				d, index[owner], heartbeat[owner] = next, at, now
			}
			if d.check() != nil || d.size() > 8 {
				rt.Fatalf("%d entries, %v", d.size(), d.check())
			}
			taken := map[int]bool{}
			for owner := range uint64(9) {
				at, ok := index[owner]
				if ok && (taken[at] || !d.holds(at, owner)) || owner > 0 && d.alive(owner, now, ttl) !=
					(ok && now-heartbeat[owner] <= ttl) {
					rt.Fatalf("owner %d at %d, %v: alive %v", owner, at, ok, d.alive(owner, now, ttl))
				}
				taken[at] = taken[at] || ok
			}
		}
	})
}
