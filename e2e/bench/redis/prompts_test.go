package redis

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/redisserver"
)

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
