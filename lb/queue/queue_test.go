package queue_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// loads are what is in flight by row.
type loads map[int]lb.Load

func (l loads) Load(row int) lb.Load { return l[row] }
func (loads) IsSilent(o uint64) bool { return o%2 == 0 }

func (l loads) Add(row int, tokens int64) {
	l[row] = lb.Load{Requests: l[row].Requests + 1, Tokens: l[row].Tokens + tokens}
}

// Targets implements queue.Loads: these endpoints have no budgets.
func (l loads) Targets(time.Duration, []queue.Entry, float64) ([]budget.Target, int) {
	panic("no budgets")
}

// Charge implements queue.Loads.
func (l loads) Charge(time.Duration, []queue.Entry, []budget.Target, int, float64) {
	panic("no budgets")
}

const start = time.Hour

var (
	interactive = lb.Class{ID: 1, Rank: 0, Weight: 8}
	batch       = lb.Class{ID: 2, Rank: 1, Weight: 1}
)

// room is a queue before endpoints with one request each at most.
type room struct {
	t     testing.TB
	q     *queue.Queue
	loads loads
	rows  int
	now   time.Duration
	next  lb.LeaseID
}

// newRoom returns an empty queue before so many endpoints, all of which are full.
func newRoom(t testing.TB, rows int) *room {
	r := &room{t: t, q: &queue.Queue{}, loads: loads{}, rows: rows, now: start}
	for row := range rows {
		r.loads[row] = lb.Load{Requests: 1, Tokens: 100}
	}
	return r
}

func (r *room) list() int {
	entries := make([]queue.Entry, r.rows)
	for row := range entries {
		entries[row] = queue.Entry{Row: row, Cap: 1}
	}
	n, ok := r.q.List(7, entries)
	if !ok {
		r.t.Fatal("too many lists")
	}
	return n
}

// add adds a ticket of owner 1, after change.
func (r *room) add(class lb.Class, change func(*queue.Ticket)) lb.LeaseID {
	r.next++
	w := &lb.Wait{Max: time.Minute, Since: r.now, Class: class, Length: 1e6, Skip: 8}
	t := &queue.Ticket{Owner: 1, ID: r.next, Wait: w, Tokens: 100, List: r.list(), Wants: queue.NoRow}
	if change != nil {
		change(t)
	}
	r.q.Add(r.now, t)
	r.repack()
	return r.next
}

// repack replaces the queue by what its packed form decodes to.
func (r *room) repack() {
	q, err := queue.Decode(r.q.Append(nil, r.now))
	if err != nil {
		r.t.Fatal(err)
	}
	r.q = q
}

// free ends a request at the row, and returns who was granted it: 0 for nobody.
func (r *room) free(row int) lb.LeaseID {
	r.now += 10 * time.Millisecond
	n := r.loads[row].Requests
	r.loads[row] = lb.Load{Requests: n - 1, Tokens: 100 * (n - 1)}
	grants := r.q.Dispatch(r.now, r.loads, nil)
	r.repack()
	if len(grants) == 0 {
		return 0
	}
	status, at, _ := r.q.Remove(grants[0].Owner, grants[0].ID)
	if len(grants) > 1 || status != queue.Granted || at != row {
		r.t.Fatalf("grants %v, the first %v at %d", grants, status, at)
	}
	return grants[0].ID
}

// order returns who is granted the row in turn.
func (r *room) order(row, n int) (ids []lb.LeaseID) {
	for range n {
		ids = append(ids, r.free(row))
	}
	return ids
}

func equal(t *testing.T, got []lb.LeaseID, want ...lb.LeaseID) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	r := newRoom(t, 1)
	r.add(batch, nil)
	r.add(batch, nil)
	r.now += time.Millisecond
	r.add(batch, nil)
	r.add(batch, func(k *queue.Ticket) { k.Wait.Since -= 2 * time.Millisecond }) // came first, queued again
	equal(t, r.order(0, 5), 4, 1, 2, 3, 0)
}

func TestClassesShareByWeight(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRoom(t, 1)
		served := map[bool]int{}
		isBatch := map[lb.LeaseID]bool{}
		more := func(c lb.Class) {
			isBatch[r.add(c, func(k *queue.Ticket) { k.Wait.Strict = strict })] = c.ID == batch.ID
		}
		for range 20 {
			more(batch)
			more(interactive)
		}
		for range 900 {
			id := r.free(0)
			b := isBatch[id]
			served[b]++
			if b {
				more(batch)
			} else {
				more(interactive)
			}
		}
		if strict && served[true] != 0 || !strict && (served[true] < 95 || served[true] > 105) {
			t.Errorf("strict %v: %d of batch, %d interactive", strict, served[true], served[false])
		}
	}
}

func TestTenantsInTurn(t *testing.T) {
	r := newRoom(t, 1)
	of := func(tenant uint64) func(*queue.Ticket) { return func(k *queue.Ticket) { k.Wait.Tenant = tenant } }
	for range 4 {
		r.add(batch, of(1)) // 1 to 4
	}
	r.add(batch, of(2)) // 5
	r.add(batch, of(2)) // 6
	equal(t, r.order(0, 6), 1, 5, 2, 6, 3, 4)
}

func warm(row int, saved int64) func(*queue.Ticket) {
	return func(k *queue.Ticket) { k.Warm = []queue.Warm{{Row: row, Saved: saved}} }
}

func TestWarmPromptPassesAtMostSkip(t *testing.T) {
	r := newRoom(t, 2)
	for range 8 {
		r.add(batch, nil) // 1 to 8
	}
	r.add(batch, warm(0, 90)) // 9 passes 8 others
	r.add(batch, warm(0, 90)) // 10 would pass 8 after that, too
	equal(t, r.order(1, 1), 1)
	equal(t, r.order(0, 3), 9, 10, 2)
	r = newRoom(t, 2)
	for range 9 {
		r.add(batch, nil)
	}
	r.add(batch, warm(0, 90)) // 10 may not pass 9 others
	equal(t, r.order(0, 2), 1, 10)
}

func TestNobodyIsPassedForEver(t *testing.T) {
	r := newRoom(t, 1)
	r.add(batch, func(k *queue.Ticket) { k.Wait.Skip = 2 })
	passed := 0
	for {
		r.add(batch, warm(0, 90))
		if r.free(0) == 1 {
			break
		}
		if passed++; passed > 100 {
			t.Fatal("the first one is passed by everybody")
		}
	}
	if passed != 6 {
		t.Errorf("passed by %d, want three times its skip", passed)
	}
}

func TestWaitsForItsPrompt(t *testing.T) {
	r := newRoom(t, 2)
	r.add(batch, func(k *queue.Ticket) {
		warm(0, 90)(k)
		k.Wants, k.Patience = 0, 500*time.Millisecond
	})
	if id := r.free(1); id != 0 {
		t.Fatal("took an endpoint without its prompt")
	}
	r.now += 500 * time.Millisecond
	if g := r.q.Dispatch(r.now, r.loads, nil); len(g) != 1 {
		t.Fatal("waits beyond its patience")
	}
	if _, row, tokens := r.q.Find(1, 1); row != 1 || tokens != 100 {
		t.Errorf("granted row %d for %d tokens", row, tokens)
	}
}

// A request is less patient with an endpoint that has most of what the other one has: for as long as it takes to
// compute the difference.
func TestPatienceIsForWhatIsMissing(t *testing.T) {
	r := newRoom(t, 2)
	r.add(batch, func(k *queue.Ticket) {
		warm(0, 90)(k)
		k.AddWarm(queue.Warm{Row: 1, Saved: 72})
		k.Wants, k.Patience = 0, 500*time.Millisecond
	})
	r.now += 89 * time.Millisecond // and 10 ms until an endpoint is free
	if id := r.free(1); id != 0 {
		t.Fatal("took an endpoint with less of its prompt at once")
	}
	r.now += time.Millisecond
	if g := r.q.Dispatch(r.now, r.loads, nil); len(g) != 1 {
		t.Fatal("waits for longer than a fifth of its prompt takes")
	}
}

func TestHopelessOnceThePaceIsKnown(t *testing.T) {
	r := newRoom(t, 1)
	for range 60 {
		r.add(batch, nil)
	}
	w := &lb.Wait{Max: 200 * time.Millisecond, Class: batch, Length: 1e6}
	if expected, err := r.q.Admit(r.now, &queue.Ticket{Wait: w}); err != nil || expected != 0 {
		t.Fatalf("before any grant: %v, %v", expected, err)
	}
	r.order(0, 20) // one each 10 ms
	expected, err := r.q.Admit(r.now, &queue.Ticket{Wait: w})
	if !errors.Is(err, lb.ErrHopeless) || expected < 380*time.Millisecond || expected > 440*time.Millisecond {
		t.Errorf("behind 40 others: %v, %v", expected, err)
	}
	r.now += 10 * time.Second // a pause
	r.order(0, 20)
	if expected, _ := r.q.Admit(r.now, &queue.Ticket{Wait: w}); expected > time.Second {
		t.Errorf("after a pause: %v", expected)
	}
	w.Class = interactive // 8 of 9 grants are for it
	if expected, err := r.q.Admit(r.now, &queue.Ticket{Wait: w}); err != nil || expected > 20*time.Millisecond {
		t.Errorf("the first of its class: %v, %v", expected, err)
	}
}

// The queue in a table is byte for byte as documented: workers with another version of the plugin use it as well.
func TestFormat(t *testing.T) {
	q, now := &queue.Queue{}, time.Hour
	number, _ := q.List(7, []queue.Entry{{Row: 1, Cap: 8, TokenCap: 1 << 40}})
	add := func(id lb.LeaseID, class lb.Class, tenant uint64, warm ...queue.Warm) {
		w := &lb.Wait{
			Max: time.Second, Since: now, Class: class, Tenant: tenant, Aging: 800 * time.Millisecond,
			Skip: 3, Length: 2,
		}
		q.Add(now, &queue.Ticket{
			Owner: 5, ID: id, Wait: w, Tokens: 100, List: number,
			Wants: 1, Patience: 200 * time.Millisecond, Warm: warm,
		})
	}
	low := lb.Class{ID: 2, Rank: 1, Weight: 1}
	add(10, low, 9, queue.Warm{Row: 1, Saved: 60})
	add(11, low, 9)
	w := &lb.Wait{Max: time.Second, Class: interactive, Length: 2}
	if _, err := q.Admit(now, &queue.Ticket{Wait: w}); err != nil {
		t.Fatal(err) // the second one is evicted
	}
	ms := uint32(now / time.Millisecond)
	want := wire.Writer("WGQ6").Byte(1).Byte(1).Uint16(1).Uint32(1).Uint32(1).Uint32(2).
		Byte(0).Byte(1).Uint16(3).Uint32(ms).Float64(0).
		Float64(1).Float64(0).Float64(0).Float64(0).Float64(0).
		Uint32(7).Uint16(1).Uint16(1).Uint32(8).Uint(6, 1<<40).
		Uint16(2).Byte(1).Uint16(0).Float64(1).Float64(0).Float64(0).Float64(0).Float64(0).Float64(0).Float64(0).
		Uint32(ms).
		Byte(0).Uint64(9).Float64(0).Float64(0).Float64(0).Uint32(ms).Uint32(1).
		Uint64(5).Uint64(11).Byte(2).Uint16(queue.NoRow).Uint32(0).
		Uint64(5).Uint64(10).Uint32(ms).Uint32(0).Uint32(1000).Uint32(800).Uint16(20).Uint16(1).
		Byte(0).Byte(0).Uint16(3).Uint16(0).Uint16(0).Uint32(100).Uint16(1).Uint32(60)
	for range queue.MaxWarm - 1 {
		want = want.Uint16(queue.NoRow).Uint32(0)
	}
	if got := q.Append(nil, now); !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, []byte(want))
	}
}

// What is not a queue is refused, and every queue survives being packed: any bytes are one of both.
func TestDamagedQueues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRoom(t, 3)
		for range rapid.IntRange(0, 5).Draw(rt, "tickets") {
			r.add(batch, func(k *queue.Ticket) { k.Wait.Tenant = rapid.Uint64Range(0, 2).Draw(rt, "tenant") })
		}
		if rapid.Bool().Draw(rt, "granted") {
			r.loads[0] = lb.Load{}
			r.q.Dispatch(r.now, r.loads, nil)
		}
		b := r.q.Append(nil, r.now)
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			if len(b) > 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
			}
		}
		b = b[:rapid.IntRange(0, len(b)).Draw(rt, "length")]
		q, err := queue.Decode(b)
		if err != nil {
			return
		}
		q.Ended(1)
		q.RemoveOwners(func(owner uint64) bool { return owner == 1 })
		_, _ = q.Admit(r.now, &queue.Ticket{Wait: &lb.Wait{Max: time.Minute, Class: interactive, Length: 1}})
		q.Remove(1, 1)
		q.Dispatch(r.now, loads{}, nil)
		if _, err := queue.Decode(q.Append(nil, r.now)); err != nil {
			rt.Fatal(err)
		}
	})
}
