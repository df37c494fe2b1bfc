package redis

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

// tiny settings make every measurement once, in well under a second.
func tiny(endpoints ...int) settings {
	return settings{
		Settings: bench.Settings{Rounds: 1}, endpoints: endpoints, prompts: []int{5, 64}, turns: []int{1024},
		few: 8, owners: 3, depth: 4, held: 2, kinds: 2, calls: 1, room: 1 << 18,
		span: 20 * time.Millisecond, rate: 100, dead: 3, leases: 300,
	}
}

func newStage(t *testing.T, server *redisserver.Server, c contender, s settings) *stage {
	t.Helper()
	st, err := start(s, server, c, s.endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.close() })
	return st
}

// TestContendersAreLeastRequest plays random reservations and releases on every contender and compares each choice with
// a model.
func TestContendersAreLeastRequest(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			const endpoints = 7
			st := newStage(t, server, c, tiny(endpoints))
			random := rand.New(rand.NewPCG(1, 2))
			model := map[string]int64{}
			for step := range 400 {
				owner := st.clients[random.IntN(len(st.clients))]
				give := owner.inFlight() > 0 && random.IntN(5) < 2
				if give {
					owner.release()
				} else {
					owner.reserve()
				}
				if err := owner.settle(); err != nil {
					t.Fatal(err)
				}
				loads, err := c.loads(server, endpoints)
				if err != nil {
					t.Fatal(err)
				}
				if err := lawful(model, loads, addresses(endpoints), give); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				model = loads
			}
			if err := st.drain(); err != nil {
				t.Error(err)
			}
		})
	}
}

// lawful returns an error unless one request may change the loads from before to after: a reservation goes to an
// endpoint that has the fewest.
func lawful(before, after map[string]int64, endpoints []string, give bool) error {
	least := before[endpoints[0]]
	for _, addr := range endpoints {
		least = min(least, before[addr])
	}
	changed := 0
	for _, addr := range endpoints {
		switch after[addr] - before[addr] {
		case 0:
		case 1:
			changed++
			if give || before[addr] != least {
				return fmt.Errorf("counted a request at %s, from %v to %v", addr, before, after)
			}
		case -1:
			changed++
			if !give {
				return fmt.Errorf("gave back a request at %s, from %v to %v", addr, before, after)
			}
		default:
			return fmt.Errorf("from %v to %v in one step", before, after)
		}
	}
	if changed != 1 {
		return fmt.Errorf("%d loads changed, from %v to %v", changed, before, after)
	}
	return nil
}

func TestLawful(t *testing.T) {
	ends := []string{"a", "b"}
	type loads = map[string]int64
	for _, c := range []struct {
		before, after loads
		give, want    bool
	}{
		{loads{}, loads{"a": 1}, false, true},
		{loads{"a": 1}, loads{"a": 1, "b": 1}, false, true},
		{loads{"a": 1}, loads{}, true, true},
		{loads{"a": 1}, loads{"a": 2}, false, false},
		{loads{"a": 1}, loads{"a": 1}, false, false},
		{loads{"a": 1}, loads{}, false, false},
		{loads{}, loads{"a": 1}, true, false},
		{loads{}, loads{"a": 1, "b": 1}, false, false},
		{loads{}, loads{"a": 2}, false, false},
	} {
		if err := lawful(c.before, c.after, ends, c.give); (err == nil) != c.want {
			t.Errorf("from %v to %v, give %v: %v", c.before, c.after, c.give, err)
		}
	}
}

// TestTiesAreDrawn checks that an idle cluster's first request may go anywhere.
func TestTiesAreDrawn(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, c := range contenders {
		st := newStage(t, server, c, tiny(4))
		first := map[string]int{}
		for range 200 {
			st.clients[0].reserve()
			if err := st.clients[0].settle(); err != nil {
				t.Fatal(err)
			}
			loads, err := c.loads(server, 4)
			if err != nil {
				t.Fatal(err)
			}
			for addr, n := range loads {
				first[addr] += int(n)
			}
			if err := st.drain(); err != nil {
				t.Fatal(err)
			}
		}
		if len(first) != 4 {
			t.Errorf("%s: an idle cluster's first request always went to %v", c.name, first)
		}
		for addr, n := range first {
			if n == 0 {
				t.Errorf("%s: %s never had an idle cluster's first request", c.name, addr)
			}
		}
	}
}

// TestMiscountsAreFound: a run in which Redis does not count what is in flight is no measurement.
func TestMiscountsAreFound(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	st := newStage(t, server, contenders[1], tiny(3))
	if err := st.warm(); err != nil {
		t.Fatal(err)
	}
	key := evalsha + ":" + clusterName(3)
	if _, err := server.Do("HINCRBY", key, addresses(3)[1], 1); err != nil {
		t.Fatal(err)
	}
	if err := st.drain(); err == nil || !strings.Contains(err.Error(), "want 0") {
		t.Errorf("a request too many: %v", err)
	}
	if err := st.fill(); err == nil || !strings.Contains(err.Error(), "want 2") {
		t.Errorf("uneven counts: %v", err)
	}
	if _, err := server.Do("DEL", key); err != nil {
		t.Fatal(err)
	}
	if err := st.drain(); err == nil || !strings.Contains(err.Error(), "in flight at") {
		t.Errorf("counts lost: %v", err)
	}
}

func TestTimedCountsCommands(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	set := func() error {
		_, err := server.Do("SET", "x", 1)
		return err
	}
	st := &stage{server: server}
	if took, err := st.timed(1, set, "set", "incr"); err != nil || took < 0 || took > 1e6 {
		t.Errorf("%v µs, %v", took, err)
	}
	if _, err := st.timed(2, set, "set"); err == nil {
		t.Error("a command that was not carried out was counted")
	}
}

func TestClientsReportRefusals(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	if _, err := server.Do("ACL", "SETUSER", "default", "-evalsha", "-eval"); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		st := newStage(t, server, c, tiny(3))
		st.clients[0].reserve()
		if err := st.clients[0].settle(); err == nil || st.clients[0].inFlight() != 0 {
			t.Errorf("%s: %v, %d in flight", c.name, err, st.clients[0].inFlight())
		}
	}
}

func TestAddresses(t *testing.T) {
	all := addresses(300)
	slices.Sort(all)
	if len(slices.Compact(all)) != 300 {
		t.Error("addresses are not unique")
	}
}

// TestPromptsStay: a prompt of which nothing is known goes to an endpoint with the fewest requests, and one that begins
// as another did goes where that one went.
func TestPromptsStay(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, c := range promptContenders(6) {
		t.Run(c.name, func(t *testing.T) {
			st := newStage(t, server, c, tiny(promptEndpoints))
			home := map[int]string{}
			for i, client := range append(slices.Clone(st.clients), st.clients...) {
				before, err := c.loads(server, promptEndpoints)
				if err != nil {
					t.Fatal(err)
				}
				client.reserve()
				if err := client.settle(); err != nil {
					t.Fatal(err)
				}
				after, err := c.loads(server, promptEndpoints)
				if err != nil {
					t.Fatal(err)
				}
				went := ""
				for addr, n := range after {
					if n > before[addr] {
						went = addr
					}
				}
				if i < len(st.clients) {
					if before[went] != 0 {
						t.Errorf("a new prompt went to %s, which had %d requests", went, before[went])
					}
					home[i] = went
				} else if first := home[i-len(st.clients)]; went != first {
					t.Errorf("a prompt went on at %s, it began at %s", went, first)
				}
			}
			if err := st.drain(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestXOR compares the keys of prompt_xor.lua with those computed in Go.
func TestXOR(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	digests := newPrompts(9).digests()
	args := []any{"EVAL", luaPromptXOR, 1, "counts", 60, 1, "10.0.0.1:80"}
	sum := make([]byte, 20)
	for _, d := range digests {
		args = append(args, d)
	}
	if _, err := server.Do(args...); err != nil {
		t.Fatal(err)
	}
	for i, d := range digests {
		raw, err := hex.DecodeString(d)
		if err != nil || len(raw) != len(sum) {
			t.Fatalf("digest %q: %v", d, err)
		}
		for k := range sum {
			sum[k] ^= raw[k]
		}
		got, err := server.Do("GET", hex.EncodeToString(sum))
		if err != nil || got.String() != "10.0.0.1:80" {
			t.Errorf("block %d: %q, %v", i, got.String(), err)
		}
	}
}

// TestPrompts: by turns all of a prompt is new, and only its last block.
func TestPrompts(t *testing.T) {
	for _, n := range []int{1, 2, 64} {
		p := newPrompts(n)
		for range 4 {
			before := slices.Clone(p.next())
			again := slices.Clone(p.next())
			if !slices.Equal(before[:n-1], again[:n-1]) || before[n-1] == again[n-1] || again[n-1].End != n*blockBytes {
				t.Fatalf("%v goes on as %v", before, again)
			}
			if other := p.next(); other[0].Key == again[0].Key || len(other) != n {
				t.Fatalf("after %v comes %v", again, other)
			}
			p.next()
		}
	}
}
