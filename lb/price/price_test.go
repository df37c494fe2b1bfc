package price

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// exact is Sum by rational numbers.
func exact(r Rates, t Tokens, per int64) int64 {
	sum := new(big.Rat)
	for _, p := range [][2]int64{
		{r.Input, t.Input}, {r.Cached, t.Cached}, {r.Output, t.Output}, {r.Reasoning, t.Reasoning},
	} {
		product := new(big.Int).Mul(big.NewInt(max(p[0], 0)), big.NewInt(max(p[1], 0)))
		sum.Add(sum, new(big.Rat).SetFrac(product, big.NewInt(max(per, 1))))
	}
	sum.Add(sum, big.NewRat(1, 2))
	floor := new(big.Int).Quo(sum.Num(), sum.Denom())
	if !floor.IsInt64() {
		return math.MaxInt64
	}
	return floor.Int64()
}

// What tokens cost is exact, whatever they cost and however many there are.
func TestSumIsExact(t *testing.T) {
	number := rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 1<<21), rapid.Int64Range(0, Max*Nano),
		rapid.Just(int64(math.MaxInt64)), rapid.Int64())
	rapid.Check(t, func(rt *rapid.T) {
		r := Rates{number.Draw(rt, "i"), number.Draw(rt, "c"), number.Draw(rt, "o"), number.Draw(rt, "r")}
		n := Tokens{
			Input: number.Draw(rt, "in"), Cached: number.Draw(rt, "hit"),
			Output: number.Draw(rt, "out"), Reasoning: number.Draw(rt, "thought"),
		}
		per := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 2, 3, Million, Nano, math.MaxInt64}), number).Draw(rt, "per")
		if got, want := r.Sum(n, per), exact(r, n, per); got != want {
			rt.Fatalf("%v of %v per %d: %d, want %d", n, r, per, got, want)
		}
	})
}

// Prices as providers write them.
func TestCost(t *testing.T) {
	used := Tokens{Input: 1000, Cached: 3000, Output: 500, Reasoning: 200}
	for _, c := range []struct {
		rates  Rates
		tokens Tokens
		nano   int64
	}{
		{Rates{150_000_000, 75_000_000, 600_000_000, 600_000_000}, Tokens{Input: 1}, 150}, // 0.15 a million: 150 each
		{Rates{150_000_000, 75_000_000, 600_000_000, 900_000_000}, used, 855_000},
		{Rates{Input: 499_999}, Tokens{Input: 1}, 0},
		{Rates{Input: 500_000}, Tokens{Input: 1}, 1}, // half up, once
		{Rates{500_000, 500_000, 500_000, 500_000}, Tokens{Input: 1, Cached: 1, Output: 1, Reasoning: 1}, 2},
		{Rates{Input: Max * Nano}, Tokens{Input: 1 << 40}, math.MaxInt64},
		{Rates{Input: Nano}, Tokens{Input: -5, Output: 7}, 0},
		{Rates{}, Tokens{Input: 1, Cached: 2, Output: 3, Reasoning: 4}, 0},
	} {
		if got := c.rates.Cost(c.tokens); got != c.nano {
			t.Errorf("%v at %v: %d, want %d", c.tokens, c.rates, got, c.nano)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.15": 150_000_000, "0.000000001": 1, "1e-9": 1, "2.5E-1": 250_000_000, "15": 15 * Nano,
		"1e+2":       100 * Nano,
		"1000000000": Max * Nano, "1000000000.0000000000000": Max * Nano, "00.10": 100_000_000, "0e99": 0, "10e-10": 1,
		"0.1500000000000": 150_000_000,
		"":                -1, ".5": -1, "5.": -1, "-1": -1, "+1": -1, "0.0000000001": -1,
		"1000000000.000000001": -1, "1e10": -1,
		"NaN": -1, "Inf": -1, "1e": -1, "1e1.5": -1, "0x10": -1, "1_0": -1, "1 ": -1, "1,5": -1, "$1": -1, "1e999": -1,
		"0.30000000000000004": -1, "99999999999999999999999999": -1, "1e-101": -1, "١": -1,
	} {
		nano, ok := Parse(text)
		if ok != (want >= 0) || ok && nano != want {
			t.Errorf("%q: %d, %v, want %d", text, nano, ok, want)
		}
	}
}

// FuzzParse compares what is read with rational numbers.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0.15", "1e-9", "2.50", "1000000000", "1E2", "-1", "0.0000000001", "1e", ".", ""} {
		f.Add(seed)
	}
	number := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?([eE][+-]?0*[0-9]{1,2})?$`)
	f.Fuzz(func(t *testing.T, text string) {
		nano, ok := Parse(text)
		if !number.MatchString(text) {
			if ok && !strings.ContainsAny(text, "eE") { // exponents of three digits are not worth an oracle
				t.Fatalf("%q is no number, got %d", text, nano)
			}
			return
		}
		r, _ := new(big.Rat).SetString(text)
		r.Mul(r, big.NewRat(Nano, 1))
		most := new(big.Rat).SetInt64(Max * Nano)
		if is := r.IsInt() && r.Cmp(most) <= 0; is != ok || ok && r.Num().Cmp(big.NewInt(nano)) != 0 {
			t.Fatalf("%q: %d, %v, want %v", text, nano, ok, r)
		}
	})
}

// What is written exactly is read exactly, with an exponent or without.
func TestParseReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, Max*Nano)).Draw(rt, "nano")
		text := fmt.Sprintf("%d.%09d", want/Nano, want%Nano)
		if e := rapid.IntRange(-20, 20).Draw(rt, "exponent"); e != 0 {
			shifted := new(big.Rat).SetFrac64(want, 1)
			ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(e+9, -e-9))), nil)
			if e+9 >= 0 {
				shifted.Quo(shifted, new(big.Rat).SetInt(ten))
			} else {
				shifted.Mul(shifted, new(big.Rat).SetInt(ten))
			}
			text = shifted.FloatString(40) + fmt.Sprintf("e%d", e)
		}
		if got, ok := Parse(text); !ok || got != want {
			rt.Fatalf("%q: %d, %v, want %d", text, got, ok, want)
		}
	})
}

// The name itself goes first, then the longest pattern.
func TestLookup(t *testing.T) {
	var table Table
	for i, name := range []string{"gpt-4*", "gpt-4o-mini*", "*", "gpt-4o-mini", "gpt-4o*", "llama"} {
		if !table.Add(name, Rates{Input: int64(i + 1)}) {
			t.Fatalf("%s is refused", name)
		}
	}
	for _, name := range []string{"gpt-4*", "*", "llama", "", "a*b", "**", "*a"} {
		if table.Add(name, Rates{}) {
			t.Errorf("%q is added", name)
		}
	}
	for model, want := range map[string]int64{
		"gpt-4": 1, "gpt-4-turbo": 1, "gpt-4o": 5, "gpt-4o-mini": 4, "gpt-4o-mini-2024": 2, "gpt-4o-m": 5, "llama": 6,
		"llama3": 3, "": 3, "GPT-4": 3, "*": 3,
	} {
		if r := table.Lookup(model); r == nil || r.Input != want {
			t.Errorf("%q: %+v, want %d", model, r, want)
		}
	}
	if n := table.Names(); !slices.Equal(n, []string{"gpt-4o-mini", "llama"}) || table.Len() != 6 {
		t.Errorf("names %q of %d", n, table.Len())
	}
	if table.Free() != "" || (&Table{}).Lookup("a") != nil {
		t.Error("a table has what it was not given")
	}
	if table.Add("free-*", Rates{Output: 1}); table.Free() != "free-*" {
		t.Errorf("%q costs nothing", table.Free())
	}
}

// Lookup finds what a search through all of the table finds, in whatever order it was written.
func TestLookupIsTheLongest(t *testing.T) {
	name := rapid.StringMatching(`[ab]{0,4}\*?`)
	rapid.Check(t, func(rt *rapid.T) {
		var table Table
		rates := map[string]Rates{}
		for i, n := range rapid.SliceOfN(name, 0, 20).Draw(rt, "names") {
			r := Rates{Input: int64(i)}
			_, twice := rates[n]
			if added := table.Add(n, r); added == (twice || n == "") {
				rt.Fatalf("%q: added %v", n, added)
			} else if added {
				rates[n] = r
			}
		}
		model := rapid.StringMatching(`[ab]{0,5}`).Draw(rt, "model")
		want, known := rates[model], false
		if _, known = rates[model]; !known {
			for n := len(model); n >= 0 && !known; n-- {
				want, known = rates[model[:n]+Any]
			}
		}
		got := table.Lookup(model)
		if (got != nil) != known || known && *got != want {
			rt.Fatalf("%q in %v: %+v", model, rates, got)
		}
	})
}

// Nothing is allocated for a request.
func TestNoAllocations(t *testing.T) {
	var table Table
	table.Add("a*", Rates{1, 2, 3, 4})
	if n := testing.AllocsPerRun(100, func() { table.Lookup("abc").Cost(Tokens{Input: 1, Output: 2}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
