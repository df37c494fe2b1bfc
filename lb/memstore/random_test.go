package memstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// Owners interrupt each other at any read and write, some die at any write, and there are more scopes than slots. Once
// all live owners have sent heartbeats, the load of each scope is what they hold there.
func TestRandomSlots(t *testing.T) {
	for seed := range uint64(5) {
		r := &randomSlots{slots: newSlots(t), rand: rand.New(rand.NewPCG(seed, 1)), busy: map[*life]bool{}}
		r.fill()
		for range 5 {
			r.lives = append(r.lives, &life{Store: r.NewStore(), held: map[lb.LeaseID]string{}})
		}
		r.OnGet = func(string) { r.interrupt(400) }
		r.OnSet = func(key string) {
			if key == "warmgate/4/taking" || strings.Contains(key, "/table/") {
				r.interrupt(4)
			}
		}
		for range 1500 {
			r.act(0)
		}
		r.OnGet, r.OnSet = nil, nil
		r.settle()
		r.check()
		if r.depth < 2 || r.deaths == 0 {
			t.Fatalf("nothing was tested: depth %d, %d deaths", r.depth, r.deaths)
		}
		for _, l := range r.lives {
			for id, scope := range l.held {
				r.release(l.Store, scope, id)
			}
		}
		r.settle()
		r.check()
	}
}

type life struct {
	*memstore.Store
	held map[lb.LeaseID]string
}

type randomSlots struct {
	*slots
	rand          *rand.Rand
	lives         []*life
	busy          map[*life]bool // those in the middle of a call
	level         int
	scope         string // of the last reservation
	depth, deaths int
}

// interrupt lets other owners act before one reads or writes, in one of rare calls.
func (r *randomSlots) interrupt(rare int) {
	const maxLevel = 3
	if r.level >= maxLevel || r.rand.IntN(rare) > 0 {
		return
	}
	r.level++
	r.depth = max(r.depth, r.level)
	for range 1 + r.rand.IntN(3) {
		r.act(r.level)
	}
	r.level--
}

func (r *randomSlots) act(level int) {
	l := r.lives[r.rand.IntN(len(r.lives))]
	if r.busy[l] {
		return
	}
	r.busy[l] = true
	defer delete(r.busy, l)
	if level == 0 && r.rand.IntN(100) == 0 {
		r.die(l)
		return
	}
	if r.rand.IntN(3) == 0 {
		l.Busy() // its releases wait
	}
	switch k := r.rand.IntN(10); {
	case k < 5 && len(l.held) < 20:
		if level == 0 || r.rand.IntN(2) == 0 { // else the scope that another owner is using
			r.scope = fmt.Sprintf("scope-%d", r.rand.IntN(300))
		}
		r.next++
		id, scope := r.next, r.scope
		l.Reserve(r.now, id, planFor(scope), func(_ lb.Grant, err error) {
			if err == nil {
				l.held[id] = scope
				r.held[scope]++
			} else if !errors.Is(err, lb.ErrContended) {
				r.t.Fatalf("reserving at %s: %v", scope, err)
			}
		})
	case k < 8:
		for id, scope := range l.held {
			delete(l.held, id)
			r.release(l.Store, scope, id)
			break
		}
	case level == 0:
		r.now += 200 * time.Millisecond
		if err := l.Heartbeat(r.now); err != nil {
			r.t.Fatal(err)
		}
	}
}

// die ends an owner at one of its next writes and adds a new owner.
func (r *randomSlots) die(l *life) {
	left := r.rand.IntN(4)
	r.SetErr = func(string) error {
		if left--; left < 0 {
			panic("dead")
		}
		return nil
	}
	onGet, onSet := r.OnGet, r.OnSet
	r.OnGet, r.OnSet = nil, nil // no other owner dies with it
	func() {
		defer func() { _ = recover() }()
		for i := range lb.LeaseID(4) {
			l.Reserve(r.now, 1<<50+i, planFor(fmt.Sprintf("scope-%d", r.rand.IntN(300))), func(lb.Grant, error) {})
		}
	}()
	r.SetErr, r.OnGet, r.OnSet = nil, onGet, onSet
	for _, scope := range l.held {
		r.held[scope]--
	}
	for i := range r.lives {
		if r.lives[i] == l {
			r.lives[i] = &life{Store: r.NewStore(), held: map[lb.LeaseID]string{}}
		}
	}
	r.deaths++
}

// settle sends heartbeats until the leases of the dead are returned.
func (r *randomSlots) settle() {
	for range 8 {
		r.now += time.Second
		for _, l := range r.lives {
			if err := l.Heartbeat(r.now); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}
