// Package price computes what the tokens of requests cost, in whole numbers: a price has at most nine decimals, and a
// cost is in billionths of the currency, rounded half up once for each request. It knows no configuration and no model
// but by name.
package price

import (
	"math"
	"math/bits"
)

const (
	// Nano is how many of the units of a cost are one of the currency.
	Nano = 1_000_000_000
	// Million is how many tokens a price is for.
	Million = 1_000_000
	// Max is the highest price of a million tokens, in the currency.
	Max = 1_000_000_000
)

// Tokens are those of one request by kind, each counted once.
type Tokens struct {
	Input     int64 // of the prompt, but for Cached
	Cached    int64 // of the prompt, found in a KV cache
	Output    int64 // of all answers, but for Reasoning
	Reasoning int64 // of all answers, by which the model has thought
	Estimated bool  // of a request that is over: not all are from a usage, what passed was counted
}

// Prompt returns the tokens of the prompt.
func (t *Tokens) Prompt() int64 { return t.Input + t.Cached }

// Completion returns the tokens of all answers.
func (t *Tokens) Completion() int64 { return t.Output + t.Reasoning }

// Rates are what a number of tokens comes to, by kind. As prices they are of a million tokens, in billionths of the
// currency. None is negative.
type Rates struct{ Input, Cached, Output, Reasoning int64 }

// Cost returns what the tokens cost at the rates, which are prices.
func (r *Rates) Cost(t Tokens) int64 { return r.Sum(t, Million) }

// Sum returns what the tokens come to at rates that are for so many tokens, 1 at least. It is rounded half up. What is
// beyond the largest number is that; a number of tokens that is negative is none.
func (r *Rates) Sum(t Tokens, per int64) int64 {
	var high, low uint64
	for _, part := range [...][2]int64{
		{r.Input, t.Input}, {r.Cached, t.Cached}, {r.Output, t.Output}, {r.Reasoning, t.Reasoning},
	} {
		h, l := bits.Mul64(uint64(max(part[0], 0)), uint64(max(part[1], 0)))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry) // four products of 63 bits each are less than 2^128
	}
	d := uint64(max(per, 1))
	low, carry := bits.Add64(low, d/2, 0) // half of an odd number is rounded down: it has no half
	if high += carry; high >= d {
		return math.MaxInt64
	}
	sum, _ := bits.Div64(high, low, d)
	return int64(min(sum, math.MaxInt64))
}
