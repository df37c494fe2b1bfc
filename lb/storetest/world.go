package storetest

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// TTL is the time without a heartbeat after which a backend must return the leases of an owner.
const TTL = 5 * time.Second

// Backend is what the stores of several owners share. A backend is used by one test only.
type Backend interface {
	// NewOwner returns the store of one more owner.
	NewOwner() lb.Store
	// Loads returns the load of each endpoint in the scope, over all owners.
	Loads(scope string, addrs []string) []lb.Load
	// IndexBlocks returns how many prefix blocks the index of the stores holds in the given number of bytes.
	IndexBlocks(bytes int) int
}

// Passer is a Backend with a clock of its own, which Pass advances.
type Passer interface {
	Pass(d time.Duration)
}

// world is a backend with a clock and the helpers of the suite.
type world struct {
	Backend
	open func() Backend // returns another one
	t    *testing.T
	now  time.Duration
}

// another returns a world with a fresh backend.
func (w *world) another(t *testing.T) *world {
	return &world{t: t, open: w.open, Backend: w.open(), now: time.Hour}
}

// reserve reserves, and expects done to be called once before Reserve returns.
func (w *world) reserve(s lb.Store, id lb.LeaseID, p *lb.Plan) (addr string, g lb.Grant, err error) {
	w.t.Helper()
	calls := 0
	s.Reserve(w.now, id, p, func(got lb.Grant, e error) { g, err = got, e; calls++ })
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
	if err == nil {
		addr = p.Candidates[g.Index].Addr
	}
	return addr, g, err
}

// must reserves, fails the test on an error, and returns the chosen address.
func (w *world) must(s lb.Store, id lb.LeaseID, p *lb.Plan) string {
	w.t.Helper()
	addr, _, err := w.reserve(s, id, p)
	if err != nil {
		w.t.Fatalf("reserve %d: %v", id, err)
	}
	return addr
}

// want expects the requests in flight at the endpoints of scope llm.
func (w *world) want(addrs []string, want ...int64) {
	w.t.Helper()
	var got []int64
	for _, l := range w.Loads("llm", addrs) {
		got = append(got, l.Requests)
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("requests in flight are %v, want %v", got, want)
	}
}

// tick advances the clock.
func (w *world) tick(d time.Duration) {
	w.now += d
	if p, ok := w.Backend.(Passer); ok {
		p.Pass(d)
	}
}

// pass advances the clock second by second, with a heartbeat of each given store after each.
func (w *world) pass(d time.Duration, live ...lb.Store) {
	w.t.Helper()
	for end := w.now + d; w.now < end; {
		w.tick(time.Second)
		for _, s := range live {
			if err := s.Heartbeat(w.now); err != nil {
				w.t.Fatalf("heartbeat: %v", err)
			}
		}
	}
}

// refused reserves, expects that all candidates are over their budgets, and returns when one is expected not to be.
func (w *world) refused(s lb.Store, id lb.LeaseID, p *lb.Plan) lb.Grant {
	w.t.Helper()
	_, g, err := w.reserve(s, id, p)
	if !errors.Is(err, lb.ErrOverBudget) || g.Expected <= 0 {
		w.t.Fatalf("reserve %d: %v, expected in %v; want %v and a time", id, err, g.Expected, lb.ErrOverBudget)
	}
	return g
}

// expects expects that a request is refused for so long.
func (w *world) expects(s lb.Store, id lb.LeaseID, p *lb.Plan, want time.Duration) {
	w.t.Helper()
	if g := w.refused(s, id, p); g.Expected != want {
		w.t.Fatalf("request %d is expected to be placed in %v, want %v", id, g.Expected, want)
	}
}

// Interleaver is a Backend that calls a function whenever a store is about to read or to write shared memory: what that
// changes before a write, the store has not read. nil: it calls none.
type Interleaver interface {
	Between(f func())
}

// Failer is a Backend whose writes can fail: f is called for each, which fails with its error. nil: none fails.
type Failer interface {
	Fail(f func() error)
}

// Slow is a Backend that takes much longer than shared memory. It has the seeds of the random histories to run. Of 1, 6
// and 7 each setting of them is in at least one.
type Slow interface {
	Seeds() []uint64
}

// visit reserves and releases, and returns what was granted.
func (w *world) visit(s lb.Store, id lb.LeaseID, p *lb.Plan) (addr string, g lb.Grant) {
	w.t.Helper()
	addr, g, err := w.reserve(s, id, p)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Release(w.now, id)
	return addr, g
}

// SetRapid sets a flag of rapid for the rest of the test, such as "steps", the mean number of steps of a history, or
// "checks", how many histories there are. A value that was given on the command line or in the environment stays. With
// -short, rapid runs a fifth of the histories, at least one, with half of the steps.
func SetRapid(t testing.TB, name, value string) {
	t.Helper()
	if n, err := strconv.Atoi(value); err == nil && name == "checks" && testing.Short() {
		value = strconv.Itoa(max(n, 5))
	}
	f := flag.Lookup("rapid." + name)
	if f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}
