package engine

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// byRank drives engines of which turn i goes to that with the number of(i).
func byRank(cfg enginesim.Config, load []turn, ranks int, together bool, of func(i int) int) []seen {
	var list []*Engine
	for range ranks {
		list = append(list, New(cfg, enginesim.Times{}))
	}
	if together {
		Together(list)
	}
	requests := make([]Request, len(load))
	return play(load, driven{
		add: func(i int, now time.Duration) bool {
			requests[i] = Request{Prompt: load[i].prompt, Answer: load[i].answer, Name: load[i].seed, Owner: i}
			return list[of(i)].Add(&requests[i], now) == nil
		},
		begin: func(now time.Duration) { list[0].Begin(now) },
		ends:  func() time.Duration { return list[0].Ends() },
		finish: func(now time.Duration, out []seen) (done []int) {
			first, last := list[0].Finish()
			for _, r := range first {
				out[r.Owner.(int)].first = now
			}
			for _, r := range last {
				i := r.Owner.(int)
				out[i].cached = r.Cached()
				done = append(done, i)
			}
			return done
		},
	})
}

// A rank whose peers have no work takes as long as an engine alone, whatever steps are taken at once.
func TestIdleRanksGoAlong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		load := conversations(rng, rapid.IntRange(1, 8).Draw(t, "conversations"), 3, 200*time.Millisecond)
		cfg := enginesim.Config{MaxNumSeqs: 4, NumBlocks: 400}
		first := func(int) int { return 0 }
		alone, beside := byRank(cfg, load, 1, false, first), byRank(cfg, load, 3, true, first)
		if !reflect.DeepEqual(alone, beside) {
			t.Fatalf("alone %v, beside idle ranks %v", alone, beside)
		}
	})
}

// A step takes as long as the slowest rank's: a rank that decodes waits for the prompt of another one.
func TestRanksStepAtTheSlowestsPace(t *testing.T) {
	cfg := enginesim.Config{MaxBatchedTokens: 4096, NumBlocks: 4096}
	times := enginesim.DefaultTimes()
	a, b := New(cfg, times), New(cfg, times)
	Together([]*Engine{a, b})
	short := &Request{Prompt: []Part{{Name: 1, Tokens: 16}}, Answer: 50}
	long := &Request{Prompt: []Part{{Name: 2, Tokens: 4000}}, Answer: 1}
	if a.Add(short, 0) != nil {
		t.Fatal("refused")
	}
	a.Begin(0)
	now := a.Ends()
	if !a.GoesWith(b) || b.Ends() != now {
		t.Errorf("a rank's steps end at %v, its peer's at %v", now, b.Ends())
	}
	a.Finish()
	a.Begin(now)
	alike := a.Ends() // many steps that decode
	at := now + times.Step(0, 0, 1, 0)/2
	if b.Add(long, at) != nil {
		t.Fatal("refused")
	}
	if now += times.Step(0, 0, 1, 0); a.Ends() != now || alike <= now {
		t.Fatalf("the step under way ends at %v, want %v: the peer has a request", a.Ends(), now)
	}
	a.Finish()
	a.Begin(now)
	if took, want := a.Ends()-now, times.Step(1, 4000, 0, 0); took != want {
		t.Errorf("a step takes %v while a peer computes a prompt, want %v", took, want)
	}
	first, done := a.Finish()
	if len(first) != 1 || len(done) != 1 || done[0] != long || short.generated != 3 {
		t.Errorf("%d first tokens, %d answers; the other one has %d tokens", len(first), len(done), short.generated)
	}
}
