package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// seen is what becomes of a request.
type seen struct {
	sent, first, done time.Duration
	cached            int
}

// turn is one request of a conversation, for both engines.
type turn struct {
	after  int           // the turn whose answer it continues, -1 for none
	wait   time.Duration // from the end of that answer, or from the beginning
	prompt []Part
	text   []byte
	answer int
	seed   uint64 // of the answer, and the name of the prompt with it
}

// block is the length of blocks in tokens. Parts are made of whole blocks, so that both engines can share the same.
const block = 16

// common is the length of a system prompt in blocks: some steps compute only a part of it.
const common = 24

// conversations returns the turns of conversations with three system prompts.
func conversations(rng *rand.Rand, n, turns int, every time.Duration) (load []turn) {
	for range n {
		name := uint64(rng.IntN(3)) + 1
		text := enginesim.AppendText(nil, name<<32, common*block)
		prompt := []Part{{Name: name, Tokens: common * block}}
		for k := range turns {
			t := turn{after: -1, wait: time.Duration(rng.Int64N(int64(every)*int64(n) + 1))}
			if k > 0 {
				t.after, t.wait = len(load)-1, time.Duration(rng.Int64N(int64(4*time.Second)))
			}
			q := 1 + rng.IntN(20)
			name = enginesim.Mix(enginesim.Mix(uint64(len(load))) + name)
			prompt = append(slices.Clone(prompt), Part{Name: name, Tokens: q * block})
			text = enginesim.AppendText(slices.Clone(text), name, q*block)
			t.prompt, t.text, t.answer, t.seed = prompt, text, block*(1+rng.IntN(6)), enginesim.Mix(name)
			load = append(load, t)
			prompt = append(slices.Clone(prompt), Part{Name: t.seed, Tokens: t.answer, Answer: true})
			text = enginesim.AppendText(slices.Clone(text), t.seed, t.answer)
			name = t.seed
		}
	}
	return load
}

// driven is one of the two engines.
type driven struct {
	add    func(i int, now time.Duration) bool
	begin  func(now time.Duration)
	ends   func() time.Duration
	finish func(now time.Duration, out []seen) (done []int)
}

// play plays a load. What is refused has no next turn.
func play(load []turn, e driven) []seen {
	out := make([]seen, len(load))
	type due struct {
		at time.Duration
		i  int
	}
	var dues []due
	add := func(i int, at time.Duration) { dues = append(dues, due{at + time.Duration(i), i}) } // no two at once
	for i := range load {
		if load[i].after < 0 {
			add(i, load[i].wait)
		}
	}
	for {
		slices.SortFunc(dues, func(a, b due) int { return int(a.at - b.at) })
		ends := e.ends()
		if len(dues) > 0 && (ends == 0 || dues[0].at < ends) {
			d := dues[0]
			dues = dues[1:]
			if out[d.i].sent = d.at; e.add(d.i, d.at) && ends == 0 {
				e.begin(d.at)
			}
			continue
		}
		if ends == 0 {
			return out
		}
		for _, i := range e.finish(ends, out) {
			out[i].done = ends
			if i+1 < len(load) && load[i+1].after == i {
				add(i+1, ends+load[i+1].wait)
			}
		}
		e.begin(ends)
	}
}

// bySteps drives the model that plans each step.
func bySteps(cfg enginesim.Config, load []turn) ([]seen, int64) {
	e, ends := enginesim.New(cfg, enginesim.Times{}), time.Duration(0)
	out := play(load, driven{
		add: func(i int, now time.Duration) bool {
			t := &load[i]
			return e.Add(&enginesim.Request{
				Prompt: slices.Clone(t.text), Tokens: t.answer, Seed: t.seed, Owner: i,
			}, now) == nil
		},
		begin: func(now time.Duration) {
			if took := e.Begin(now); took > 0 {
				ends = now + took
			}
		},
		ends: func() time.Duration { return ends },
		finish: func(now time.Duration, out []seen) (done []int) {
			ends = 0
			for _, r := range e.Finish(now) {
				i := r.Owner.(int)
				if r.Generated() == 1 {
					out[i].first, out[i].cached = now, r.Cached()
				}
				if r.Done() {
					done = append(done, i)
				}
			}
			return done
		},
	})
	return out, e.State(ends).Preemptions
}

// atOnce drives the engine of this package.
func atOnce(cfg enginesim.Config, load []turn) ([]seen, *Engine) {
	e := New(cfg, enginesim.Times{})
	return play(load, driven{
		add: func(i int, now time.Duration) bool {
			t := &load[i]
			return e.Add(&Request{Prompt: t.prompt, Answer: t.answer, Name: t.seed, Owner: i}, now) == nil
		},
		begin: e.Begin, ends: e.Ends,
		finish: func(now time.Duration, out []seen) (done []int) {
			first, last := e.Finish()
			for _, r := range first {
				i := r.Owner.(int)
				out[i].first, out[i].cached = now, r.Cached()
			}
			for _, r := range last {
				done = append(done, r.Owner.(int))
			}
			return done
		},
	}), e
}

// TestSameAsSteps holds that each request gets its first and its last token when it does by single steps, as long as
// nothing is evicted.
func TestSameAsSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		load := conversations(rng, rapid.IntRange(1, 30).Draw(rt, "n"), rapid.IntRange(1, 5).Draw(rt, "turns"),
			time.Duration(rapid.IntRange(1, 500).Draw(rt, "ms"))*time.Millisecond)
		cfg := enginesim.Config{
			MaxNumSeqs: rapid.IntRange(1, 20).Draw(rt, "seqs"), NumBlocks: 20_000, MaxModelLen: 1 << 20,
			MaxBatchedTokens: rapid.SampledFrom([]int{100, 256, 2048}).Draw(rt, "budget"),
			MaxQueued:        rapid.SampledFrom([]int{-1, 2, 100}).Draw(rt, "queued"),
		}
		want, _ := bySteps(cfg, load)
		got, e := atOnce(cfg, load)
		for i := range want {
			if got[i] != want[i] {
				rt.Fatalf("request %d: %+v, by single steps %+v", i, got[i], want[i])
			}
		}
		if e.cache.used != 0 || e.Load() != 0 {
			rt.Fatalf("%d tokens in use and %d requests at the end", e.cache.used, e.Load())
		}
	})
}

// TestLikeStepsWithEvictions compares the cached share and times of an engine that is short of memory with those by
// single steps, where memory is in blocks.
func TestLikeStepsWithEvictions(t *testing.T) {
	for _, blocks := range []int{150, 300, 600, 1200, 2400} {
		load := conversations(rand.New(rand.NewPCG(7, 7)), 200, 4, 300*time.Millisecond)
		cfg := enginesim.Config{NumBlocks: blocks, MaxQueued: -1}
		want, preempted := bySteps(cfg, load)
		got, e := atOnce(cfg, load)
		sum := func(all []seen) (cached, ttft float64) {
			for i := range all {
				cached += float64(all[i].cached)
				ttft += (all[i].first - all[i].sent).Seconds()
			}
			return cached, ttft
		}
		wantCached, wantTTFT := sum(want)
		gotCached, gotTTFT := sum(got)
		if r := gotCached / wantCached; r < 0.95 || r > 1.05 {
			t.Errorf("%d blocks: %.3f times as much cached", blocks, r)
		}
		if r := gotTTFT / wantTTFT; r < 0.95 || r > 1.05 {
			t.Errorf("%d blocks: %.3f times as long to first tokens", blocks, r)
		}
		t.Logf("%d blocks: cached %.0f of %.0f, TTFT %.1f of %.1f s, %d preemptions of %d", blocks, gotCached,
			wantCached, gotTTFT, wantTTFT, e.Preemptions(), preempted)
	}
}

// TestComputedPrompt holds that a prompt that was computed elsewhere takes memory and one step, is found by others, and
// is computed here if its memory is taken.
func TestComputedPrompt(t *testing.T) {
	times := enginesim.DefaultTimes()
	for _, blocks := range []int{200, 72} {
		e := New(enginesim.Config{NumBlocks: blocks, MaxQueued: -1}, times)
		prompt := []Part{{Name: 1, Tokens: 1000}}
		r := &Request{Prompt: prompt, Answer: 40, Name: 2, Computed: true}
		other := &Request{Prompt: []Part{{Name: 3, Tokens: 100}}, Answer: 40, Computed: true}
		var now, first, last time.Duration
		for _, q := range []*Request{other, r} {
			if err := e.Add(q, 0); err != nil {
				t.Fatal(err)
			}
		}
		for e.Begin(0); e.Ends() > 0; e.Begin(now) {
			now = e.Ends()
			got, done := e.Finish()
			if slices.Contains(got, r) {
				first = now
			}
			if slices.Contains(done, r) {
				last = now
			}
		}
		if want := 10 * time.Millisecond; first <= 0 || first > want || r.Cached() != 0 || e.Cached(prompt) < 900 {
			t.Errorf("first token after %v, %d tokens were cached, %d are", first, r.Cached(), e.Cached(prompt))
		}
		if again := last > time.Second/2; again != (e.Preemptions() > 0) || again != (blocks < 100) {
			t.Errorf("%d blocks: %v, %d preemptions", blocks, last, e.Preemptions())
		}
	}
}
