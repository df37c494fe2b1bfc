package memstore

import (
	"errors"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// tableOf returns a table with a row for each of the hashes, and the given number of requests in each row.
func tableOf(t *testing.T, hashes []uint64, requests ...int64) table {
	t.Helper()
	out, err := newTable("scope").withRows(hashes)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range requests {
		out.addLoad(i, lb.Load{Requests: n, Tokens: 10 * n})
	}
	return out
}

func hashesUpTo(n int) (list []uint64) {
	for i := range n {
		list = append(list, uint64(i+1))
	}
	return list
}

// Rows without load are given to other endpoints once there are spareRows of them beside one for each candidate. Until
// then the table grows. What is counted stays where it is.
func TestRowsAreGivenAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		busy  int // rows with load, the first ones
		idle  int
		added int // endpoints without a row
		rows  int
	}{
		{"none idle", 3, 0, 2, 5},
		{"one too few idle", 3, spareRows + 1, 2, 3 + spareRows + 1 + 2},
		{"enough idle", 3, spareRows + 2, 2, 3 + spareRows + 2},
		{"more idle", 3, spareRows + 20, 2, 3 + spareRows + 20},
		{"no endpoint is new", 3, spareRows + 2, 0, 3 + spareRows + 2},
	} {
		before := tableOf(t, hashesUpTo(c.busy+c.idle), slices.Repeat([]int64{7}, c.busy)...)
		var wanted []uint64
		for i := range c.added {
			wanted = append(wanted, uint64(1000+i))
		}
		after, err := before.withRows(wanted)
		if err != nil || after.rows() != c.rows || after.check() != nil || !after.isFor("scope") {
			t.Errorf("%s: %d rows, %v, want %d", c.name, after.rows(), err, c.rows)
			continue
		}
		if after.generation() != before.generation()+1 {
			t.Errorf("%s: generation %d after %d", c.name, after.generation(), before.generation())
		}
		for i := range c.busy {
			if after.hash(i) != uint64(i+1) || after.loadOf(i) != (lb.Load{Requests: 7, Tokens: 70}) {
				t.Errorf("%s: row %d of %d carries %v", c.name, i, after.hash(i), after.loadOf(i))
			}
		}
		for _, h := range wanted {
			if row := after.find(h); row == noRow || after.loadOf(row) != (lb.Load{}) {
				t.Errorf("%s: endpoint %d has row %d", c.name, h, row)
			}
		}
	}
}

func TestMostRows(t *testing.T) {
	full := tableOf(t, hashesUpTo(maxRows), slices.Repeat([]int64{1}, maxRows)...)
	if full.rows() != maxRows || full.find(maxRows) != maxRows-1 || full.find(maxRows+1) != noRow {
		t.Errorf("%d rows, the last endpoint in row %d", full.rows(), full.find(maxRows))
	}
	if _, err := full.withRows([]uint64{maxRows + 1}); !errors.Is(err, lb.ErrNoRoom) {
		t.Errorf("one row more: %v", err)
	}
}

// A load is never below zero, and a step of rows that are not there counts only for those that are.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		s    step
		want [2]lb.Load
	}{
		{noStep, [2]lb.Load{{Requests: 2, Tokens: 20}, {Requests: 3, Tokens: 30}}},
		{step{from: noRow, to: 0, toTokens: 5}, [2]lb.Load{{Requests: 3, Tokens: 25}, {Requests: 3, Tokens: 30}}},
		{step{from: 1, to: noRow, fromTokens: 5}, [2]lb.Load{{Requests: 2, Tokens: 20}, {Requests: 2, Tokens: 25}}},
		{step{1, 0, 5, 7}, [2]lb.Load{{Requests: 3, Tokens: 27}, {Requests: 2, Tokens: 25}}},
		{step{1, 2, 5, 7}, [2]lb.Load{{Requests: 2, Tokens: 20}, {Requests: 2, Tokens: 25}}},
		{step{2, 1, 5, 7}, [2]lb.Load{{Requests: 2, Tokens: 20}, {Requests: 4, Tokens: 37}}},
		{step{from: 0, to: noRow, fromTokens: 99}, [2]lb.Load{{Requests: 1}, {Requests: 3, Tokens: 30}}},
	} {
		tab := tableOf(t, hashesUpTo(2), 2, 3)
		tab.apply(c.s)
		if got := [2]lb.Load{tab.loadOf(0), tab.loadOf(1)}; got != c.want || tab.check() != nil {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
	tab := tableOf(t, hashesUpTo(1), 2)
	if tab.isIdle() {
		t.Error("a table with load is idle")
	}
	tab.addLoad(0, lb.Load{Requests: -5, Tokens: -500})
	if !tab.isIdle() || tab.loadOf(0) != (lb.Load{}) {
		t.Errorf("a load of %v", tab.loadOf(0))
	}
}

// A member has its latest steps by their sequence numbers, also where these wrap.
func TestLogOfAMember(t *testing.T) {
	tab := tableOf(t, hashesUpTo(2)).withMember().withMember()
	tab.member(0).set(11, 3, 0)
	first := ^uint32(0) - 2
	tab.member(1).set(12, 4, first-1)
	for i := range logLength + 3 {
		tab.member(1).log(step{from: i, to: i + 1, fromTokens: int64(i), toTokens: int64(2 * i)})
	}
	m := tab.member(1)
	if m.seq() != first-1+logLength+3 || m.index() != 4 || m.owner() != 12 || tab.memberOf(12) != 1 ||
		tab.memberOf(11) != 0 || tab.memberOf(13) != -1 || tab.members() != 2 {
		t.Errorf("member %d with index %d at step %d", m.owner(), m.index(), m.seq())
	}
	for i := 3; i < logLength+3; i++ {
		want := step{from: i, to: i + 1, fromTokens: int64(i), toTokens: int64(2 * i)}
		if got := m.step(first + uint32(i)); got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	if tab.member(0).seq() != 0 || tab.member(0).step(0) != (step{}) {
		t.Error("the other member has changed")
	}
	tab.addLoad(1, lb.Load{Requests: 5})
	without := tab.withoutMember(0)
	if without.members() != 1 || without.memberOf(12) != 0 || without.loadOf(1).Requests != 5 ||
		without.check() != nil {
		t.Errorf("%d members, %v", without.members(), without.loadOf(1))
	}
}

// A checkpoint grows with the rows of its table, and never shrinks.
func TestCheckpointGrows(t *testing.T) {
	c := newCheckpoint(7)
	if !c.isEmpty() || c.rows() != 0 || !c.check(7) || c.check(8) {
		t.Errorf("a new checkpoint: %d rows", c.rows())
	}
	for i, n := range []int{2, 2, 1, 0, 5} {
		want := max(n, c.rows())
		c = c.grow(n)
		if c.rows() != want || !c.check(7) {
			t.Errorf("grown to %d: %d rows", n, c.rows())
		}
		if i == 0 {
			c.apply(9, step{from: noRow, to: 1, toTokens: 4})
		}
		if c.load(1) != (lb.Load{Requests: 1, Tokens: 4}) || c.load(0) != (lb.Load{}) || c.seq() != 9 || c.isEmpty() {
			t.Errorf("grown to %d: %v at step %d", n, c.load(1), c.seq())
		}
	}
	if c[:len(c)-1].check(7) || c[:checkpointHeader-1].check(7) {
		t.Error("a truncated checkpoint is complete")
	}
	tab := tableOf(t, hashesUpTo(2), 2, 3) // fewer rows than the checkpoint
	if c.addTo(tab); tab.loadOf(0).Requests != 2 || tab.loadOf(1) != (lb.Load{Requests: 4, Tokens: 34}) {
		t.Errorf("added to a table: %v and %v", tab.loadOf(0), tab.loadOf(1))
	}
}
