package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// testPrefixNote: where a request was served in place of the chosen endpoint, its prompt is known from then on, for all owners.
func testPrefixNote(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	addrs := Addrs(4)
	plan := WithPrompt(Even(addrs), 1, Blocks(1, 2, 3))
	home := w.must(a, 1, plan)
	served := addrs[0]
	if served == home {
		served = addrs[1]
	}
	a.ForgetPrompt(w.now, 1, plan, home, 0)
	a.RecordPrompt(w.now, 1, plan, served)
	a.Release(w.now, 1)
	for id, s := range []lb.Store{a, b} {
		addr, g, err := w.reserve(s, lb.LeaseID(id+10), WithPrompt(Even(addrs), 1, Blocks(1, 2, 3, 4+uint64(id))))
		if err != nil || addr != served || g.Cached != 12 {
			t.Fatalf("the next turn goes to %s with %d blocks, %v; want %s with 12", addr, g.Cached, err, served)
		}
		s.Release(w.now, lb.LeaseID(id+10))
	}
	a.RecordPrompt(w.now, 1, Even(addrs), served) // no prompt, nothing to note
	a.RecordPrompt(w.now, 1, plan, "10.9.9.9:80")
	if addr, g, _ := w.reserve(b, 20, plan); addr != served || g.Cached != 12 {
		t.Errorf("goes to %s with %d blocks after another has been noted", addr, g.Cached)
	}
	b.Release(w.now, 20)
	w.want(addrs, 0, 0, 0, 0)
}

// testPrefixLess: what was noted for an endpoint counts for as long as the plan says of it, whatever it says of others.
func testPrefixLess(t *testing.T, w *world) {
	const age = 32 * time.Second
	s, addrs := w.NewOwner(), Addrs(3)
	cases := []struct {
		ttl  time.Duration
		less []time.Duration // of addrs[1] and addrs[2]
		want [3]bool
	}{
		{2 * age, nil, [3]bool{true, true, true}},
		{2 * age, []time.Duration{age / 2, age * 3 / 2}, [3]bool{true, false, true}},
		{2 * age, []time.Duration{0, age - 4*time.Second}, [3]bool{true, false, false}},
		{age / 2, []time.Duration{age / 4}, [3]bool{false, false, false}},
	}
	plan := func(number, endpoint int) *lb.Plan {
		p := WithPrompt(Even(addrs[endpoint:endpoint+1]), 1, Blocks(uint64(100*number+endpoint)))
		p.Prefix.TTL, p.Prefix.ShortTTL = cases[number].ttl, []lb.EndpointTTL{{Endpoint: 1, TTL: 0}}
		for k, keeps := range cases[number].less {
			p.Prefix.ShortTTL = append(p.Prefix.ShortTTL, lb.EndpointTTL{Endpoint: lb.EndpointTag(addrs[k+1]), TTL: keeps})
		}
		return p
	}
	for number := range cases {
		for i, addr := range addrs {
			s.RecordPrompt(w.now, 1, plan(number, i), addr)
		}
	}
	w.tick(age)
	for number, c := range cases {
		for i := range addrs {
			id := lb.LeaseID(10*number + i + 1)
			_, g, err := w.reserve(s, id, plan(number, i))
			if err != nil || (g.Cached > 0) != c.want[i] {
				t.Errorf("kept for %v, by two for %v: after %v endpoint %d has %d blocks, %v", c.ttl, c.less, age, i, g.Cached, err)
			}
			s.Release(w.now, id)
		}
	}
}

// testPrefixNone: a plan with a prompt that cannot be looked for is like one without. Nothing is found for it, and nothing noted.
func testPrefixNone(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	for i, spoil := range []func(p *lb.Prefix){
		func(p *lb.Prefix) { p.Blocks = nil },
		func(p *lb.Prefix) { p.Bytes = 0 },
		func(p *lb.Prefix) { p.Bytes = -1 },
		func(p *lb.Prefix) { p.TTL = 0 },
		func(p *lb.Prefix) { p.TTL = time.Millisecond - 1 },
		func(p *lb.Prefix) { p.TTL = -time.Hour },
	} {
		whole := WithPrompt(Even(addrs), 10, Blocks(uint64(i)))
		spoiled := *whole
		spoil(&spoiled.Prefix)
		for step, c := range []struct {
			plan *lb.Plan
			want int
		}{{&spoiled, 0}, {whole, 0}, {&spoiled, 0}, {whole, 4}} {
			id := lb.LeaseID(10*i + step + 1)
			addr, g, err := w.reserve(s, id, c.plan)
			if err != nil || g.Cached != c.want || g.Load != (lb.Load{Requests: 1, Tokens: c.plan.AddedTokens(c.want)}) {
				t.Errorf("plan %d, step %d: %+v, %v; want %d blocks", i, step, g, err, c.want)
			}
			if step == 0 {
				s.RecordPrompt(w.now, id, c.plan, addr)
			}
			s.Release(w.now, id)
		}
	}
	w.want(addrs, 0, 0)
}
