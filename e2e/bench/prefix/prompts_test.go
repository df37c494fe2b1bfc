package prefix

import (
	"testing"
	"time"
)

// TestBehindPrompts holds that each of the prompts begins its share of the conversations, and that users think.
func TestBehindPrompts(t *testing.T) {
	w := behindPrompts("test", 10, oddLengths...)
	begins, thought, pauses := map[string]int{}, time.Duration(0), 0
	for _, s := range w.scripts(1) {
		system := s.Turns[0].Add[0]
		begins[system.Content]++
		if system.Role != "system" || len(s.Turns) != 5 || s.Turns[0].Think != 0 {
			t.Fatalf("%+v", s.Turns[0])
		}
		for _, turn := range s.Turns[1:] {
			if thought += turn.Think; turn.Think >= longestPause || len(turn.Add) != 1 {
				t.Fatalf("%+v", turn)
			}
			pauses++
		}
	}
	if len(begins) != len(oddLengths) {
		t.Errorf("%d prompts", len(begins))
	}
	for text, n := range begins {
		known := false
		for _, tokens := range oddLengths {
			known = known || len(text) == 4*tokens
		}
		if !known || n < w.n/len(oddLengths) {
			t.Errorf("a prompt of %d bytes begins %d conversations", len(text), n)
		}
	}
	if mean := thought / time.Duration(pauses); mean < longestPause*2/5 || mean > longestPause*3/5 {
		t.Errorf("pauses of %v on average", mean)
	}
}
