package topnames

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// flooded returns names after 100,000 made-up ones were each used so often, with what happens between them.
func flooded(each int, between func(n *Names, i int)) *Names {
	n := New(32, 32)
	for i := range 100_000 {
		for range each {
			n.Use("made-up-"+strconv.Itoa(i), true)
		}
		between(n, i)
	}
	return n
}

// A flood of names takes the first labels at most, and real names that come late have theirs all the same.
func TestFloods(t *testing.T) {
	for name, c := range map[string]struct {
		each    int
		between func(n *Names, i int)
		labels  int // how many names have one
		real    []string
	}{
		"each once":      {1, func(*Names, int) {}, 32, nil},
		"each ten times": {10, func(*Names, int) {}, 32, nil},
		"each ten times, many at a time": {0, func(n *Names, i int) {
			for j := range 10 {
				n.Use("again-"+strconv.Itoa(i/1000*1000+(i+j*97)%1000), true)
			}
		}, 32, nil},
		"a real one is one of 45": {1, func(n *Names, i int) {
			if i > 50_000 && i%44 == 0 {
				n.Use("real", true)
			}
		}, 33, []string{"real"}},
		"ten real ones, each made-up one ten times": {10, func(n *Names, i int) {
			for j := range 10 {
				if i > 50_000 {
					n.Use("real-"+strconv.Itoa(j), true)
				}
			}
		}, 42, []string{"real-0", "real-9"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := flooded(c.each, c.between)
			if len(n.own) != c.labels {
				t.Errorf("%d names have labels, want %d", len(n.own), c.labels)
			}
			for _, r := range c.real {
				if n.Label(r) != r {
					t.Errorf("%s has none", r)
				}
			}
		})
	}
}

// Names for which no server has answered, and such as can be no label, have none; pinned ones always.
func TestWhoHasALabel(t *testing.T) {
	n := New(2, 1)
	n.Pin([]string{"priced", "bad\n"})
	for i := range 1000 {
		n.Use("unanswered-"+strconv.Itoa(i%3), false)
	}
	for _, bad := range []string{"", Other, "a\"b", "a\\b", "a\nb", "\xff", "bad\n", strings.Repeat("x", MaxLength+1)} {
		if n.Use(bad, true) {
			t.Errorf("%q has a label", bad)
		}
	}
	if n.Label("priced") != "priced" || !n.Use("priced", false) || !n.IsPinned("priced") || n.IsPinned("bad\n") {
		t.Error("the pinned name has no label, or a bad one has")
	}
	for _, name := range []string{"qwen/qwen3-8b", "通义千问"} {
		if n.Label(name) != Other || !n.Use(name, true) || n.Label(name) != name {
			t.Errorf("%s has no label, though it is one of the first", name)
		}
	}
	for i := 1; i <= Much; i++ {
		if own := n.Use("late", true); own != (i == Much) {
			t.Fatalf("after %d uses: %v", i, own)
		}
	}
	for range 10 * Much {
		if n.Use("later", true) {
			t.Fatal("there is a label too many")
		}
	}
	n.Pin(nil)
	if n.Label("priced") != "priced" {
		t.Error("a name has lost its label")
	}
}

// Counts are never too high, and too low by what the algorithm and the window cost at most; the number of names that
// are kept is bounded, and one with a label keeps it.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, more := rapid.IntRange(0, 3).Draw(t, "first"), rapid.IntRange(0, 3).Draw(t, "more")
		n := New(first, more)
		names := rapid.IntRange(1, 400).Draw(t, "names")
		skew := rapid.IntRange(1, 4).Draw(t, "skew")
		used, had := map[string]int{}, map[string]bool{}
		seed := rapid.Uint32().Draw(t, "seed")
		for range rapid.IntRange(0, 3*window).Draw(t, "uses") {
			at := names
			for range skew {
				seed = seed*1664525 + 1013904223
				at = int(uint64(seed) * uint64(at) >> 32)
			}
			name := "n" + strconv.Itoa(at)
			used[name]++
			own := n.Use(name, true)
			if had[name] && !own {
				t.Fatalf("%s has lost its label", name)
			}
			had[name] = own
		}
		if len(n.own) > first+more || len(n.counts) > counters || len(n.at) != len(n.counts) {
			t.Fatalf("%d labels, %d counts, %d places", len(n.own), len(n.counts), len(n.at))
		}
		for i, c := range n.counts {
			if n.at[c.name] != i || c.over < 0 || c.n-c.over > used[c.name] {
				t.Fatalf("%+v at %d of %d uses", c, i, used[c.name])
			}
		}
	})
}

func BenchmarkUse(b *testing.B) {
	names := make([]string, 100_000)
	for i := range names {
		names[i] = "made-up-" + strconv.Itoa(i)
	}
	n := New(32, 32)
	b.ReportAllocs()
	for i := range b.N {
		n.Use(names[i%len(names)], true)
	}
}
