package placement

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// fleetOf returns idle engines, of which some have cached a prompt.
func fleetOf(t *testing.T, n int, prompt []engine.Part, cached ...int) (fleet []*engine.Engine) {
	t.Helper()
	for range n {
		fleet = append(fleet, engine.New(enginesim.Config{MaxQueued: -1}, enginesim.Times{}))
	}
	for _, i := range cached {
		if err := fleet[i].Add(&engine.Request{Prompt: prompt, Answer: 1}, 0); err != nil {
			t.Fatal(err)
		}
		for fleet[i].Begin(0); fleet[i].Ends() > 0; fleet[i].Begin(0) {
			fleet[i].Finish()
		}
	}
	return fleet
}

func prompt(name uint64, tokens int) []engine.Part {
	return []engine.Part{{Name: name, Tokens: tokens}}
}

// TestLMetric holds that the product decides: a cached prompt is worth so many requests more as it is longer.
func TestLMetric(t *testing.T) {
	p := prompt(1, 801)
	for _, tc := range []struct {
		n    []int
		want int
	}{
		{[]int{0, 0, 0}, 1},
		{[]int{0, 700, 0}, 1}, // 701 × 1 of 801 × 1: a token is always computed
		{[]int{0, 900, 3}, 0},
		{[]int{3, 900, 0}, 2},
	} {
		of := newLMetric(fleetOf(t, 3, p, 1), 1).(*lmetric)
		copy(of.n, tc.n)
		if got := of.Choose(0, &simulate.Request{Prompt: p}); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.n, got, tc.want)
		} else if of.n[got] != tc.n[got]+1 {
			t.Errorf("%v: it has %d then", tc.n, of.n[got])
		}
	}
}

// TestComingPrompts holds that a prompt counts as cached where it is about to be computed, and is forgotten when it is.
func TestComingPrompts(t *testing.T) {
	of := newCounter(fleetOf(t, 2, nil), 1)
	r := &simulate.Request{Prompt: append(prompt(1, 300), prompt(2, 200)...)} // chosen is the first engine
	other := append(prompt(1, 300), prompt(3, 500)...)
	if n := of.uncached(0, other); n != 800 {
		t.Errorf("%g tokens to compute", n)
	}
	of.count(r, 0)
	if n, elsewhere := of.uncached(0, other), of.uncached(1, other); n != 500 || elsewhere != 800 {
		t.Errorf("%g tokens to compute where the prompt comes, %g elsewhere", n, elsewhere)
	}
	if n := of.uncached(0, r.Prompt); n != 1 {
		t.Errorf("%g tokens of the same prompt", n)
	}
	again := *r
	of.count(&again, 0)
	of.First(0, r)
	if n := of.uncached(0, other); n != 500 {
		t.Errorf("%g tokens to compute while another is under way", n)
	}
	of.Last(0, &again) // it was refused
	of.Last(0, r)
	if n := of.uncached(0, other); n != 800 || of.n[0] != 0 || len(of.first)+len(of.coming[0]) != 0 {
		t.Errorf("%g tokens to compute at the end, %+v", n, of)
	}
}

// TestCacheAware holds the rule of the routers: the longest beginning, unless it is short or loads are far apart.
func TestCacheAware(t *testing.T) {
	of := newCacheAware(fleetOf(t, 3, nil), 1).(*cacheAware)
	known := []engine.Part{{Name: 1, Tokens: 300}, {Name: 2, Tokens: 300}}
	copy(of.n, []int{4, 0, 4})
	if at := of.Choose(0, &simulate.Request{Prompt: known, Name: 3}); at != 1 {
		t.Fatalf("a new prompt: %d, want the one with the fewest", at)
	}
	for _, tc := range []struct {
		name   string
		n      []int
		prompt []engine.Part
		want   int
	}{
		{"its continuation", []int{0, 9, 0}, append(known[:2:2], engine.Part{Name: 3, Tokens: 50}), 1},
		{"half of it", []int{0, 9, 9}, []engine.Part{known[0], {Name: 7, Tokens: 300}}, 1},
		{"a little of it", []int{9, 9, 0}, []engine.Part{known[0], {Name: 8, Tokens: 900}}, 2},
		{"far apart", []int{0, 65, 1}, known, 0},
		{"not far enough", []int{0, 64, 1}, known[:1], 0}, // where it has gone just now
	} {
		copy(of.n, tc.n)
		if at := of.Choose(0, &simulate.Request{Prompt: tc.prompt}); at != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, at, tc.want)
		}
	}
}

// TestPrefixHash holds that prompts with the same beginning go to the same engine, until that has too many.
func TestPrefixHash(t *testing.T) {
	of := newPrefixHash(fleetOf(t, 5, nil), 1).(*prefixHash)
	r := &simulate.Request{Prompt: append(prompt(1, 10), prompt(2, 10)...)}
	home := of.Choose(0, r)
	of.n[home] = 0
	next := of.Choose(0, &simulate.Request{Prompt: append(prompt(1, 10), prompt(3, 10)...)})
	if next != home {
		t.Errorf("%d, then %d", home, next)
	}
	for range 200 {
		of.Choose(0, r)
	}
	for i, n := range of.n {
		if most := 201.0 / 5 * boundedBy; float64(n) > most+1 {
			t.Errorf("engine %d has %d of 201", i, n)
		}
	}
	seen := map[int]bool{}
	for i := range uint64(100) {
		of.n = make([]int, 5)
		seen[of.Choose(0, &simulate.Request{Prompt: prompt(i+9, 10)})] = true
	}
	if len(seen) != 5 {
		t.Errorf("100 prompts went to %d engines", len(seen))
	}
}

// TestClairvoyant holds that each part of the latency that a request causes counts.
func TestClairvoyant(t *testing.T) {
	p := prompt(1, 800)
	fleet := fleetOf(t, 3, p, 1)
	of := newClairvoyant(fleet, 1)
	if at := of.Choose(0, &simulate.Request{Prompt: p, Answer: 9}); at != 1 {
		t.Errorf("a cached prompt: %d, want 1", at)
	}
	busy := func(e *engine.Engine, tokens, answer int) {
		if err := e.Add(&engine.Request{Prompt: prompt(99, tokens), Answer: answer}, 0); err != nil {
			t.Fatal(err)
		}
		e.Begin(0)
	}
	idle := causes(fleet[0], 500, 50)
	if more := causes(fleet[0], 501, 50); more <= idle {
		t.Errorf("one token more: %g, not above %g", more, idle)
	}
	if more := causes(fleet[0], 500, 51); more <= idle {
		t.Errorf("a longer answer: %g, not above %g", more, idle)
	}
	busy(fleet[0], 2000, 10)
	waits := causes(fleet[0], 500, 50)
	if waits < idle+2000*fleet[0].Times().PrefillTokenMS {
		t.Errorf("behind a prompt: %g, alone %g", waits, idle)
	}
	fleet[0].SetSpeed(time.Second, 2)
	if fast := causes(fleet[0], 500, 50); fast != waits/2 {
		t.Errorf("%g at twice the speed, else %g", fast, waits)
	}
	for range 16 {
		busy(fleet[2], 16, 100)
	}
	if full, one := causes(fleet[2], 1, 1), causes(fleet[1], 1, 1); full < 20*one {
		t.Errorf("without a slot %g, idle %g", full, one)
	}
}

// TestClairvoyantApart holds that requests which do not slow each other down cost nothing to each other, until no slot
// is free.
func TestClairvoyantApart(t *testing.T) {
	e := engine.New(enginesim.Config{MaxQueued: -1, MaxNumSeqs: 2, MaxBatchedTokens: 100}, enginesim.Times{})
	e.Apart()
	idle := causes(e, 500, 50)
	if longer := causes(e, 600, 50); longer <= idle {
		t.Errorf("a longer prompt: %g, not above %g", longer, idle)
	}
	for i := range uint64(2) {
		if got := causes(e, 500, 50); got != idle {
			t.Errorf("with %d others %g, idle %g", i, got, idle)
		}
		if err := e.Add(&engine.Request{Prompt: prompt(i+1, 500), Answer: 50}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if full := causes(e, 500, 50); full < idle+250 {
		t.Errorf("without a slot %g, idle %g", full, idle)
	}
}
