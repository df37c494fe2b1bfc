package redisclient_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prefixindex"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// numberedBlocks returns n blocks of a prompt, 100 bytes each.
func numberedBlocks(n int, first uint64) []prompt.Block {
	out := make([]prompt.Block, n)
	for i := range out {
		out[i] = prompt.Block{Key: (first + uint64(i)) * 0x9e3779b97f4a7c15 >> 8, End: 100 * (i + 1)}
	}
	return out
}

// grantedTo reserves and expects a grant.
func grantedTo(t testing.TB, s lb.Store, id lb.LeaseID, plan *lb.Plan) (addr string, g lb.Grant) {
	t.Helper()
	s.Reserve(0, id, plan, func(got lb.Grant, err error) {
		if err != nil {
			t.Fatalf("reservation %d: %v", id, err)
		}
		g, addr = got, plan.Candidates[got.Index].Addr
	})
	return addr, g
}

// cachedBlocks reserves and releases, and returns how many blocks were cached.
func cachedBlocks(t testing.TB, s lb.Store, id lb.LeaseID, plan *lb.Plan) int {
	t.Helper()
	_, g := grantedTo(t, s, id, plan)
	s.Release(0, id)
	return g.Cached
}

// onEachVersion runs a test with a store on each version of the server.
func onEachVersion(t *testing.T, test func(t *testing.T, w *syncTransport, s *redisclient.Store)) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			w := dial(t, redisserver.StartT(t, redisserver.Options{Version: version}))
			test(t, w, newManualStore(w, newMemory()))
		})
	}
}

// pageKeys returns the keys of all pages: one for each number of pages.
func (w *syncTransport) pageKeys() (keys []string) {
	for _, key := range w.value("KEYS", redisclient.KeysOf("llm").Pages+"*").Items {
		keys = append(keys, string(key.Str))
	}
	return keys
}

// pageCount returns how many pages there are.
func (w *syncTransport) pageCount() (n int) {
	for _, key := range w.pageKeys() {
		n += int(w.value("HLEN", key).Int)
	}
	return n
}

// A plan without blocks, or with a TTL below 1 ms, is like one without a prompt.
func TestNothingToLookFor(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		for i, spoil := range []func(p *lb.Prefix){
			func(p *lb.Prefix) { p.Blocks = nil },
			func(p *lb.Prefix) { p.Bytes = 0 },
			func(p *lb.Prefix) { p.TTL = 0 },
			func(p *lb.Prefix) { p.TTL = time.Millisecond - 1 },
			func(p *lb.Prefix) { p.TTL = -time.Hour },
		} {
			plan := storetest.WithPrompt(manualPlan, 1, numberedBlocks(3, 1))
			spoil(&plan.Prefix)
			if n := cachedBlocks(t, s, lb.LeaseID(i), plan); n != 0 || w.pageCount() > 0 {
				t.Errorf("plan %d: %d blocks, %d pages", i, n, w.pageCount())
			}
		}
		before := w.sent
		s.ForgetPrompt(0, 1, manualPlan, manualPlan.Candidates[0].Addr, 0)
		plan := storetest.WithPrompt(manualPlan, 1, numberedBlocks(3, 1))
		s.ForgetPrompt(0, 1, plan, manualPlan.Candidates[0].Addr, 3)
		if w.sent != before {
			t.Error("forgetting nothing sends something")
		}
	})
}

// Many equal prompts that two gateways receive at once go to one endpoint as long as waiting there costs less than the
// credit, and then evenly to all endpoints that have the prompt by then.
func TestBurst(t *testing.T) {
	const endpoints, worth = 4, 12
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			pipe := newBatchTransport(t, server)
			var owners []*redisclient.Store
			for owner := range uint64(2) {
				owners = append(owners, redisclient.New(pipe, redisclient.Options{
					Owner: owner + 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory(),
				}))
				loadScripts(dial(t, server))
			}
			plan := storetest.WithPrompt(storetest.Even(storetest.Addrs(endpoints)), 0, numberedBlocks(10, 1))
			plan.Unit, plan.Prefix.Credit = lb.Requests, worth
			var went []string
			cached := 0
			send := func(n int) {
				for i := range n {
					plan.Random = rand.Uint64()
					id := lb.LeaseID(len(went) + i)
					owners[i%2].Reserve(0, id, plan, func(g lb.Grant, err error) {
						if err != nil {
							t.Fatal(err)
						}
						went = append(went, plan.Candidates[g.Index].Addr)
						if g.Cached == 10 {
							cached++
						}
					})
				}
				pipe.flush(0)
			}
			send(worth)
			if len(slices.Compact(slices.Clone(went))) != 1 || cached != worth-1 {
				t.Fatalf("%d equal prompts went to %v, %d of them to what had it", worth, went, cached)
			}
			send(endpoints*worth*2 - worth)
			count := map[string]int{}
			for _, addr := range went {
				count[addr]++
			}
			for addr, n := range count {
				if n < worth || n > 3*worth {
					t.Errorf("%s has %d of %d equal prompts", addr, n, len(went))
				}
			}
			if len(count) != endpoints || cached < len(went)-endpoints {
				t.Errorf("prompts went to %v, %d of %d to what had them", count, cached, len(went))
			}
		})
	}
}

// A reservation that is sent again is unchanged, whatever the caller has done with its blocks since.
func TestBlocksAreTheCallers(t *testing.T) {
	var m manualTransport
	s := newManualStore(&m, newMemory())
	blocks := numberedBlocks(5, 1)
	plan := storetest.WithPrompt(manualPlan, 1, blocks)
	r := &result{}
	s.Reserve(0, 1, plan, r.set)
	clear(blocks)
	m.answer(0, 0, ":1\r\n")
	m.answer(0, 1, "*1\r\n:-3\r\n")
	if len(m.cmds) != 4 || string(m.cmds[3]) != string(m.cmds[1]) {
		t.Fatalf("sent\n%q", m.cmds)
	}
	m.answer(0, 3, promptReply(1, 1, 7, 3, 7))
	r.want(t, "granted 1")
	if want := (lb.Grant{Index: 1, Load: lb.Load{Requests: 1, Tokens: 7}, Cached: 3}); r.grant != want {
		t.Errorf("%+v, want %+v", r.grant, want)
	}
	again := &result{}
	s.Reserve(0, 1, plan, again.set)
	if again.grant != r.grant {
		t.Errorf("the same lease is granted %+v, was %+v", again.grant, r.grant)
	}
}

// A reply that the script cannot return is garbage.
func TestUnreadableAnswersToPrompts(t *testing.T) {
	for _, reply := range []string{
		grantReply, "*5\r\n:0\r\n:1\r\n:1\r\n:1\r\n:1\r\n", promptReply(0, 1, 1, 129, 1),
		promptReply(0, 1, 1<<63, 1, 1), promptReply(2, 1, 1, 1, 1), "$-1\r\n", "$0\r\n\r\n",
	} {
		var m manualTransport
		s := newOpenedStore(t, &m, &m, newMemory())
		r := &result{}
		s.Reserve(0, 1, storetest.WithPrompt(manualPlan, 1, numberedBlocks(3, 1)), r.set)
		m.answer(0, 0, reply)
		r.want(t, "garbage")
		if len(m.sent) != 2 {
			t.Errorf("%q: nothing is released, sent was %s", reply, strings.Join(m.sent, " "))
		}
	}
}

// Redis that is out of memory refuses a reservation before anything is counted or recorded. Forgetting a prompt still
// works.
func TestPromptsOutOfMemory(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 100, numberedBlocks(10, 1))
		only := func(i int) *lb.Plan {
			p := *plan
			p.Candidates = plan.Candidates[i : i+1]
			return &p
		}
		home, _ := grantedTo(t, s, 1, only(0))
		cachedBlocks(t, s, 4, only(1)) // so that something is left to write when the other is forgotten
		before, pages := nonZero(w.loads("llm")), w.pageCount()
		w.value("CONFIG", "SET", "maxmemory", "1")
		r := &result{}
		s.Reserve(0, 2, storetest.WithPrompt(manualPlan, 1, numberedBlocks(30, 100)), r.set)
		r.want(t, "oom")
		wantLoads(t, w, before)
		if n := w.pageCount(); n != pages {
			t.Errorf("%d pages, were %d", n, pages)
		}
		s.ForgetPrompt(0, 1, plan, home, 0)
		w.value("CONFIG", "SET", "maxmemory", "0")
		if n := cachedBlocks(t, s, 3, only(0)); n != 0 {
			t.Errorf("%d blocks of what was forgotten", n)
		}
		if !s.Ready(0) {
			t.Error("the breaker is open")
		}
	})
}

// A repeated command has the same reply as the first one, and records nothing again.
func TestPromptIsReservedOnce(t *testing.T) {
	onEachVersion(t, func(t *testing.T, w *syncTransport, s *redisclient.Store) {
		plan := storetest.WithPrompt(manualPlan, 100, numberedBlocks(10, 1))
		cachedBlocks(t, s, 1, plan)
		var cmd []byte
		w.fate = func(c []byte) int {
			cmd = slices.Clone(c)
			return arrives
		}
		home, g := grantedTo(t, s, 2, plan)
		w.fate = nil
		first, second := string(w.roundTrip(cmd)), string(w.roundTrip(cmd))
		want := promptReply(uint16(g.Index), 1, uint64(g.Load.Tokens), 10, uint32(g.Load.Tokens))
		if first != want || second != want {
			t.Errorf("repeated at %s: %q, %q; want %q", home, first, second, want)
		}
		wantLoads(t, w, map[string]lb.Load{home: {Requests: 1, Tokens: plan.AddedTokens(10)}})
	})
}

// A block needs 32 bytes in a page. Two fifths of the space are not counted on, and a page needs some bytes to be
// found.
func TestIndexBlocks(t *testing.T) {
	const bytes = 64 << 20
	if got := redisclient.IndexBlocks(bytes); got >= bytes/32 || got < bytes/58 {
		t.Errorf("%d blocks", got)
	}
	if got, want := redisclient.IndexBlocks(0), prefixindex.Blocks(0); got != want || got == 0 {
		t.Errorf("%d blocks without room, want %d", got, want)
	}
}

// Commands of one lease are carried out in their order, also when Redis first hears of one of them: a record that came
// behind its deletion would stay.
func TestPromptForgottenAtFirstUse(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	p := newBatchTransport(t, server)
	s := newStore(p, 1, time.Second)
	plan := storetest.WithPrompt(storetest.Even(storetest.Addrs(1)), 1, storetest.Blocks(3))
	addr := mustReserve(t, s, p, 0, 1, plan)
	s.ForgetPrompt(0, 1, plan, addr, 0) // from now on, this script is known
	p.flush(0)
	s.RecordPrompt(0, 1, plan, addr)
	s.ForgetPrompt(0, 1, plan, addr, 0)
	s.Release(0, 1)
	p.flush(0)
	s.Reserve(0, 2, plan, func(g lb.Grant, err error) {
		if err != nil || g.Cached != 0 {
			t.Errorf("%d blocks are assumed to be cached, %v; want none", g.Cached, err)
		}
	})
	p.flush(0)
}
