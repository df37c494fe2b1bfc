package queue_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// purses are loads and budgets by row.
type purses struct {
	loads
	states map[int]*budget.State
	last   int
}

func newPurses() *purses { return &purses{loads: loads{}, states: map[int]*budget.State{}, last: -1} }

func (p *purses) state(row int) *budget.State {
	if p.states[row] == nil {
		p.states[row] = &budget.State{}
	}
	return p.states[row]
}

func (p *purses) Targets(now time.Duration, entries []queue.Entry, _ float64) (ts []budget.Target, last int) {
	for i := range entries {
		e := &entries[i]
		t := budget.Target{Limits: e.Limits, State: *p.state(e.Row), Full: e.Cap > 0 && p.Load(e.Row).Requests >= e.Cap}
		t.Apply(float64(now/time.Millisecond), e.Limits)
		ts = append(ts, t)
	}
	return ts, slices.IndexFunc(entries, func(e queue.Entry) bool { return e.Row == p.last })
}

func (p *purses) Charge(now time.Duration, entries []queue.Entry, ts []budget.Target, i int, tokens float64) {
	budget.Charge(ts, i, float64(now/time.Millisecond), tokens)
	for j, e := range entries {
		*p.state(e.Row) = ts[j].State
	}
	p.last = entries[i].Row
}

// withBudgets returns a queue with a list of endpoints with budgets of 6,000 tokens a minute, and how to add a request.
func withBudgets(t *testing.T, rows int, bonus float64) (q *queue.Queue, add func(tokens int64, class lb.Class)) {
	q = &queue.Queue{}
	entries, next := make([]queue.Entry, rows), lb.LeaseID(0)
	for row := range entries {
		entries[row] = queue.Entry{Row: row, Limits: budget.Limits{Weight: 1, Tokens: 6000}}
	}
	return q, func(tokens int64, class lb.Class) {
		number, ok := q.List(7, entries)
		if !ok {
			t.Fatal("too many lists")
		}
		q.SetBudgets(number, bonus)
		next++
		w := &lb.Wait{Max: time.Hour, Since: start + time.Duration(next)*time.Millisecond, Class: class}
		q.Add(start, &queue.Ticket{Owner: 1, ID: next, Wait: w, Tokens: tokens, List: number, Wants: queue.NoRow})
	}
}

// granted dispatches at a time after the start and returns who was granted something, in order.
func granted(t *testing.T, q *queue.Queue, p *purses, after time.Duration) (ids []lb.LeaseID) {
	t.Helper()
	again, err := queue.Decode(q.Append(nil, start+after))
	if err != nil {
		t.Fatal(err)
	}
	*q = *again
	for _, g := range q.Dispatch(start+after, p, nil) {
		ids = append(ids, g.ID)
		q.Remove(g.Owner, g.ID)
	}
	return ids
}

func TestTicketsAreServedInTheirTurnAsBucketsAllow(t *testing.T) {
	q, add := withBudgets(t, 1, 0)
	p := newPurses()
	for _, tokens := range []int64{4000, 3000, 1000, 1500, 500} {
		add(tokens, batch)
	}
	// 2,000 are left after the first: the second needs more, and so does the fourth after the third.
	if ids := granted(t, q, p, 10*time.Millisecond); !slices.Equal(ids, []lb.LeaseID{1, 3, 5}) {
		t.Errorf("granted %v", ids)
	}
	if ids := granted(t, q, p, 20*time.Second); !slices.Equal(ids, []lb.LeaseID{4}) {
		t.Errorf("granted %v after 20 s", ids)
	}
}

func TestTokensAreSetAsideForWhoCameFirst(t *testing.T) {
	q, add := withBudgets(t, 2, 1000)
	p := newPurses()
	for range 2 {
		add(6000, batch)
	}
	granted(t, q, p, 0)
	add(3000, batch)
	add(2000, batch)
	add(1000, batch)
	// The first one is first at one endpoint, the second at the other, the third behind the second.
	if ids := granted(t, q, p, 15*time.Second); len(ids) != 0 {
		t.Errorf("granted %v after 15 s", ids)
	}
	asides := q.Asides(start+15*time.Second, p)
	if !slices.Equal(asides, []queue.Aside{{Row: 0, Tokens: 3000}, {Row: 1, Tokens: 2000}, {Row: 1, Tokens: 1000}}) {
		t.Errorf("set aside: %v", asides)
	}
	if ids := granted(t, q, p, 20*time.Second+10*time.Millisecond); !slices.Equal(ids, []lb.LeaseID{4}) {
		t.Errorf("granted %v after 20 s", ids)
	}
	if ids := granted(t, q, p, 30*time.Second+10*time.Millisecond); !slices.Equal(ids, []lb.LeaseID{3, 5}) {
		t.Errorf("granted %v after 30 s", ids)
	}
}

func TestClassesOfTicketsForBudgets(t *testing.T) {
	q, add := withBudgets(t, 1, 0)
	p := newPurses()
	add(6000, batch)
	granted(t, q, p, 0)
	add(1000, batch)
	add(1000, interactive)
	if ids := granted(t, q, p, 11*time.Second); !slices.Equal(ids, []lb.LeaseID{3}) {
		t.Errorf("granted %v, want the higher class", ids)
	}
}

// A list of endpoints with budgets is byte for byte as documented.
func TestFormatOfBudgets(t *testing.T) {
	q, add := withBudgets(t, 1, 25)
	add(100, batch)
	got := q.Append(nil, start)
	want := wire.Writer(nil).Uint32(7).Uint16(0x8001).Float64(25).
		Uint16(0).Uint32(0).Uint(6, 0).Float64(1).Float64(6000).Float64(0)
	if !bytes.HasPrefix(got[76:], want) {
		t.Errorf("\n got %x\nwant %x", got[76:], []byte(want))
	}
}
