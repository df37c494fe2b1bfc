package lb_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

func listOf(cs ...lb.Candidate) lb.List { return lb.NewList(cs) }

func candidate(base, slope, weight float64, limit int64) lb.Candidate {
	return lb.Candidate{Base: base, Slope: slope, Weight: weight, Cap: limit}
}

var chooseCases = []struct {
	name   string
	plan   lb.Plan
	loads  []lb.Load
	want   int
	during string
}{
	{"none", lb.Plan{}, nil, lb.Full, ""},
	{"the only one", lb.Plan{List: listOf(candidate(0, 1, 1, 0))}, []lb.Load{{Requests: 99}}, 0, ""},
	{
		"least requests",
		lb.Plan{List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 1, 0), candidate(0, 1, 1, 0))},
		[]lb.Load{{Requests: 3}, {Requests: 1}, {Requests: 2}},
		1, "",
	},
	{
		"idle and bigger wins",
		lb.Plan{List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 2, 0))},
		[]lb.Load{{}, {}},
		1, "the request itself counts",
	},
	{
		"weight shares load",
		lb.Plan{List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 4, 0))},
		[]lb.Load{{Requests: 1}, {Requests: 6}},
		1, "2/1 against 7/4",
	},
	{
		"tokens, not requests",
		lb.Plan{Unit: lb.Tokens, Tokens: 100, List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 1, 0))},
		[]lb.Load{{Requests: 1, Tokens: 5000}, {Requests: 9, Tokens: 900}},
		1, "",
	},
	{
		"a big request prefers the bigger endpoint",
		lb.Plan{
			Unit: lb.Tokens, Tokens: 8000, List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 4, 0)),
		},
		[]lb.Load{{}, {Tokens: 20000}},
		1, "8000/1 against 28000/4",
	},
	{
		"rather busy than waiting",
		lb.Plan{List: lb.NewList([]lb.Candidate{
			{Slope: 1, Weight: 1, Capacity: 4, OverSlope: 3},
			{Slope: 1, Weight: 1, Capacity: 20, OverSlope: 3},
		})},
		[]lb.Load{{Requests: 4}, {Requests: 6}},
		1, "5+3*1 against 7",
	},
	{
		"one giant prompt leaves the slots beside it free",
		lb.Plan{Unit: lb.Tokens, Tokens: 100, List: lb.NewList([]lb.Candidate{
			{Slope: 1, Weight: 1, Capacity: 8, OverSlope: 20000},
			{Slope: 1, Weight: 1, Capacity: 8, OverSlope: 20000},
		})},
		[]lb.Load{{Requests: 1, Tokens: 19000}, {Requests: 8, Tokens: 800}},
		0, "19100 against 900+20000*1",
	},
	{
		"among those that wait the shortest queue",
		lb.Plan{List: lb.NewList([]lb.Candidate{
			{Slope: 1, Weight: 1, Capacity: 4, OverSlope: 3},
			{Slope: 1, Weight: 1, Capacity: 6, OverSlope: 3},
		})},
		[]lb.Load{{Requests: 7}, {Requests: 8}},
		1, "8+3*4 against 9+3*3",
	},
	{
		"base cost",
		lb.Plan{List: listOf(candidate(5, 1, 1, 0), candidate(0, 1, 1, 0))},
		[]lb.Load{{}, {Requests: 4}},
		1, "",
	},
	{
		"full ones are out",
		lb.Plan{List: listOf(candidate(0, 1, 1, 1), candidate(0, 1, 1, 9))},
		[]lb.Load{{Requests: 1}, {Requests: 8}},
		1, "",
	},
	{
		"all full",
		lb.Plan{List: listOf(candidate(0, 1, 1, 1), candidate(0, 1, 1, 2))},
		[]lb.Load{{Requests: 1}, {Requests: 2}},
		lb.Full, "",
	},
	{
		"a cap in tokens counts them in either unit",
		lb.Plan{List: lb.NewList([]lb.Candidate{
			{Slope: 1, Weight: 1, TokenCap: 9}, {Slope: 1, Weight: 1, TokenCap: 9},
		})},
		[]lb.Load{{Requests: 1, Tokens: 9}, {Requests: 2, Tokens: 8}},
		1, "",
	},
	{
		"a request may be larger than the cap in tokens",
		lb.Plan{Unit: lb.Tokens, Tokens: 1000, List: lb.NewList([]lb.Candidate{{Slope: 1, Weight: 1, TokenCap: 9}})},
		[]lb.Load{{Requests: 1, Tokens: 8}},
		0, "",
	},
	{
		"of two caps, the one reached first",
		lb.Plan{List: lb.NewList([]lb.Candidate{
			{Slope: 1, Weight: 1, Cap: 2, TokenCap: 9},
			{Slope: 1, Weight: 1, Cap: 2, TokenCap: 9},
			{Slope: 1, Weight: 1, Cap: 9, TokenCap: 99},
		})},
		[]lb.Load{{Requests: 2, Tokens: 8}, {Requests: 1, Tokens: 9}, {Requests: 8, Tokens: 98}},
		2, "",
	},
	{
		"the cap counts requests in either unit",
		lb.Plan{Unit: lb.Tokens, List: listOf(candidate(0, 1, 1, 2), candidate(0, 1, 1, 2))},
		[]lb.Load{{Requests: 2}, {Requests: 1, Tokens: 1 << 40}},
		1, "",
	},
	{
		"tie by the random bits",
		lb.Plan{
			Random: 1, List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 1, 0), candidate(0, 1, 1, 0)),
		},
		[]lb.Load{{Requests: 7}, {}, {}},
		2, "the second of two",
	},
}

func TestChoose(t *testing.T) {
	for _, tc := range chooseCases {
		t.Run(tc.name, func(t *testing.T) {
			if got := lb.Choose(&tc.plan, tc.loads, nil); got != tc.want {
				t.Fatalf("chose %d, want %d %s", got, tc.want, tc.during)
			}
		})
	}
}

// randomPlan draws a plan, loads and matches with many equal costs and effective caps.
func randomPlan(r *rand.Rand) (p *lb.Plan, loads []lb.Load, matched []int) {
	p = &lb.Plan{Unit: lb.Unit(r.IntN(2)), Tokens: int64(r.IntN(50)), Random: r.Uint64()}
	loads = make([]lb.Load, r.IntN(12))
	for i := range loads {
		loads[i] = lb.Load{Requests: int64(r.IntN(4)), Tokens: int64(r.IntN(4)) * 10}
		p.Candidates = append(p.Candidates, lb.Candidate{
			Base: float64(r.IntN(3)), Slope: float64(r.IntN(2)), Weight: float64(1 + r.IntN(3)), Cap: int64(r.IntN(5)),
			TokenCap: int64(r.IntN(5)) * 10, Capacity: float64(r.IntN(5) - 1), OverSlope: float64(r.IntN(3)),
		})
	}
	if r.IntN(2) == 0 {
		return p, loads, nil
	}
	p.Prefix = lb.Prefix{Bytes: 4, Credit: float64(r.IntN(40))}
	for end := range 1 + r.IntN(4) {
		p.Prefix.Blocks = append(p.Prefix.Blocks, prompt.Block{Key: r.Uint64(), End: end + 1})
	}
	for range loads {
		matched = append(matched, r.IntN(len(p.Prefix.Blocks)+1))
	}
	return p, loads, matched
}

// check compares Choose with its definition: the choice is below its caps and no other one costs less, and there is a
// choice whenever any candidate is below its caps.
func check(t *testing.T, p *lb.Plan, loads []lb.Load, matched []int) {
	t.Helper()
	added := 1.0
	if p.Unit == lb.Tokens {
		added = float64(p.Tokens)
	}
	cost := func(i int) float64 {
		load := float64(loads[i].Requests)
		if p.Unit == lb.Tokens {
			load = float64(loads[i].Tokens)
		}
		c := p.Candidates[i]
		credit := 0.0
		if matched != nil && matched[i] > 0 {
			credit = p.Prefix.Credit * float64(matched[i]) / 4
		}
		over := max(0, float64(loads[i].Requests+1)-c.Capacity)
		return c.Base + c.Slope*(load+added)/c.Weight + c.OverSlope*over/c.Weight - credit
	}
	below := func(i int) bool {
		c, l := &p.Candidates[i], loads[i]
		return (c.Cap == 0 || l.Requests < c.Cap) && (c.TokenCap == 0 || l.Tokens < c.TokenCap)
	}
	least, any := math.Inf(1), false
	for i := range p.Candidates {
		if below(i) {
			least, any = min(least, cost(i)), true
		}
	}
	got := lb.Choose(p, loads, matched)
	switch {
	case !any && got != lb.Full:
		t.Fatalf("chose %d although all are full", got)
	case !any:
	case got < 0 || got >= len(loads):
		t.Fatalf("chose %d of %d although one is below its cap", got, len(loads))
	case !below(got):
		t.Fatalf("chose %d, which is full", got)
	case cost(got) != least:
		t.Fatalf("chose %d at a cost of %v, the lowest is %v", got, cost(got), least)
	}
}

func TestChooseIsCheapest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 20000 {
		p, loads, matched := randomPlan(r)
		check(t, p, loads, matched)
	}
}

// Every one of equal candidates is chosen, by the random bits, however many there are, and wherever fuller ones are
// between them.
func TestChooseAmongManyTies(t *testing.T) {
	for _, equal := range []int{1, 63, 64, 65, 200} {
		var p lb.Plan
		var loads []lb.Load
		var want []int
		for i := 0; len(want) < equal; i++ {
			p.Candidates = append(p.Candidates, lb.Candidate{Slope: 1, Weight: 1, Cap: int64(i % 5)})
			loads = append(loads, lb.Load{Requests: int64(max(1, i%3))})
			if i%3 < 2 && i%5 != 1 { // else it has more load, or is full
				want = append(want, i)
			}
		}
		for k, i := range want {
			p.Random = uint64(7*equal + k)
			if got := lb.Choose(&p, loads, nil); got != i {
				t.Errorf("of %d equal candidates, bits for the %d. one choose %d, want %d", equal, k, got, i)
			}
		}
	}
}

// Each of the cheapest candidates is chosen by some random bits, and equally often.
func TestChooseTiesAreEven(t *testing.T) {
	p := &lb.Plan{List: lb.NewList(make([]lb.Candidate, 7))}
	loads := []lb.Load{{}, {Requests: 1}, {}, {}, {Requests: 2}, {}, {}}
	for i := range p.Candidates {
		p.Candidates[i] = lb.Candidate{Slope: 1, Weight: 1}
	}
	counts := make([]int, 7)
	for tie := range uint64(500) {
		p.Random = tie
		counts[lb.Choose(p, loads, nil)]++
	}
	for i, n := range counts {
		if want := map[bool]int{true: 100, false: 0}[loads[i].Requests == 0]; n != want {
			t.Fatalf("candidate %d was chosen %d times, want %d: %v", i, n, want, counts)
		}
	}
}

// Credits are equal on every processor and in every store: costs that are equal stay equal on a processor with a fused
// multiply-add, which does not round in between.
func TestChooseRoundsCredits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	differing := 0
	for range 100 {
		p := &lb.Plan{List: listOf(candidate(0, 0, 1, 0), candidate(0, 0, 1, 0))}
		p.Prefix = lb.Prefix{
			Blocks: []prompt.Block{{Key: 1, End: 1 + r.IntN(999)}}, Bytes: 1000,
			Credit: 1000 * r.Float64(),
		}
		share := p.Prefix.Fraction(1)
		p.Candidates[0].Base = float64(p.Prefix.Credit * share) // as much as its credit
		if math.FMA(-p.Prefix.Credit, share, p.Candidates[0].Base) != 0 {
			differing++
		}
		for tie := range 2 {
			p.Random = uint64(tie)
			if got := lb.Choose(p, make([]lb.Load, 2), []int{1, 0}); got != tie {
				t.Fatalf("of two that cost the same, %v less %v of %v, tie %d chose %d", p.Candidates[0].Base, share,
					p.Prefix.Credit, tie, got)
			}
		}
	}
	if differing < 50 {
		t.Errorf("only %d of 100 credits show the difference", differing)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		p, loads, matched := randomPlan(rand.New(rand.NewPCG(a, b)))
		check(t, p, loads, matched)
	})
}

func BenchmarkChoose(b *testing.B) {
	p, loads := &lb.Plan{}, make([]lb.Load, 64)
	for range loads {
		p.Candidates = append(p.Candidates, lb.Candidate{Slope: 1, Weight: 1})
	}
	for b.Loop() {
		p.Random++
		lb.Choose(p, loads, nil)
	}
}
