package main

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/harness"
)

// behindOne are conversations that all begin with a system prompt of 16 KB: a word is four bytes, and one token.
var behindOne = dialogue{talks: 12, turns: 5, system: 4096, first: 300, more: 300}

// leastOfSticky is how much of what is cached where each conversation sticks to one server has to be cached.
const leastOfSticky = .97

// sharedPrompt checks by the engines' counters that conversations find their prompts cached when all of them begin
// alike.
func (t *trial) sharedPrompt(ctx context.Context) error {
	stuck := behindOne
	stuck.sticky = true
	_, sticky, err := t.converse(ctx, stuck)
	if err != nil {
		return err
	}
	if err := t.gateway.PushCluster(ctx, harness.Warmgate); err != nil {
		return err
	}
	if err := t.gateway.PushPlugin(ctx, byPrefix); err != nil {
		return err
	}
	_, with, err := t.converse(ctx, behindOne)
	if err != nil {
		return err
	}
	best, share := sticky.cached/sticky.prompts(), with.cached/with.prompts()
	t.found(share >= leastOfSticky*best, fmt.Sprintf("prefix_cache, %d conversations behind 16 KB: cached share",
		behindOne.talks),
		fmt.Sprintf("≥ %.3f: %g of that of one server each", leastOfSticky*best, leastOfSticky), "%.3f", share)
	return nil
}
