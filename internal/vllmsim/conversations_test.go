package vllmsim

import "testing"

// TestHeldAnswers holds the latest answers, and no more.
func TestHeldAnswers(t *testing.T) {
	var c conversations
	for id := range int64(maxHeld + 5) {
		c.hold(&answer{id: id, tokens: 1})
	}
	if len(c.held) != maxHeld || len(c.order) != maxHeld {
		t.Errorf("%d answers are held, in an order of %d", len(c.held), len(c.order))
	}
	for id, want := range map[string]bool{"resp_4": false, "resp_5": true, "resp_3ec": true} {
		if got := c.recall(&completionRequest{previous: id}); got != want {
			t.Errorf("%s is there: %t", id, got)
		}
	}
	if c.forget(); len(c.held)+len(c.order) > 0 {
		t.Error("some are held still")
	}
}
