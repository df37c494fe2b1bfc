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
		addr, g := w.visit(s, lb.LeaseID(id+10), WithPrompt(Even(addrs), 1, Blocks(1, 2, 3, 4+uint64(id))))
		if addr != served || g.Cached != 12 {
			t.Fatalf("the next turn goes to %s with %d blocks; want %s with 12", addr, g.Cached, served)
		}
	}
	a.RecordPrompt(w.now, 1, Even(addrs), served) // no prompt, nothing to record
	a.RecordPrompt(w.now, 1, plan, "10.9.9.9:80")
	if addr, g := w.visit(b, 20, plan); addr != served || g.Cached != 12 {
		t.Errorf("goes to %s with %d blocks after another was recorded", addr, g.Cached)
	}
	w.want(addrs, 0, 0, 0, 0)
}

// ttlAge is the age at which testPrefixTTL looks up what was recorded.
const ttlAge = 32 * time.Second

// ttlCases have, of three endpoints, whether a prompt of that age still matches.
var ttlCases = []struct {
	ttl   time.Duration
	short []time.Duration // TTLs of the second endpoint and of the third
	want  [3]bool
}{
	{2 * ttlAge, nil, [3]bool{true, true, true}},
	{2 * ttlAge, []time.Duration{ttlAge / 2, ttlAge * 3 / 2}, [3]bool{true, false, true}},
	{2 * ttlAge, []time.Duration{0, ttlAge - 4*time.Second}, [3]bool{true, false, false}},
	{ttlAge / 2, []time.Duration{ttlAge / 4}, [3]bool{false, false, false}},
}

// ttlPlan is the plan of a case for one of the endpoints, with a prompt of its own.
func ttlPlan(addrs []string, number, endpoint int) *lb.Plan {
	p := WithPrompt(Even(addrs[endpoint:endpoint+1]), 1, Blocks(uint64(100*number+endpoint)))
	p.Prefix.TTL, p.Prefix.ShortTTL = ttlCases[number].ttl, []lb.EndpointTTL{{Endpoint: 1, TTL: 0}}
	for k, ttl := range ttlCases[number].short {
		tag := lb.EndpointTag(addrs[k+1])
		p.Prefix.ShortTTL = append(p.Prefix.ShortTTL, lb.EndpointTTL{Endpoint: tag, TTL: ttl})
	}
	return p
}

// testPrefixTTL: a recorded prompt matches for as long as the TTL that the plan has for its endpoint.
func testPrefixTTL(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	for number := range ttlCases {
		for i, addr := range addrs {
			s.RecordPrompt(w.now, 1, ttlPlan(addrs, number, i), addr)
		}
	}
	w.tick(ttlAge)
	for number, c := range ttlCases {
		for i := range addrs {
			if _, g := w.visit(s, lb.LeaseID(10*number+i+1), ttlPlan(addrs, number, i)); (g.Cached > 0) != c.want[i] {
				t.Errorf("TTL %v, of two endpoints %v: after %v endpoint %d matches %d blocks",
					c.ttl, c.short, ttlAge, i, g.Cached)
			}
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
