package prefix

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
)

// blocks returns n blocks of text, each of 16 tokens, all the same.
func blocks(n int) string {
	var out []byte
	for range n * 16 {
		out = append(out, "abc "...)
	}
	return string(out)
}

func TestDemands(t *testing.T) {
	scripts := []script{
		{Turns: []turn{
			{Parent: -1, Add: []loadgen.Message{traffic.User(blocks(3) + "x")}, Answer: 10},
			{Parent: 0, Add: []loadgen.Message{traffic.User("abc def ")}, Answer: 20},
			{Parent: 0, Add: []loadgen.Message{traffic.User("abc ")}, Answer: 30},
		}},
		{Turns: []turn{{
			Parent: -1, Add: []loadgen.Message{traffic.System(blocks(2)), traffic.User(blocks(2) + "x")},
			Answer: 5,
		}}},
		{Turns: []turn{{Parent: -1, Add: []loadgen.Message{traffic.User(blocks(2))}, Answer: 5}}},
		{Turns: []turn{{Parent: -1, Add: []loadgen.Message{traffic.User(blocks(2))}, Answer: 5}}, Tools: []byte("[1]")},
	}
	computed, held := demands(scripts)
	var got [2][]int
	for i := range computed {
		got[0], got[1] = append(got[0], computed[i].Prompt), append(got[1], held[i].Prompt)
		if computed[i].MaxTokens != held[i].MaxTokens {
			t.Errorf("request %d answers %d or %d tokens", i, computed[i].MaxTokens, held[i].MaxTokens)
		}
	}
	want := [2][]int{{49, 2, 1, 17, 0, 33}, {49, 61, 60, 17, 0, 33}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("computed and held %v, want %v", got, want)
	}
}

// TestCapacity has two servers of 4 slots, where a request of 10 tokens and an answer of 20 takes 2 + 0.4 ms, and 20
// times the 4th part of (0.65 + 4 × 0.04) ms: 6.45 ms of a server.
func TestCapacity(t *testing.T) {
	w := workload{servers: 2, server: traffic.Engine(4, 1<<16), n: 3, users: 6}
	w.write = func(w *workload, seed uint64) []script {
		var out []script
		r := random(seed, "capacity")
		for range w.n {
			turns := make([]turn, 4)
			for i := range turns {
				add := []loadgen.Message{traffic.User(loadgen.Text(r, 10))}
				turns[i] = turn{Parent: i - 1, Add: add, Answer: 20, Think: 20 * time.Millisecond}
			}
			out = append(out, script{Turns: turns})
		}
		return out
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	c := capacityOf(&w, 1)
	rate := 2 / 0.00645
	near("batch", c.batch, 8)
	near("rate", c.rate, rate)
	near("users", c.users, 8+rate*0.02)
	near("load", c.load(&w), 6/c.users)
	if half := w.at(0.5, c); half.users != 7 || half.n != 14 {
		t.Errorf("half of %v users: %d, %d scripts", c.users, half.users, half.n)
	}
	if least := w.at(0.001, c); least.users != 1 || least.n != 3 {
		t.Errorf("%d users, %d scripts", least.users, least.n)
	}
	w.inTurns = true
	near("users who do not think", capacityOf(&w, 1).users, 8)
	w.server.NumBlocks = 2 * (75 + 10) / 16 // room for two of them as they are on average
	if full := capacityOf(&w, 1); full.batch != 4 || full.rate >= rate {
		t.Errorf("caches with room for two requests each: %+v", full)
	}
	w.users, w.span = 0, time.Second
	near("open loop", w.at(0.5, c).span.Seconds(), 3/(0.5*rate))
	near("load of an open loop", c.load(&w), 3/rate)
}

// TestATreeHasManyUnderWay counts the requests that one user has under way.
func TestATreeHasManyUnderWay(t *testing.T) {
	w := trees("test", 3, 1, 2)
	scripts := scriptsOf(w)
	if d := scripts[0].Depth(); d != traffic.TreeDepth {
		t.Errorf("depth %d", d)
	}
	c := capacityOf(&w, 1)
	if want := c.batch * traffic.TreeDepth / 15; math.Abs(c.users/want-1) > 1e-9 {
		t.Errorf("%v users for batches of %v, want %v", c.users, c.batch, want)
	}
}

func TestEveryWorkloadHasALoad(t *testing.T) {
	for _, w := range append(workloads(), replays(sample(t), 0, 4, time.Second)...) {
		c := capacityOf(&w, 1)
		if load := c.load(&w); !(load > 0) || w.users > 0 && (load < 0.2 || load > 1.5) || w.title() != w.kind {
			t.Errorf("%s: %.3f of the capacity, %+v", w.name, load, c)
		}
		for _, load := range []float64{0.5, 0.8, 1, 1.5} {
			at := w.at(load, c)
			if got := c.load(&at); math.Abs(got-load) > 0.5/c.users+1e-6 || at.users > at.n {
				t.Errorf("%s: %.3f of the capacity with %d users, want %v", w.name, got, at.users, load)
			}
		}
	}
}

// sample is two conversations and a stranger. Block 0 is common to both; the first conversation has a second turn.
func sample(t *testing.T) []mooncake.Request {
	t.Helper()
	trace, err := mooncake.Read("../../../internal/mooncake/testdata/sample.jsonl")
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
	w := replay(traceName, sample(t), 0, 4, traffic.TraceScale).over(3 * time.Second)
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
