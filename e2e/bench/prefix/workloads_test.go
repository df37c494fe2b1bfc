package prefix

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
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

// requests returns how many requests the scripts have together.
func requests(scripts []script) int {
	n := 0
	for i := range scripts {
		n += len(scripts[i].Turns)
	}
	return n
}

func TestSameSeedSameScripts(t *testing.T) {
	for _, w := range append(workloads(), replay(traceName, sample(t), 0, 4, traffic.TraceScale).over(time.Second)) {
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

func TestAgents(t *testing.T) {
	for _, c := range []struct {
		w            workload
		kib, prompts int
	}{
		{agents("a", 16, 1), 16, 1},
		{agents("b", 64, 1), 64, 1},
		{agents("c", 16, 4), 16, 4},
		{agents("d", 64, 4), 64, 4},
	} {
		count := map[string]int{}
		tails := 0
		for _, s := range scriptsOf(c.w) {
			begin := len(s.Tools) + len(s.Turns[0].Add[0].Content)
			if begin < c.kib<<10 || begin > c.kib<<10+1<<10 {
				t.Fatalf("%s: %d bytes of tools and system prompt", c.w.name, begin)
			}
			var list []struct{ Function struct{ Name string } }
			err := json.Unmarshal(s.Tools, &list)
			if err != nil || len(list) < 15 || list[0].Function.Name == list[1].Function.Name {
				t.Fatalf("%s: %d tools, %v", c.w.name, len(list), err)
			}
			count[string(s.Tools)+s.Turns[0].Add[0].Content]++
			if len(s.Turns) != 5 {
				t.Fatalf("%s: %d turns", c.w.name, len(s.Turns))
			}
			for i, turn := range s.Turns {
				tails += words(turn.Add) + turn.Answer
				if i == 0 {
					tails -= words(turn.Add[:1])
				}
			}
		}
		if len(count) != c.prompts {
			t.Errorf("%s: %d system prompts, want %d", c.w.name, len(count), c.prompts)
		}
		for _, n := range count {
			if n != 200/c.prompts {
				t.Errorf("%s: a system prompt is shared by %d conversations", c.w.name, n)
			}
		}
		// All conversations fit into all caches together, but not into those of one server less.
		room := c.w.server.NumBlocks*c.w.server.BlockSize - min(c.prompts, 2)*c.kib<<10/4
		if room*c.w.servers < tails || room*(c.w.servers-1) > tails {
			t.Errorf("%s: %d tokens of conversations for %d servers with room for %d", c.w.name, tails,
				c.w.servers, room)
		}
	}
}

// TestConversationContinuesAfterAllOthers plays with one user, so that the order is the order of arrival.
func TestConversationContinuesAfterAllOthers(t *testing.T) {
	w, p := newWitness(t)
	p.Warm = 1
	const n, turns = 5, 3
	r := random(1, "test")
	var scripts []script
	for i := range n {
		scripts = append(scripts, script{
			Session: string(rune('a' + i)), Turns: traffic.Conversation(r, nil, turns, 9, 9),
			Tools: traffic.Tools(r, 40),
		})
	}
	samples := p.InTurns(context.Background(), scripts, 1)
	if len(samples) != n*(turns-1) || len(w.prompts) != n*turns {
		t.Fatalf("%d samples of %d prompts", len(samples), len(w.prompts))
	}
	for i, prompt := range w.prompts {
		if !slices.Contains(w.sessions[scripts[i%n].Session], prompt) {
			t.Errorf("request %d is not of session %d", i, i%n)
		}
		if i >= n && !continues(prompt, w.prompts[i-n]) {
			t.Errorf("request %d does not continue the previous one of its session", i)
		}
	}
	if cached := resultOf(samples, 1).Cached; cached < 0.5 {
		t.Errorf("%.2f cached", cached)
	}
}

func TestAConversationThatFailsIsNotContinued(t *testing.T) {
	w, p := newWitness(t)
	p.Warm = 1
	r := random(1, "test")
	scripts := []script{{Turns: traffic.Conversation(r, nil, 3, 9, 9)}, {Turns: traffic.Conversation(r, nil, 3, 9, 9)}}
	bad := scripts[0].Turns[0].Add[0].Content
	w.refuse = func(prompt string) bool { return strings.Contains(prompt, bad) }
	sum := loadgen.Summarize(p.InTurns(context.Background(), scripts, 2))
	if sum.OK != 2 || sum.Errors["status_418"] != 1 || sum.Errors[loadgen.ErrNotSent] != 2 || len(w.prompts) != 4 {
		t.Errorf("%+v", sum)
	}
}

func TestCompletionsAreOneText(t *testing.T) {
	load := completions()
	w, p := newWitnessAt(t, load.path())
	p.Plain = load.plain
	load.n = 3
	scripts := scriptsOf(load)
	p.Choose = func(q *scripted.Question) (string, scripted.UnderWay) {
		if len(q.Messages) != 1 || q.Messages[0].Content != gjson.GetBytes(q.Body, "prompt").Str || q.Answer < 1 {
			t.Errorf("chosen for %d messages, answer of %d", len(q.Messages), q.Answer)
		}
		return "127.0.0.1:1", scripted.UnderWay{Done: func() {}}
	}
	samples := p.Play(context.Background(), scripts, 2)
	if len(samples) != 15 {
		t.Fatalf("%d samples", len(samples))
	}
	begin := scripts[0].Turns[0].Add[0].Content
	for session, prompts := range w.sessions {
		for i, prompt := range prompts {
			if !strings.HasPrefix(prompt, begin) || i > 0 && !strings.HasPrefix(prompt, prompts[i-1]) {
				t.Errorf("session %s: prompt %d does not continue what came before", session, i)
			}
		}
	}
	if cached := resultOf(samples, 1).Cached; cached < 0.6 {
		t.Errorf("%.2f cached: the answers are not part of the prompts", cached)
	}
}
