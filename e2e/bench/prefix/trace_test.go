package prefix

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/mooncake"
)

// sample is two conversations and a stranger. Block 0 is common to both; the first conversation has a second turn.
func sample(t *testing.T) []mooncake.Request {
	t.Helper()
	trace, err := mooncake.Read("../../mooncake/testdata/sample.jsonl")
	if err != nil || len(trace) != 4 {
		t.Fatalf("%d requests, %v", len(trace), err)
	}
	return trace
}

// TestAReplayBeginsWithItsFirstRequest checks that a part of a trace begins at once, whatever time its first request
// has.
func TestAReplayBeginsWithItsFirstRequest(t *testing.T) {
	all := replays(sample(t), 1, 2, 3*time.Second)
	for i, want := range []struct {
		name string
		dues []time.Duration
	}{
		{traceName, []time.Duration{0, 3 * time.Second}}, {middleName, []time.Duration{0, 3 * time.Second}},
	} {
		if all[i].name != want.name || all[i].kind != want.name || all[i].n != 2 {
			t.Fatalf("workload %d is %+v", i, all[i])
		}
		for k, s := range all[i].scripts(1) {
			if s.Due != want.dues[k] {
				t.Errorf("%s: request %d is due at %v, want %v", want.name, k, s.Due, want.dues[k])
			}
		}
	}
	first, middle := all[0].scripts(1)[0].Turns[0], all[1].scripts(1)[0].Turns[0]
	if len(first.Add[0].Content) != 32*4 || len(middle.Add[0].Content) != 64*4 {
		t.Error("the parts begin with other requests than 1 and 2 of 4")
	}
	busy := all[2].scripts(1)
	if all[2].name != slotsTrace || busy[0].Turns[0].Answer != 2 || busy[1].Turns[0].Answer != 16 {
		t.Errorf("answers of %d and %d tokens", busy[0].Turns[0].Answer, busy[1].Turns[0].Answer)
	}
	for _, w := range replays(nil, 0, 5, time.Second) {
		if w.write != nil || w.name == "" {
			t.Errorf("without a trace there is %+v", w)
		}
	}
}

// TestReplayKeepsWhatIsShared checks that prompts share text exactly as far as they share blocks, at the scale of the
// replay.
func TestReplayKeepsWhatIsShared(t *testing.T) {
	w := replay(traceName, sample(t), 0, 4, mooncake.Scale).over(3 * time.Second)
	scripts := w.scripts(1)
	prompts := make([]string, len(scripts))
	for i, s := range scripts {
		prompts[i] = s.Turns[0].Add[0].Content
		if want := time.Duration(i) * time.Second; s.Due != want {
			t.Errorf("request %d is due at %v, want %v", i, s.Due, want)
		}
	}
	const block = 64 // bytes: 16 tokens of 4
	for i, want := range []int{46 * 4, 32 * 4, 64 * 4, 1 * 4} {
		if len(prompts[i]) != want {
			t.Errorf("prompt %d has %d bytes, want %d", i, len(prompts[i]), want)
		}
	}
	for _, c := range []struct{ a, b, shared int }{
		{0, 2, 46 * 4}, // the second turn extends the first
		{0, 1, block},  // only the first block
		{1, 2, block},
		{0, 3, 0},
	} {
		a, b := prompts[c.a], prompts[c.b]
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		// Texts that differ may still begin with a few equal letters.
		if n < c.shared || n > c.shared+4 {
			t.Errorf("prompts %d and %d share %d bytes, want %d", c.a, c.b, n, c.shared)
		}
	}
	for i, want := range []int{10, 1, 2, 2} {
		if got := scripts[i].Turns[0].Answer; got != want {
			t.Errorf("answer %d has %d tokens, want %d", i, got, want)
		}
	}
	if s := scripts; s[0].Session != s[2].Session || s[0].Session == s[1].Session || s[3].Session == s[1].Session {
		t.Errorf("sessions %q %q %q %q", s[0].Session, s[1].Session, s[2].Session, s[3].Session)
	}
}
