package prefix

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
)

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
