package simulate

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/loadgen"
	"github.com/warmgate/warmgate/internal/simulate/engine"
	"github.com/warmgate/warmgate/lb/prompt"
)

func TestEventsInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var q events
		type pair struct {
			at time.Duration
			i  int32
		}
		var want []pair
		for i, at := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(rt, "times") {
			q.add(time.Duration(at), sends, int32(i))
			want = append(want, pair{time.Duration(at), int32(i)})
		}
		slices.SortStableFunc(want, func(a, b pair) int { return int(a.at - b.at) })
		for _, w := range want {
			if e := q.next(); e.at != w.at || e.number != w.i {
				rt.Fatalf("%+v, want %+v", e, w)
			}
		}
		if q.count[sends] != 0 {
			rt.Fatalf("%d left", q.count[sends])
		}
	})
}

// TestSeriesHalves holds that longer points have the sums, and of requests under way the last that are known.
func TestSeriesHalves(t *testing.T) {
	s := newSeries()
	*s.at(0) = Point{Sent: 1, Served: 2, Open: 7}
	*s.at(s.every) = Point{Sent: 2}
	*s.at(2 * s.every) = Point{Served: 1, Open: 3}
	*s.at(3 * s.every) = Point{Served: 1, Open: 2}
	s.halve()
	want := []Point{{Sent: 3, Served: 2, Open: 7}, {Served: 2, Open: 2}}
	if !slices.Equal(s.points, want) {
		t.Errorf("%+v, want %+v", s.points, want)
	}
}

// chains returns the blocks of each turn of a conversation, by the text and by the parts.
func chains(rng *rand.Rand, turns int) (text, parts [][]prompt.Block, lengths []int) {
	chainer, c := prompt.NewChainer([16]byte{1}, 512), cutter{size: 512}
	messages := []loadgen.Message{{Role: "system", Content: loadgen.Text(rng, 500)}}
	list := []engine.Part{{Name: 1, Tokens: 500}}
	for k := range turns {
		q, a := 1+rng.IntN(400), 1+rng.IntN(400)
		messages = append(messages, loadgen.Message{Role: "user", Content: loadgen.Text(rng, q)})
		list = append(list, engine.Part{Name: uint64(10 * (k + 1)), Tokens: q})
		body, err := loadgen.ConversationBody("m", messages, 10, true)
		if err != nil {
			panic(err) // texts always marshal
		}
		_, p, err := prompt.Read(body, true)
		if err != nil {
			panic(err)
		}
		blocks, _ := chainer.Chain(body, &p)
		cut, length := c.cut(&Request{Prompt: list})
		text, parts, lengths = append(text, slices.Clone(blocks)), append(parts, cut), append(lengths, length)
		messages = append(messages, loadgen.Message{Role: "assistant", Content: loadgen.Text(rng, a)})
		list = append(list, engine.Part{Name: uint64(10*(k+1) + 1), Tokens: a, Answer: true})
	}
	return text, parts, lengths
}

// texts returns the blocks of each turn of a conversation that is one text, by the text and by the parts.
func texts(rng *rand.Rand, first, turns int) (text, parts [][]prompt.Block, ends []int) {
	chainer, c := prompt.NewChainer([16]byte{1}, 512), cutter{size: 512}
	whole := loadgen.Text(rng, first)
	list := []engine.Part{{Name: 1, Tokens: first}}
	add := func() {
		n := 1 + rng.IntN(400)
		whole += loadgen.Text(rng, n)
		list = append(list, engine.Part{Name: uint64(10 * len(list)), Tokens: n})
	}
	for range turns {
		add()
		body, err := json.Marshal(map[string]string{"model": "m", "prompt": whole})
		if err != nil {
			panic(err) // texts always marshal
		}
		_, p, err := prompt.Read(body, true)
		if err != nil {
			panic(err)
		}
		blocks, _ := chainer.Chain(body, &p)
		cut, length := c.cut(&Request{Prompt: list, OneMessage: true, OneText: true})
		text, parts, ends = append(text, slices.Clone(blocks)), append(parts, cut), append(ends, length)
		add()
	}
	return text, parts, ends
}

// known returns up to which byte the blocks are known where the prompt before was recorded, as stores look it up.
func known(before, blocks []prompt.Block) (end int) {
	has := map[uint64]bool{}
	for _, b := range before {
		has[b.Key] = has[b.Key] || !b.Inner
	}
	last := 0
	for i, b := range blocks {
		if !b.Inner && !has[b.Key] {
			break
		}
		if !b.Inner {
			last, end = i, b.End
		}
	}
	for _, b := range blocks[last+1:] {
		if b.Inner && !has[b.Key] {
			break
		}
		if b.Inner {
			end = b.End
		}
	}
	return end
}

// TestBlocksOfOneText holds the same of prompts that are one text, and that all of the prompt before is known but for a
// piece at its end.
func TestBlocksOfOneText(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		text, parts, ends := texts(rng, 1+rng.IntN(25_000), 9)
		for k := 1; k < len(text); k++ {
			const most = 600
			want, got := known(text[k-1], text[k]), known(parts[k-1], parts[k])
			if got < ends[k-1]-most || got > ends[k-1] || want-got < -most || want-got > most {
				t.Errorf("seed %d, turn %d: %d bytes of %d are known, by the text %d", seed, k, got, ends[k-1], want)
			}
			for i, b := range parts[k] {
				if b.Inner && (!b.Fine || i == 0) {
					t.Fatalf("seed %d, turn %d, block %d: %+v", seed, k, i, b)
				}
			}
		}
	}
}

// matched returns up to which byte two prompts have blocks in common.
func matched(before, after []prompt.Block) (end int) {
	for i := range min(len(before), len(after)) {
		if before[i].Key != after[i].Key {
			break
		}
		end = after[i].End
	}
	return end
}

// TestBlocksLikeText holds that of the prompts of a conversation as much is known to be in common by their parts as by
// their text, to a block.
func TestBlocksLikeText(t *testing.T) {
	for seed := range uint64(20) {
		text, parts, lengths := chains(rand.New(rand.NewPCG(seed, 1)), 12)
		for k := 1; k < len(text); k++ {
			want, got := matched(text[k-1], text[k]), matched(parts[k-1], parts[k])
			if d := float64(got-want) / float64(lengths[k]); d < -0.06 || d > 0.06 {
				t.Errorf("seed %d, turn %d: %d bytes of %d in common, by the text %d", seed, k, got, lengths[k], want)
			}
		}
	}
}

// TestSessionsAreWhatTheySay holds the lengths of a described load, and that each turn continues the one before.
func TestSessionsAreWhatTheySay(t *testing.T) {
	s := small()
	l := s.New(3)
	l.Begin(func(time.Duration, int) {})
	var before []engine.Part
	sessions, question, answer, n := map[uint64]bool{}, 0, 0, 0
	for {
		r := l.Send(0, 7)
		if r == nil {
			break
		}
		if len(before) > 0 && !slices.Equal(r.Prompt[:len(before)], before) {
			t.Fatalf("%v does not continue %v", r.Prompt, before)
		}
		n++
		sessions[r.Session] = true
		question += r.Prompt[len(r.Prompt)-1].Tokens
		answer += r.Answer
		before = append(slices.Clone(r.Prompt), engine.Part{Name: r.Name, Tokens: r.Answer, Answer: true})
		if len(r.Prompt) == 2*s.Turns {
			before = nil
		}
		l.Ended(0, 7, r, true)
	}
	about := func(sum, want int) bool { return sum > n*want*95/100 && sum < n*want*105/100 }
	if n != s.Requests || len(sessions) != n/s.Turns || !about(question, s.Question) || !about(answer, s.Answer) {
		t.Errorf("%d requests in %d sessions, %d tokens of questions and %d of answers", n, len(sessions), question,
			answer)
	}
}
