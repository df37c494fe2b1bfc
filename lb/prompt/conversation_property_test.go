package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// turn is a message of a conversation, its content in one or more parts.
type turn struct {
	role  string
	parts []string
}

// conversation is a chat request.
type conversation struct {
	model     string
	turns     []turn
	maxTokens int
	n         int
	stream    bool
}

func drawTurn(rt *rapid.T) turn {
	text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \"\\/\n\té😀{}[]:,\u2028")), 0, 120, -1)
	return turn{
		rapid.SampledFrom([]string{"user", "assistant", "system", "tool"}).Draw(rt, "role"),
		rapid.SliceOfN(text, 1, 3).Draw(rt, "parts"),
	}
}

func drawConversation(rt *rapid.T) conversation {
	return conversation{
		model: rapid.SampledFrom([]string{"m", "a/b", "mode\"l"}).Draw(rt, "model"),
		turns: rapid.SliceOfN(rapid.Custom(drawTurn), 1, 8).Draw(rt, "turns"), n: rapid.IntRange(1, 4).Draw(rt, "n"),
		maxTokens: rapid.IntRange(1, 9999).Draw(rt, "max tokens"), stream: rapid.Bool().Draw(rt, "stream"),
	}
}

// write writes the request in one of many ways that mean the same: with other escapes and blanks, and with its
// fields in another order.
func (c *conversation) write(rt *rapid.T) string {
	blank := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(rt, "blank") }
	var messages []string
	for _, t := range c.turns {
		var parts []string
		for _, p := range t.parts {
			parts = append(parts, `{"type":"text",`+blank()+`"text":`+quoted(rt, p)+`}`)
		}
		content := "[" + blank() + strings.Join(parts, blank()+",") + "]"
		if len(t.parts) == 1 {
			content = quoted(rt, t.parts[0])
		}
		messages = append(messages, `{"role":"`+t.role+`",`+blank()+`"content":`+blank()+content+`}`)
	}
	fields := rapid.Permutation([]string{
		`"model":` + blank() + quoted(rt, c.model),
		`"messages":[` + strings.Join(messages, ","+blank()) + blank() + `]`,
		fmt.Sprintf(`"max_tokens":%d`, c.maxTokens), fmt.Sprintf(`"n":%d`, c.n), fmt.Sprintf(`"stream":%v`, c.stream),
		`"user":"someone"`,
	}).Draw(rt, "order")
	return blank() + "{" + strings.Join(fields, blank()+","+blank()) + "}" + blank()
}

// quoted writes a string in which some characters are escaped that need not be.
func quoted(rt *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short, known := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\t': `\t`}[r]
		switch {
		case known:
			b.WriteString(short)
		case r < 0x10000 && rapid.IntRange(0, 5).Draw(rt, "escape") == 0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// A conversation is read as it is meant, however it is written: its limits, and the length of its text without escapes.
func TestConversationsAreRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		body := c.write(rt)
		want := Info{MaxTokens: c.maxTokens, N: c.n, Stream: c.stream, API: Chat}
		for _, turn := range c.turns {
			want.Answered = want.Answered || turn.role == "assistant"
			want.TextBytes += len(turn.role) + len(strings.Join(turn.parts, ""))
		}
		if got, err := Scan([]byte(body), true); err != nil || got != want || !json.Valid([]byte(body)) {
			rt.Fatalf("%s: %+v, %v, want %+v", body, got, err, want)
		}
	})
}

// The blocks of a prompt do not depend on how the request is written.
func TestChainOfAnyWriting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		one, other := c.write(rt), c.write(rt)
		a, b := chainOf(t, one), chainOf(t, other)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			rt.Fatalf("%s\n%v\n%s\n%v", one, a, other, b)
		}
	})
}

// A request that continues a conversation has all of its blocks, in their order.
func TestChainOfAnyContinuation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		c.turns[len(c.turns)-1].role = "user"
		before := chainOf(t, c.write(rt))
		c.turns = append(c.turns, turn{"assistant", []string{"an answer of some length"}}, drawTurn(rt))
		if n := common(t, before, chainOf(t, c.write(rt))); n != len(before) {
			rt.Fatalf("the continuation has %d of %d blocks", n, len(before))
		}
	})
}

// Of the beginning of a body nothing is read that the whole body does not contain, wherever it ends, and that is no
// error.
func TestBeginningsOfConversations(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		body := strings.TrimSpace(c.write(rt))
		whole, err := Scan([]byte(body), true)
		if err != nil {
			rt.Fatal(err)
		}
		cut := body[:rapid.IntRange(0, len(body)-1).Draw(rt, "cut")]
		if _, err := Scan([]byte(cut), true); err == nil {
			rt.Fatalf("%s is complete", cut)
		}
		got, parts, err := Read([]byte(cut), false)
		if err != nil || got.TextBytes > whole.TextBytes || got.MaxTokens != 0 && got.MaxTokens > whole.MaxTokens ||
			got.Stream && !whole.Stream || got.N > whole.N {
			rt.Fatalf("%s: %+v, %v, of %+v", cut, got, err, whole)
		}
		blocks, length := NewChainer(testSecret, testBlock).Chain([]byte(cut), &parts)
		for i, b := range blocks {
			if b.End > length || i > 0 && b.End < blocks[i-1].End {
				rt.Fatalf("%s: block %d ends at %d of %d", cut, i, b.End, length)
			}
		}
	})
}

// A field of the request that is there twice is ambiguous, also with the same value and with escapes in its name.
func TestFieldsThatAreThereTwice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawConversation(rt)
		body := strings.TrimSpace(c.write(rt))
		again := rapid.SampledFrom([]string{
			`"messages":[]`, `"model":"m"`, `"max_tokens":5`, `"n":1`, `"stream":false`, `"\u006dodel":"m"`,
			`"m\u0065ssages":[]`,
		}).Draw(rt, "again")
		if _, err := Scan([]byte(body[:len(body)-1]+","+again+"}"), true); !errors.Is(err, ErrAmbiguous) {
			rt.Fatalf("%s and %s: %v", body, again, err)
		}
	})
}
