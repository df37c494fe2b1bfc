package prompt

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// blockBytes is the default size of the first blocks.
const blockBytes = 512

// talk is a conversation: messages by role.
type talk [][2]string

func (c talk) add(role, text string) talk { return append(c[:len(c):len(c)], [2]string{role, text}) }

// json returns the request with the conversation so far.
func (c talk) json() string {
	var b strings.Builder
	for i, m := range c {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"role":"` + m[0] + `","content":"` + m[1] + `"}`)
	}
	return `{"model":"m","messages":[` + b.String() + `]}`
}

// letters returns n bytes of text, of the 25 letters from a on.
func letters(r *rand.Rand, a byte, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = a + byte(r.IntN(25))
	}
	return string(text)
}

// holder is an endpoint that retains all that it was sent, as a store records it.
type holder map[uint64]bool

// serve records that the endpoint was sent a request.
func (h holder) serve(t testing.TB, c *Chainer, body string) {
	blocks, _ := blocksOf(t, c, body)
	for _, b := range blocks {
		h[b.Key] = true
	}
}

// credit returns how many bytes of the request the endpoint is recorded to have, and how many there are.
func (h holder) credit(t testing.TB, c *Chainer, body string) (known, length int) {
	blocks, length := blocksOf(t, c, body)
	for _, b := range blocks {
		if h[b.Key] {
			known = b.End
		}
	}
	return known, length
}

func blocksOf(t testing.TB, c *Chainer, body string) ([]Block, int) {
	t.Helper()
	_, parts, err := Read([]byte(body), true)
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return c.Chain([]byte(body), &parts)
}

// A short question ends a block, so that only an endpoint that was sent it is assumed to have the answer.
func TestShortQuestion(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	c := NewChainer(testSecret, blockBytes)
	begin := talk{{"system", letters(r, 'a', 300)}}
	turns := begin.add("user", letters(r, 'a', 60))
	next := turns.add("assistant", letters(r, 'a', 2000)).add("user", letters(r, 'a', 60))
	other := begin.add("user", letters(r, 'A', 60))
	a, b := holder{}, holder{}
	a.serve(t, c, turns.json())
	b.serve(t, c, other.json())
	b.serve(t, c, other.add("assistant", letters(r, 'A', 2000)).add("user", letters(r, 'A', 60)).json())
	if known, length := b.credit(t, c, next.json()); known < 300 || known > 340 {
		t.Errorf("who has the system prompt, 300 bytes, is credited %d of %d", known, length)
	}
	if known, length := a.credit(t, c, next.json()); known < 300+60+2000 || known > length-60 {
		t.Errorf("who has answered is credited %d of %d", known, length)
	}
}

// For any conversation: an endpoint that had all but the new question is credited for that, except for 1/16 or a block,
// or 1/8 of a very long one; and one that has the system prompt is credited for at most a block beyond that.
func TestTurnsAreCredited(t *testing.T) {
	const most = 20 << 10 // bytes of a message
	lengths := map[string]func(*rand.Rand) int{
		"any":      func(r *rand.Rand) int { return 1 + r.IntN(most) },
		"any size": func(r *rand.Rand) int { return int(math.Exp(r.Float64() * math.Log(most))) },
		"short, or long": func(r *rand.Rand) int {
			if r.IntN(4) > 0 {
				return 1 + r.IntN(100)
			}
			return 1 + r.IntN(most)
		},
	}
	c := NewChainer(testSecret, blockBytes)
	for name, length := range lengths {
		for seed := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, 2))
			system := letters(r, 'a', length(r))
			a, b := holder{}, holder{}
			mine, theirs := talk{{"system", system}}, talk{{"system", system}}
			mine = mine.add("user", letters(r, 'a', length(r)))
			for turn := 0; ; turn++ {
				theirs = theirs.add("user", letters(r, 'A', length(r)))
				a.serve(t, c, mine.json())
				b.serve(t, c, theirs.json())
				theirs = theirs.add("assistant", letters(r, 'A', length(r)))
				question := letters(r, 'a', length(r))
				mine = mine.add("assistant", letters(r, 'a', length(r))).add("user", question)
				const marks = 40 // bytes around a message, as it is hashed
				known, all := a.credit(t, c, mine.json())
				if all > 200<<10 {
					break
				}
				near := max(blockBytes, all/16) + marks
				if all > 128<<10 { // there may be no block to spare for every question
					near = all / 8
				}
				if lost := all - len(question) - known; lost > near {
					t.Errorf("%s, seed %d, turn %d: %d bytes of %d are not credited to who had them", name, seed,
						turn, lost, all)
				}
				if known, all := b.credit(t, c, mine.json()); known > len(system)+near {
					t.Errorf("%s, seed %d, turn %d: %d bytes of %d are "+
						"credited to who had %d", name, seed, turn, known, all,
						len(system))
				}
			}
		}
	}
}

// Questions and answers are recognized by the roles and, in the responses API, the types of the items in a list: an
// endpoint that was sent the beginning is assumed to have the next item if it is a model's.
func TestAnswers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	text := func(n int) string { return letters(r, 'a', n) }
	item := func(role, text string) string { return `{"role":"` + role + `","content":"` + text + `"}` }
	long := text(900)
	for _, tt := range []struct {
		name, field, question, answer string
		has                           bool
	}{
		{"an answer", "messages", item("user", text(50)), item("assistant", long), true},
		{"an escaped role", "messages", item("user", text(50)), item(`\u0061ssistant`, long), true},
		{"an answer to a tool", "messages", item("tool", text(50)), item("assistant", long), true},
		{"an answer of a model", "messages", item("user", text(50)), item("model", long), true},
		{"the role at the end", "messages", item("user", text(50)), `{"content":"` + long + `","role":"assistant"}`, true},
		{
			"two answers", "messages", item("user", text(50)), item("assistant", text(50)) + "," +
				item("assistant", long),
			true,
		},
		{"another question", "messages", item("user", text(50)), item("user", long), false},
		{"the result of a tool", "messages", item("user", text(50)), item("tool", long), false},
		{"a greeting, which clients write", "messages", item("system", text(200)), item("assistant", long), false},
		{"behind something that is no message", "messages", `"` + text(200) + `"`, item("assistant", long), false},
		{
			"a call and its result", "input", item("user", text(50)), `{"type":"function_call","arguments":"` + long + `"}`,
			true,
		},
		{
			"thoughts", "input", `{"type":"function_call_output","output":"` + text(50) + `"}`,
			`{"type":"reasoning","summary":[{"text":"` + long + `"}]}`, true,
		},
		{"a result", "input", item("user", text(50)), `{"type":"function_call_output","output":"` + long + `"}`, false},
		{"no message", "input", item("user", text(50)), `{"text":"` + long + `"}`, false},
	} {
		body := func(items ...string) string {
			return `{"model":"m","` + tt.field + `":[` + item("system", text(0)+long) + "," + strings.Join(items, ",") + `]}`
		}
		c, h := NewChainer(testSecret, blockBytes), holder{}
		h.serve(t, c, body(tt.question))
		known, length := h.credit(t, c, body(tt.question, tt.answer, item("user", text(50))))
		if has := known > length-150; has != tt.has {
			t.Errorf("%s: %d of %d are credited", tt.name, known, length)
		}
	}
}

// Few-shot examples are the same in all requests: an endpoint that has served one of them has the examples, the last
// answer included.
func TestExamplesAreShared(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	examples := talk{{"system", letters(r, 'a', 40)}}
	for range 10 {
		examples = examples.add("user", letters(r, 'a', 40)).add("assistant", letters(r, 'a', 90))
	}
	c, h := NewChainer(testSecret, blockBytes), holder{}
	h.serve(t, c, examples.add("user", letters(r, 'a', 60)).json())
	if known, length := h.credit(t, c, examples.add("user", letters(r, 'a', 60)).json()); known < length-60-40 ||
		known > length-60 {
		t.Errorf("%d bytes of %d are credited", known, length)
	}
}

// However long a list of tools is, there are blocks left for the questions after it.
func TestQuestionsBehindManyTools(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var tools []string
	for range 60 {
		tools = append(tools, `{"type":"function","description":"`+letters(r, 'a', 150)+`"}`)
	}
	with := func(messages talk) string {
		return strings.Replace(messages.json(), `"m"`, `"m","tools":[`+strings.Join(tools, ",")+`]`, 1)
	}
	c, h := NewChainer(testSecret, blockBytes), holder{}
	turns := talk{{"system", letters(r, 'a', 700)}}
	for turn := range 12 {
		turns = turns.add("user", letters(r, 'a', 60))
		h.serve(t, c, with(turns))
		turns = turns.add("assistant", letters(r, 'a', 2000))
		known, length := h.credit(t, c, with(turns.add("user", "")))
		if lost := length - known; lost > 80 {
			t.Fatalf("turn %d: %d bytes of %d are not credited", turn, lost, length)
		}
	}
}

// Where a chain has no block left for a question, an endpoint with the prompt up to the question is not assumed to have
// the answer.
func TestQuestionsWithoutABlock(t *testing.T) {
	c, refused := NewChainer(testSecret, blockBytes), 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 6))
		history := talk{}
		for range 60 + seed {
			history = history.add("user", letters(r, 'a', 30)).add("assistant", letters(r, 'a', 30))
		}
		a, b := holder{}, holder{}
		turns := history.add("user", letters(r, 'a', 100))
		a.serve(t, c, turns.json())
		b.serve(t, c, history.add("user", letters(r, 'A', 100)).json())
		next := turns.add("assistant", letters(r, 'a', 4000)).json()
		common, _ := b.credit(t, c, history.json())
		if known, length := b.credit(t, c, next); known > common+blockBytes {
			t.Errorf("seed %d: %d of %d are credited, %d are in common", seed, known, length, common)
		}
		if known, length := a.credit(t, c, next); known < length-4000 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("every question has a block: the conversations are too short for this test")
	}
}

// How much of a long prompt is in the index, as docs/sizing.md has it: all of one message, and of a conversation of the
// same length the first half at least.
func TestShareOfLongPrompts(t *testing.T) {
	const length, turn = 400_000, 1200
	r := rand.New(rand.NewPCG(1, 2))
	share := func(c talk) (blocks int, part float64) {
		list, all := blocksOf(t, NewChainer(testSecret, blockBytes), c.json())
		return len(list), float64(list[len(list)-1].End) / float64(all)
	}
	if blocks, part := share(talk{}.add("user", letters(r, 'a', length))); blocks != 105 || part < 0.95 {
		t.Errorf("one message: %.2f of it in %d blocks", part, blocks)
	}
	var c talk
	for i := range length / turn {
		c = c.add([]string{"user", "assistant"}[i%2], letters(r, 'a', turn))
	}
	if blocks, part := share(c); blocks != MaxBlocks || part < 0.5 || part > 0.75 {
		t.Errorf("a conversation: %.2f of it in %d blocks", part, blocks)
	}
}
