package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A body has the same API for every path that names none, whatever API that is.
func TestPathsWithoutAPI(t *testing.T) {
	for path := Embeddings; path <= Gemini; path++ {
		info, _, err := ReadAs(path, []byte(`{"prompt":"ab"}`), true)
		if err != nil || info.API != Completions {
			t.Errorf("path of %d: %+v, %v", path, info, err)
		}
	}
}

// Of empty prompts for several APIs one counts, so that the API is known.
func TestSeveralEmptyPrompts(t *testing.T) {
	if info, err := Scan([]byte(`{"messages":[],"prompt":"","inputs":""}`), true); err != nil || info.API != Chat {
		t.Errorf("%+v, %v", info, err)
	}
}

// Of prompts for several APIs the longest counts, where a token given as a number is as long as four bytes; of equal
// ones the first. The others are no part of the chain.
func TestLongestPrompt(t *testing.T) {
	ids := strings.Repeat("1,", 99) + "1"
	for size, want := range map[int]Info{399: {TokenIDs: 100}, 400: {TokenIDs: 100}, 401: {TextBytes: 401}} {
		body := fmt.Sprintf(`{"input_ids":[%s],"inputs":"%s"}`, ids, strings.Repeat("x", size))
		if got, err := Scan([]byte(body), true); err != nil || got != want {
			t.Errorf("100 tokens or %d bytes: %+v, %v, want %+v", size, got, err, want)
		}
	}
	text := func(inputs, textInput string) []Block {
		return chainOf(t, `{"inputs":"`+inputs+words(1, 500)+`","text_input":"`+textInput+words(1, 500)+`"}`)
	}
	first := text("ab", "ab")
	if !slices.Equal(text("ab", "cd"), first) {
		t.Error("the second of two prompts of one length is part of the chain")
	}
	if slices.Equal(text("cd", "ab"), first) {
		t.Error("the first of two prompts of one length is no part of the chain")
	}
}

// A limit may have up to 32 characters. A fraction is rounded down.
func TestCounts(t *testing.T) {
	for number, want := range map[string]int{
		"1": 1, "1.9": 1, "0.9": 0, "-1": 0, "1e3": 1000, "1e-400": 0, "1e400": maxCount, "-1e400": 0,
		fmt.Sprint(maxCount): maxCount, fmt.Sprint(maxCount - 1): maxCount - 1, fmt.Sprint(maxCount + 1): maxCount,
		"7." + strings.Repeat("0", 30): 7, "7." + strings.Repeat("0", 31): 0,
	} {
		info, err := Scan([]byte(`{"prompt":"a","max_tokens":`+number+`}`), true)
		if err != nil || info.MaxTokens != want {
			t.Errorf("%s: %d, %v, want %d", number, info.MaxTokens, err, want)
		}
	}
}

// An escape counts with the bytes that its character has in UTF-8, half of a surrogate pair for two; also where the
// body ends behind it, but not where it ends within it.
func TestLengthOfEscapes(t *testing.T) {
	for content, want := range map[string]int{
		`\u0000`: 1, `\u007f`: 1, `\u0080`: 2, `\u07ff`: 2, `\u0800`: 3, `\ud7ff`: 3, `\ud800`: 2, `\udfff`: 2,
		`\ue000`: 3, `\uffff`: 3, `\uD83D\uDE00`: 4, `\n\"\\`: 3, `abcdefgh\u00e9`: 10, `\u00e9abcdefgh`: 10,
		`abcdefg\n`: 8, `\nabcdefg`: 8,
	} {
		for _, body := range []string{`{"prompt":"` + content + `"}`, `{"prompt":"` + content} {
			info, err := Scan([]byte(body), false)
			if err != nil || info.TextBytes != want {
				t.Errorf("%s: %+v, %v, want %d bytes of text", body, info, err, want)
			}
		}
	}
	for _, content := range []string{`\`, `\u`, `\u0`, `\u00`, `\u00e`, `\ud83d\`, `\n\`, `\n\u00`} {
		if _, err := Scan([]byte(`{"prompt":"`+content), false); err != nil {
			t.Errorf("%s: %v", content, err)
		}
	}
	for _, content := range []string{`\x`, `\ux`, `\u0x`, `\u00x`, `\u000x`, `\u00e9\x`, `\n\x`, "\x1f", "\n"} {
		if _, err := Scan([]byte(`{"prompt":"`+content), false); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// A literal or number at the very end of a body that was cut off.
func TestEndOfABody(t *testing.T) {
	for body, want := range map[string]bool{
		`{"stream":true`: true, `{"stream":tru`: false, `{"stream":true,`: true, `{"stream":false`: false,
	} {
		if info, err := Scan([]byte(body), false); err != nil || info.Stream != want {
			t.Errorf("%s: %+v, %v", body, info, err)
		}
	}
	for _, tokens := range []string{`[1,01,2,3]`, `[01,2]`, `[00]`, `[1,,2]`} {
		if _, err := Scan([]byte(`{"prompt":`+tokens+`}`), true); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", tokens, err)
		}
	}
}

// What takes time counts towards the values that are parsed: keys as well as what is behind them, a number with a
// fraction twice, and tokens less.
func TestValuesThatCount(t *testing.T) {
	list := func(n int, element string) string {
		return `{"a":[` + strings.Repeat(element+",", n) + element + `],"max_tokens":7}`
	}
	object := func(n int) string {
		return `{"a":{` + strings.Repeat(`"k":1,`, n) + `"k":1},"max_tokens":7}`
	}
	for _, c := range []struct {
		name, body string
		parsed     bool
	}{
		{"members", object(maxValues/2 - 10), true},
		{"more members", object(maxValues/2 + 10), false},
		{"numbers", list(maxValues-20, "-1"), true},
		{"more numbers", list(maxValues+10, "-1"), false},
		{"fractions", list(maxValues/2-20, "-1.5"), true},
		{"more fractions", list(maxValues/2+10, "-1.5"), false},
		{"powers", list(maxValues/2-20, "-1e5"), true},
		{"more powers", list(maxValues/2+10, "-1e5"), false},
		{"tokens", list(4*(maxValues-20), "10"), true},
		{"tokens of one digit", list(4*(maxValues-20), "9"), true},
		{"tokens that are zero", list(4*(maxValues-20), "0"), true},
		{"more tokens", list(4*(maxValues+10), "10"), false},
	} {
		info, err := Scan([]byte(c.body), true)
		if err != nil || (info.MaxTokens == 7) != c.parsed {
			t.Errorf("%s: limit %d, %v; want all of it to be parsed: %v", c.name, info.MaxTokens, err, c.parsed)
		}
	}
}

// Escapes change no key, wherever they are in a text and in a name. A name longer than 1 KiB as the body writes it is
// hashed as it is written.
func TestChainOfEscapedNames(t *testing.T) {
	of := func(model, text string) []Block {
		return chainOf(t, `{"model":"`+model+`","prompt":"`+text+words(1, 300)+text+`"}`)
	}
	plain := of("a", "😀")
	for _, escaped := range [][2]string{{`\u0061`, "😀"}, {"a", `\ud83d\ude00`}, {`\u0061`, `\uD83D\uDE00`}} {
		if !slices.Equal(of(escaped[0], escaped[1]), plain) {
			t.Errorf("%q has another chain", escaped)
		}
	}
	for size, same := range map[int]bool{maxModelName: true, maxModelName + 1: false} {
		name := strings.Repeat("m", size-len(`""\u0061`))
		if got := slices.Equal(of(name+`\u0061`, ""), of(name+"a", "")); got != same {
			t.Errorf("a name of %d bytes: unescaped %v, want %v", size, got, same)
		}
	}
}

// The role of a message may be escaped, unless it is longer than 64 bytes.
func TestChainOfEscapedRoles(t *testing.T) {
	of := func(role string) int {
		question, answer := message("user", 1, 300), `{"role":"`+role+`","content":"`+words(2, 500)+`"}`
		blocks := chainOf(t, chat(question, answer, message("user", 3, 200)))
		return blocks[common(t, chainOf(t, chat(question)), blocks)-1].End
	}
	if user, model := of("user"), of("assistant"); user > 400 || model < 800 {
		t.Fatalf("a question is known with %d bytes, with an answer with %d", user, model)
	}
	long := `\u0061\u0073\u0073\u0069\u0073\u0074\u0061n\u0074` // 50 bytes, with the quotes 52
	for _, role := range []string{`\u0061ssistant`, long, `assist\u0061nt`} {
		if got := of(role); got < 800 {
			t.Errorf("%s: %d bytes are known", role, got)
		}
	}
}

// A message ends a block from a quarter of its size on, and not before.
func TestShortestBlockOfAMessage(t *testing.T) {
	const size = 256
	c := NewChainer(testSecret, size)
	shortest := 0
	for n := 1; n < size*3/4; n++ {
		body := []byte(chat(`{"content":"`+strings.Repeat("x", n)+`"}`, message("user", 1, 2000)))
		_, parts, err := Read(body, true)
		if err != nil {
			t.Fatal(err)
		}
		blocks, _ := c.Chain(body, &parts)
		if blocks[0].End < size && shortest == 0 {
			shortest = blocks[0].End
		}
		if (blocks[0].End < size) != (shortest > 0) {
			t.Errorf("a message of %d bytes ends no block, although a shorter one does", n)
		}
	}
	if shortest != size/4 {
		t.Errorf("the shortest block of a message has %d bytes, want %d", shortest, size/4)
	}
}
