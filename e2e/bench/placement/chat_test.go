package placement

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/simulate"
)

// TestDraws holds means and bounds.
func TestDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name        string
		of          draw
		mean        float64
		least, most int
	}{
		{"around", around(101), 101, 51, 152},
		{"exactly", exactly(4), 4, 4, 4},
		{"normal", normal(1000, 300), 1000, 8, 3000},
		{"lognormal", lognormal(900, 0.6, 60, 4000), 1065, 60, 4000},
		{"lognormal by mean", lognormalMean(300, 300, 8192), 300, 4, 8192},
	} {
		sum, n := 0, 20000
		for range n {
			x := tc.of(rng)
			if sum += x; x < tc.least || x > tc.most {
				t.Fatalf("%s: %d is not from %d to %d", tc.name, x, tc.least, tc.most)
			}
		}
		if mean := float64(sum) / float64(n); math.Abs(mean/tc.mean-1) > 0.03 {
			t.Errorf("%s: mean %.1f, want about %g", tc.name, mean, tc.mean)
		}
	}
}

// smallChat is a load of few requests.
func smallChat() chat {
	return chat{
		sessions: 40, prompts: []int{100, 200}, context: around(50), turns: around(3), question: around(20),
		answer: around(10), think: time.Second, users: 5,
	}
}

// TestChatIsPlayedWhole holds that every turn of every conversation is sent once, in closed and in open loops, whoever
// chooses, and that each prompt begins with all that was said.
func TestChatIsPlayedWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := smallChat()
		if rapid.Bool().Draw(rt, "open") {
			c.users, c.rate, c.timed = 0, 2, rapid.Bool().Draw(rt, "timed")
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		want, warm := 0, 0
		for i, talk := range c.draw(seed) {
			if want += len(talk.turns); i < c.sessions/warmPart {
				warm += len(talk.turns)
			}
		}
		policy, err := simulate.OfPolicy(rapid.SampledFrom(simulate.Natives()).Draw(rt, "policy"))
		if err != nil {
			rt.Fatal(err)
		}
		load := &recorder{Load: c.new(seed)}
		r, err := simulate.Run(load, simulate.Alike(3, small(4, 1000)), policy, seed, nil)
		if err != nil || r.Served != want || len(load.samples) != want-warm || load.refused != 0 {
			rt.Fatalf("%d of %d served, %d samples, %v", r.Served, want, len(load.samples), err)
		}
	})
}

// TestTurnsContinue holds that a turn's prompt is the one before with its answer and the question, and that other
// conversations have only a system prompt in common with it.
func TestTurnsContinue(t *testing.T) {
	c := smallChat()
	l := c.new(3).(*chatLoad)
	l.send = func(time.Duration, int) {}
	seen := map[uint64]int{}
	for i := range l.talks {
		var before *simulate.Request
		for k := range l.talks[i].turns {
			r := l.Send(0, i*longestChat+k)
			if before != nil {
				n := len(before.Prompt)
				if !reflect.DeepEqual(r.Prompt[:n], before.Prompt) || len(r.Prompt) != n+2 ||
					r.Prompt[n].Name != before.Name || r.Prompt[n].Tokens != before.Answer || !r.Prompt[n].Answer {
					t.Fatalf("%+v after %+v", r.Prompt, before.Prompt)
				}
			}
			before = r
		}
		for _, p := range before.Prompt[1:] {
			if of, ok := seen[p.Name]; ok {
				t.Fatalf("conversations %d and %d share %x", of, i, p.Name)
			}
			seen[p.Name] = i
		}
	}
}

// TestTimedTurns holds that turns at times of their own come then, however slow the engines are.
func TestTimedTurns(t *testing.T) {
	c := smallChat()
	c.users, c.rate, c.timed = 0, 2, true
	sent := func(speed float64) (all []time.Duration) {
		e := small(4, 1000)
		e.Times.Speed = speed
		policy, err := simulate.OfPolicy("random")
		if err != nil {
			t.Fatal(err)
		}
		l := &recorder{Load: c.new(1)}
		if _, err := simulate.Run(l, simulate.Alike(2, e), policy, 1, nil); err != nil {
			t.Fatal(err)
		}
		at := map[time.Duration]bool{}
		for _, s := range l.samples {
			at[s.sent] = true
		}
		for s := range at {
			all = append(all, s)
		}
		return all
	}
	fast, slow := sent(10), sent(0.2)
	in := map[time.Duration]bool{}
	for _, at := range fast {
		in[at] = true
	}
	for _, at := range slow {
		if !in[at] {
			t.Fatalf("a turn was sent at %v only by slow engines", at)
		}
	}
	if len(fast) != len(slow) {
		t.Errorf("%d times and %d", len(fast), len(slow))
	}
}
