package prefix

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

var (
	sys      = traffic.System("be brief")
	first    = traffic.User("first")
	answered = traffic.Assistant("well")
	second   = traffic.User("second")
)

func TestBlockKeysOfALongerConversationExtendThoseBefore(t *testing.T) {
	short := blockKeys([]loadgen.Message{sys, first})
	long := blockKeys([]loadgen.Message{sys, first, answered, second})
	if len(short) != 1 || len(long) != 2 || short[0] != long[0] || long[0] == long[1] {
		t.Errorf("%x, then %x", short, long)
	}
	other := blockKeys([]loadgen.Message{traffic.System("be verbose"), first, answered, second})
	if other[0] == long[0] || other[1] == long[1] {
		t.Error("another system prompt has keys in common")
	}
	if open := blockKeys([]loadgen.Message{sys, first, answered}); len(open) != 2 {
		t.Errorf("what comes behind the last user message makes %d blocks, want 2", len(open))
	}
	if got := blockKeys(nil); len(got) != 0 {
		t.Errorf("no messages have keys %x", got)
	}
}

// TestBlockKeysHaveTheDefectsOfXOR shows that what is compared is the scheme as it is published: it knows no order, and
// a block that comes twice takes itself back.
func TestBlockKeysHaveTheDefectsOfXOR(t *testing.T) {
	ab := blockKeys([]loadgen.Message{first, second})
	ba := blockKeys([]loadgen.Message{second, first})
	if ab[1] != ba[1] {
		t.Error("the order of blocks matters")
	}
	twice := blockKeys([]loadgen.Message{first, first})
	if twice[1] != (blockKey{}) {
		t.Errorf("a block and itself make %x", twice[1])
	}
}

func TestAffinityIgnoresLoad(t *testing.T) {
	x := newBlockXOR(3)
	prompt := []loadgen.Message{sys, first}
	home, _ := x.choose(prompt)
	for range 20 {
		if at, _ := x.choose(prompt); at != home {
			t.Fatalf("a known prompt went to %d instead of %d", at, home)
		}
	}
	if at, _ := x.choose(append(slices.Clone(prompt), answered, second)); at != home {
		t.Errorf("its next turn went to %d instead of %d", at, home)
	}
	if at, _ := x.choose([]loadgen.Message{traffic.User("new")}); at == home {
		t.Error("a new prompt went to the busiest server")
	}
}

func TestUnknownPromptsGoToTheLeastBusy(t *testing.T) {
	x := newBlockXOR(3)
	var dones []func()
	seen := map[int]int{}
	for i := range 6 {
		at, done := x.choose([]loadgen.Message{traffic.User(string(rune('a' + i)))})
		seen[at]++
		dones = append(dones, done)
	}
	if len(seen) != 3 || seen[0] != 2 || seen[1] != 2 || seen[2] != 2 {
		t.Errorf("six prompts were spread as %v", seen)
	}
	free, _ := x.choose([]loadgen.Message{traffic.User("a")}) // known: where the first went
	dones[0]()
	for range 2 {
		x.inflight[free]-- // as if its requests had ended
	}
	if at, _ := x.choose([]loadgen.Message{traffic.User("z")}); at != free {
		t.Errorf("went to %d although %d has nothing to do", at, free)
	}
}
