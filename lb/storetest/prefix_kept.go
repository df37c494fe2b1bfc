package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// testPrefixRecord: the endpoint that served a request in place of the chosen one is recorded to have the prompt, for
// all owners.
func testPrefixRecord(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	addrs := Addrs(4)
	plan := WithPrompt(Even(addrs), 1, Blocks(1, 2, 3))
	chosen := w.must(a, 1, plan)
	served := addrs[0]
	if served == chosen {
		served = addrs[1]
	}
	a.ForgetPrompt(w.now, 1, plan, chosen, 0)
	a.RecordPrompt(w.now, 1, plan, served)
	a.Release(w.now, 1)
	for id, s := range []lb.Store{a, b} {
		addr, g, err := w.reserve(s, lb.LeaseID(id+10), WithPrompt(Even(addrs), 1, Blocks(1, 2, 3, 4+uint64(id))))
		if err != nil || addr != served || g.Cached != 12 {
			t.Fatalf("the next turn goes to %s with %d blocks, %v; want %s with 12", addr, g.Cached, err, served)
		}
		s.Release(w.now, lb.LeaseID(id+10))
	}
	a.RecordPrompt(w.now, 1, Even(addrs), served) // no prompt, nothing to record
	a.RecordPrompt(w.now, 1, plan, "10.9.9.9:80")
	if addr, g, _ := w.reserve(b, 20, plan); addr != served || g.Cached != 12 {
		t.Errorf("goes to %s with %d blocks after another was recorded", addr, g.Cached)
	}
	b.Release(w.now, 20)
	w.want(addrs, 0, 0, 0, 0)
}

// testPrefixTTL: a recorded prompt matches for as long as the TTL that the plan has for its endpoint.
func testPrefixTTL(t *testing.T, w *world) {
	const age = 32 * time.Second
	s, addrs := w.NewOwner(), Addrs(3)
	cases := []struct {
		ttl   time.Duration
		short []time.Duration // TTLs of addrs[1] and addrs[2]
		want  [3]bool
	}{
		{2 * age, nil, [3]bool{true, true, true}},
		{2 * age, []time.Duration{age / 2, age * 3 / 2}, [3]bool{true, false, true}},
		{2 * age, []time.Duration{0, age - 4*time.Second}, [3]bool{true, false, false}},
		{age / 2, []time.Duration{age / 4}, [3]bool{false, false, false}},
	}
	plan := func(number, endpoint int) *lb.Plan {
		p := WithPrompt(Even(addrs[endpoint:endpoint+1]), 1, Blocks(uint64(100*number+endpoint)))
		p.Prefix.TTL, p.Prefix.ShortTTL = cases[number].ttl, []lb.EndpointTTL{{Endpoint: 1, TTL: 0}}
		for k, ttl := range cases[number].short {
			tag := lb.EndpointTag(addrs[k+1])
			p.Prefix.ShortTTL = append(p.Prefix.ShortTTL, lb.EndpointTTL{Endpoint: tag, TTL: ttl})
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
				t.Errorf("TTL %v, of two endpoints %v: after %v endpoint %d matches %d blocks, %v",
					c.ttl, c.short, age, i, g.Cached, err)
			}
			s.Release(w.now, id)
		}
	}
}

// testPrefixNone: a prompt that needs no lookup is as none: nothing matches it, and nothing is recorded.
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
			if err != nil || g.Cached != c.want ||
				g.Load != (lb.Load{Requests: 1, Tokens: c.plan.AddedTokens(c.want)}) {
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
