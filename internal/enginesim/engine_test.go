package enginesim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// lab is an engine and a clock.
type lab struct {
	*Engine
	t   *testing.T
	now time.Duration
}

// newLab makes an engine with blocks of 4 tokens and round times: 10 ms per prompt, 1 ms per prompt token, 5 ms per
// decode step, 1 ms per request in it.
func newLab(t *testing.T, cfg Config) *lab {
	cfg.BlockSize = 4
	return &lab{Engine: New(cfg, Times{
		Speed: 1, PrefillOverheadMS: 10, PrefillTokenMS: 1, DecodeStepMS: 5, DecodeSeqMS: 1,
	}), t: t}
}

// prompt is a prompt of n tokens that shares its beginning with prompts of the same letter.
func prompt(letter string, n int) []byte {
	return []byte(strings.Repeat(letter, n*BytesPerToken))
}

// send submits a request for an answer of so many tokens.
func (l *lab) send(prompt []byte, answer int) *Request {
	l.t.Helper()
	q := &Request{Prompt: slices.Clone(prompt), Seed: 1, Tokens: answer}
	if err := l.Add(q, l.now); err != nil {
		l.t.Fatal(err)
	}
	return q
}

// next runs one engine step and returns it.
func (l *lab) next() step {
	l.now += l.Begin(l.now)
	l.Finish(l.now)
	return l.step
}

// drain runs until nothing is left.
func (l *lab) drain() {
	l.t.Helper()
	for range 10000 {
		if l.Idle() {
			return
		}
		l.next()
	}
	l.t.Fatal("the scheduler does not come to an end")
}

func TestStepTime(t *testing.T) {
	times := newLab(t, Config{}).times
	fast := times
	fast.Speed = 2
	for _, c := range []struct {
		name  string
		times Times
		step  step
		ms    int
	}{
		{"empty", times, step{}, 0},
		{"prefill", times, step{started: 1, prefill: 30}, 40},
		{"two prompts", times, step{started: 2, prefill: 30}, 50},
		{"later chunk", times, step{prefill: 30}, 30},
		{"decode one", times, step{decodes: 1}, 6},
		{"decode ten", times, step{decodes: 10}, 15},
		{"both", times, step{started: 1, prefill: 30, decodes: 10}, 55},
		{"twice as fast", fast, step{started: 1, prefill: 30}, 20},
	} {
		st := &c.step
		got := c.times.Step(st.started, st.prefill, st.decodes, st.loads)
		if got != time.Duration(c.ms)*time.Millisecond {
			t.Errorf("%s: %v, want %d ms", c.name, got, c.ms)
		}
	}
}

// TestSteps lists what each step of a scenario does.
func TestSteps(t *testing.T) {
	type want struct{ started, prefill, decodes int }
	for _, c := range []struct {
		name string
		cfg  Config
		load func(*lab)
		want []want
	}{
		{"one request", Config{}, func(l *lab) { l.send(prompt("a", 6), 3) }, []want{{1, 6, 0}, {0, 0, 1}, {0, 0, 1}}},
		{"prompts share a step", Config{}, func(l *lab) {
			l.send(prompt("a", 6), 2)
			l.send(prompt("b", 7), 2)
		}, []want{{2, 13, 0}, {0, 0, 2}}},
		{"long prompt in chunks", Config{MaxBatchedTokens: 10}, func(l *lab) { l.send(prompt("a", 25), 2) }, []want{
			{1, 10, 0}, {0, 10, 0}, {0, 5, 0}, {0, 0, 1},
		}},
		{"decode goes before a chunk", Config{MaxBatchedTokens: 10}, func(l *lab) {
			l.send(prompt("a", 4), 4)
			l.send(prompt("b", 12), 1)
		}, []want{{2, 10, 0}, {0, 6, 1}, {0, 0, 1}, {0, 0, 1}}},
		{"one slot serialises", Config{MaxNumSeqs: 1}, func(l *lab) {
			l.send(prompt("a", 4), 2)
			l.send(prompt("b", 4), 2)
		}, []want{{1, 4, 0}, {0, 0, 1}, {1, 4, 0}, {0, 0, 1}}},
		{"cached prefix is not computed", Config{MaxNumSeqs: 1}, func(l *lab) {
			l.send(prompt("a", 9), 1)
			l.send(prompt("a", 9), 1)
		}, []want{{1, 9, 0}, {1, 1, 0}}},
		{"last token is computed even if cached", Config{MaxNumSeqs: 1}, func(l *lab) {
			l.send(prompt("a", 8), 1)
			l.send(prompt("a", 8), 1)
		}, []want{{1, 8, 0}, {1, 4, 0}}},
		{"prefix of a running sequence", Config{}, func(l *lab) {
			l.send(prompt("a", 8), 3)
			l.next()
			l.send(prompt("a", 9), 1)
		}, []want{{1, 1, 1}, {0, 0, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, c.cfg)
			c.load(l)
			var got []want
			for !l.Idle() {
				st := l.next()
				got = append(got, want{st.started, st.prefill, st.decodes})
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("steps %v, want %v", got, c.want)
			}
		})
	}
}

func TestAnswerIsCachedForTheNextTurn(t *testing.T) {
	l := newLab(t, Config{})
	first := l.send(prompt("a", 8), 8)
	l.drain()
	next := l.send(append(slices.Clone(first.data), prompt("b", 4)...), 1)
	l.drain()
	// The last token of an answer is never computed, so its block is not complete.
	if next.cached != 12 {
		t.Errorf("%d tokens of the conversation were cached, want 12", next.cached)
	}
}

func TestQueueIsCapped(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 2, MaxQueued: 3})
	for range 5 {
		l.send(prompt("a", 4), 1)
	}
	refused := &Request{Prompt: prompt("a", 4), Seed: 1, Tokens: 1}
	if err := l.Add(refused, l.now); err != ErrBusy {
		t.Errorf("the sixth request: %v, want ErrBusy", err)
	}
	if l.stats.Rejected != 1 {
		t.Errorf("%d rejections counted, want 1", l.stats.Rejected)
	}
	l.next()
	l.send(prompt("a", 4), 1)
	l.drain()
	unlimited := newLab(t, Config{MaxNumSeqs: 1, MaxQueued: -1})
	for range 1000 {
		unlimited.send(prompt("a", 4), 1)
	}
}

func TestRequestsWaitForBlocks(t *testing.T) {
	l := newLab(t, Config{NumBlocks: 8})
	first := l.send(prompt("a", 20), 4) // 5 blocks, then 6
	second := l.send(prompt("b", 16), 1)
	l.next()
	if first.state != stateRunning || second.state != stateWaiting || l.Queued() != 1 {
		t.Fatalf("states %d, %d with %d queued, want the second to queue", first.state, second.state, l.Queued())
	}
	l.Abort(first, l.now)
	if l.next(); second.state != stateFinished {
		t.Errorf("the second request is in state %d after the first has left", second.state)
	}
}

func TestPreemption(t *testing.T) {
	l := newLab(t, Config{NumBlocks: 8})
	old := l.send(prompt("a", 12), 12)
	young := l.send(prompt("b", 12), 12)
	l.drain()
	if l.stats.Preemptions == 0 || old.preemptions != 0 || young.preemptions == 0 {
		t.Errorf("preempted %d times: old %d, young %d; want only the young one", l.stats.Preemptions, old.preemptions,
			young.preemptions)
	}
	alone := newLab(t, Config{NumBlocks: 8})
	want := alone.send(prompt("b", 12), 12)
	alone.drain()
	if string(young.data) != string(want.data) {
		t.Errorf("the preempted answer is %q, want %q", young.data, want.data)
	}
	if l.cache.free != 8 {
		t.Errorf("%d blocks free at the end, want 8", l.cache.free)
	}
}

func TestAbortInEveryState(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1})
	running, waiting := l.send(prompt("a", 8), 9), l.send(prompt("b", 8), 9)
	l.Begin(l.now)
	l.Abort(running, l.now) // in the middle of a step
	l.Abort(waiting, l.now)
	l.Finish(l.now)
	l.Abort(running, l.now)
	if !l.Idle() || l.cache.free != l.cfg.NumBlocks || running.generated != 0 {
		t.Errorf("idle %v, %d of %d blocks free, %d tokens", l.Idle(), l.cache.free, l.cfg.NumBlocks, running.generated)
	}
	if n := l.stats.Finished[FinishAbort]; n != 2 {
		t.Errorf("%d aborts counted, want 2", n)
	}
	if !running.Done() || !waiting.Done() {
		t.Error("the handlers were not notified")
	}
}

// TestGaugesShowSteps checks that /metrics lags behind by up to a step and is not left behind.
func TestGaugesShowSteps(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1, NumBlocks: 8})
	show := func(what string, want Gauges) {
		t.Helper()
		if l.shown != want {
			t.Errorf("%s: %+v, want %+v", what, l.shown, want)
		}
	}
	first := l.send(prompt("a", 4), 5)
	show("before the first step", Gauges{})
	l.Begin(l.now)
	second := l.send(prompt("b", 4), 5)
	show("in the first step", Gauges{Running: 1, KVUsage: 1. / 8})
	l.Finish(l.now)
	show("after the first step", Gauges{Running: 1, Waiting: 1, KVUsage: 1. / 8})
	l.Abort(first, l.now)
	l.Abort(second, l.now)
	show("when both have left", Gauges{})
}

func TestIntegrals(t *testing.T) {
	l := newLab(t, Config{MaxNumSeqs: 1})
	l.now = 100 * time.Millisecond // idle until here
	l.send(prompt("a", 10), 1)     // 20 ms
	l.send(prompt("b", 10), 1)     // waits for them, then 20 ms
	l.drain()
	l.account(l.now + time.Second)
	for _, c := range []struct {
		name      string
		got, want time.Duration
	}{
		{"idle", l.stats.idle, 1100 * time.Millisecond},
		{"waited", l.stats.waited, 20 * time.Millisecond},
		{"queued", l.stats.queued, 20 * time.Millisecond},
	} {
		if c.got != c.want {
			t.Errorf("%s %v, want %v", c.name, c.got, c.want)
		}
	}
}

// TestSchedulerInvariants drives random traffic with aborts through small servers and checks
// that limits hold in every step, that nothing is lost and that no block leaks.
func TestSchedulerInvariants(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			l := newLab(t, Config{
				MaxNumSeqs: 1 + r.IntN(4), NumBlocks: 12 + r.IntN(20),
				MaxBatchedTokens: 4 + r.IntN(30), MaxQueued: -1,
			})
			var kept, left []*Request
			for range 60 {
				for range r.IntN(3) {
					kept = append(kept, l.send(prompt(string(rune('a'+r.IntN(3))), 1+r.IntN(30)), 1+r.IntN(16)))
				}
				if len(kept) > 0 && r.IntN(4) == 0 {
					i := r.IntN(len(kept))
					l.Abort(kept[i], l.now)
					left = append(left, kept[i])
					kept = slices.Delete(kept, i, i+1)
				}
				checkStep(t, l, l.next())
			}
			l.drain()
			for _, q := range kept {
				if q.state != stateFinished || q.generated != q.Tokens || !q.Done() {
					t.Errorf("state %d with %d of %d tokens", q.state, q.generated, q.Tokens)
				}
			}
			if n := l.stats.Finished[FinishLength] + l.stats.Finished[FinishAbort]; n != int64(len(kept)+len(left)) {
				t.Errorf("%d ends counted of %d requests", n, len(kept)+len(left))
			}
			checkCache(t, l.cache, nil)
		})
	}
}

func checkStep(t *testing.T, l *lab, st step) {
	t.Helper()
	tokens := 0
	for _, w := range st.work {
		tokens += w.tokens
		if w.tokens < 1 {
			t.Fatalf("a sequence got %d tokens of a step", w.tokens)
		}
	}
	if tokens > l.cfg.MaxBatchedTokens || len(st.work) > l.cfg.MaxNumSeqs || st.prefill+st.decodes != tokens {
		t.Fatalf("step of %d tokens (%d prefill, %d decode) for %d sequences", tokens, st.prefill, st.decodes,
			len(st.work))
	}
	if len(st.work) == 0 && !l.Idle() {
		t.Fatal("an engine with work did nothing")
	}
	var held [][]int32
	for _, q := range l.running {
		held = append(held, q.blocks)
	}
	checkCache(t, l.cache, held)
}
