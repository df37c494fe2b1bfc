package prefix

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/mooncake"
	"github.com/warmgate/warmgate/e2e/traffic"
)

// scriptsOf returns the traffic of a workload that only a test needs.
func scriptsOf(w workload) []script { return w.scripts(1) }

// words counts the tokens of the messages.
func words(messages []loadgen.Message) int {
	n := 0
	for _, m := range messages {
		n += len(strings.Fields(m.Content))
	}
	return n
}

func TestSameSeedSameScripts(t *testing.T) {
	for _, w := range append(workloads(), replay(traceName, sample(t), 0, 4, mooncake.Scale).over(time.Second)) {
		if !reflect.DeepEqual(w.scripts(1), w.scripts(1)) {
			t.Errorf("%s: the same seed gave different scripts", w.name)
		}
		if reflect.DeepEqual(w.scripts(1), w.scripts(2)) {
			t.Errorf("%s: another seed gave the same scripts", w.name)
		}
	}
}

func TestScriptsAreWellFormed(t *testing.T) {
	for _, w := range workloads() {
		sessions := map[string]bool{}
		for _, s := range w.scripts(3) {
			if sessions[s.Session] {
				t.Errorf("%s: session %s twice", w.name, s.Session)
			}
			sessions[s.Session] = true
			for i, turn := range s.Turns {
				if (turn.Parent < 0) != (i == 0) || turn.Parent >= i {
					t.Fatalf("%s: turn %d follows %d", w.name, i, turn.Parent)
				}
				if last := turn.Add[len(turn.Add)-1]; last.Role != "user" || turn.Answer < 1 {
					t.Fatalf("%s: turn %d ends with %s with an answer of %d tokens", w.name, i, last.Role, turn.Answer)
				}
			}
		}
		if w.users < 1 || w.users > len(sessions) {
			t.Errorf("%s: %d users for %d scripts", w.name, w.users, len(sessions))
		}
	}
}

func TestSessions(t *testing.T) {
	w := sessions()
	scripts := w.scripts(1)
	in, out := 0, 0
	begins := map[string]bool{}
	for _, s := range scripts {
		if len(s.Turns) != 5 {
			t.Fatalf("a session of %d turns", len(s.Turns))
		}
		begins[s.Turns[0].Add[0].Content[:20]] = true
		for i, turn := range s.Turns {
			in += words(turn.Add)
			out += turn.Answer
			if i > 0 && (turn.Think < 0 || turn.Think > traffic.LongestThought) || i == 0 && turn.Think != 0 {
				t.Errorf("turn %d after %v", i, turn.Think)
			}
		}
	}
	if n := requests(scripts); len(scripts) != 60 || n != 300 || in/n < 190 || in/n > 210 || out/n < 760 ||
		out/n > 840 {
		t.Errorf("%d sessions, %d requests, %d tokens in, %d out", len(scripts), n, in/n, out/n)
	}
	if len(begins) != 60 {
		t.Errorf("%d different beginnings", len(begins))
	}
}

// TestShared checks that four in five requests have the system prompt and the example in common, and the others
// nothing.
func TestShared(t *testing.T) {
	count := map[string]int{}
	scripts := scriptsOf(shared())
	for _, s := range scripts {
		add := s.Turns[0].Add
		if roles := []string{add[0].Role, add[1].Role, add[2].Role, add[3].Role}; !slices.Equal(roles,
			[]string{"system", "user", "assistant", "user"}) {
			t.Fatalf("roles %v", roles)
		}
		count[add[0].Content+add[1].Content+add[2].Content]++
	}
	most, others := 0, 0
	for _, n := range count {
		most = max(most, n)
		if n == 1 {
			others++
		}
	}
	if share := float64(most) / float64(len(scripts)); share < 0.77 || share > 0.83 || most+others != len(scripts) {
		t.Errorf("%.2f of the requests share a prompt, %d have their own, of %d", share, others, len(scripts))
	}
}

func TestTrees(t *testing.T) {
	for _, c := range []struct {
		w     workload
		sizes []int // of the trees, in turn
	}{
		{trees("two", 3, 1, 2), []int{15, 15, 15}},
		{trees("mixed", 4, 1, 2, 4), []int{15, 85, 15, 85}},
	} {
		var system string
		for i, s := range c.w.scripts(1) {
			if len(s.Turns) != c.sizes[i] {
				t.Fatalf("%s: tree %d has %d turns, want %d", c.w.name, i, len(s.Turns), c.sizes[i])
			}
			branches := map[int]int{15: 2, 85: 4}[c.sizes[i]]
			depth := make([]int, len(s.Turns))
			for k, turn := range s.Turns {
				if k > 0 {
					depth[k] = depth[turn.Parent] + 1
				}
				want := branches
				if depth[k] == traffic.TreeDepth-1 {
					want = 0
				}
				if got := s.Children(k); len(got) != want {
					t.Fatalf("%s: turn %d at depth %d branches into %v, want %d", c.w.name, k, depth[k], got, want)
				}
			}
			if system == "" {
				system = s.Turns[0].Add[0].Content
			}
			if s.Turns[0].Add[0].Content != system || s.Turns[1].Add[0].Content == s.Turns[2].Add[0].Content {
				t.Errorf("%s: tree %d: another system prompt, or branches that are the same", c.w.name, i)
			}
		}
	}
}

func TestForty(t *testing.T) {
	count := map[string]int{}
	scripts := scriptsOf(forty())
	for _, s := range scripts {
		system := s.Turns[0].Add[0].Content
		if n := len(strings.Fields(system)); n != 1000 {
			t.Fatalf("a system prompt of %d tokens", n)
		}
		count[system]++
	}
	if len(scripts) != 40 || requests(scripts) != 200 || len(count) != 4 {
		t.Errorf("%d conversations, %d requests, %d system prompts", len(scripts), requests(scripts), len(count))
	}
	for _, n := range count {
		if n != 10 {
			t.Errorf("a system prompt is shared by %d conversations", n)
		}
	}
}
