package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ascii writes JSON as Python's json.dumps does: with \u escapes for all but ASCII.
func ascii(body string) string {
	var b strings.Builder
	for _, r := range body {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

// chinese returns text of n characters, with punctuation, some ASCII words, and emoji.
func chinese(n int) string {
	r := rand.New(rand.NewPCG(7, 7))
	text := make([]rune, 0, n)
	for len(text) < n {
		switch k := r.IntN(60); k {
		case 0:
			text = append(text, '，')
		case 1:
			text = append(text, []rune(" Go 1.26 ")...)
		case 2:
			text = append(text, '😀')
		default:
			text = append(text, rune(0x4e00+r.IntN(0x5000)))
		}
	}
	return string(text[:n])
}

// However text is escaped, its chain is the same, and as much of it is hashed.
func TestEscapedTextIsHashed(t *testing.T) {
	source := strings.Repeat("func f(s string) {\n\tfmt.Printf(\"%s\\n\", s)\n}\n\n", 3000)
	code, err := json.Marshal(source)
	if err != nil {
		t.Fatal(err)
	}
	c := NewChainer(testSecret, blockBytes)
	for name, body := range map[string]string{
		"a prompt of 40,000 characters": `{"model":"m","prompt":"` + chinese(40_000) + `"}`,
		"messages, 40,000 characters together": talk{
			{"system", chinese(8_000)},
			{"user", chinese(2_000)},
			{"assistant", chinese(20_000)},
			{"user", chinese(10_000)},
		}.json(),
		"code":      `{"model":"m","prompt":` + string(code) + `}`,
		"line ends": `{"model":"m","prompt":"` + strings.Repeat(`\n`, 120<<10) + `"}`,
	} {
		plain, length := blocksOf(t, c, body)
		want := slices.Clone(plain)
		got, escaped := blocksOf(t, c, ascii(body))
		if !slices.Equal(got, want) || escaped != length {
			t.Errorf("%s: %d of %d blocks are the same, the length is %d and %d", name, common(t, got, want), len(want),
				escaped, length)
		}
		if last := want[len(want)-1].End; last < length*9/10 {
			t.Errorf("%s: %d of %d bytes are in blocks", name, last, length)
		}
	}
}

// Escapes and the gaps between them are decoded together, for any content and end.
func TestMixedEscapes(t *testing.T) {
	c := NewChainer(testSecret, 16)
	for name, parts := range map[string][2]string{
		"no UTF-8":        {"a\xffb", "\\u0061\xff\\u0062"},
		"nothing but":     {"\xff", "\xff"},
		"half a pair":     {"\ufffda", `\ud83d\u0061`},
		"halves turned":   {"\ufffd\ufffd", `\ude00\ud83d`},
		"quotes":          {`\"`, `\u0022`},
		"half characters": {"a\xe4b", "\\u0061\xe4\\u0062"},
	} {
		for n := range 150 {
			for gap := range 12 {
				behind := strings.Repeat("g", gap) + `\n` + strings.Repeat("x", 30)
				plain, length := blocksOf(t, c, `{"prompt":"`+strings.Repeat(`\t`, n)+parts[0]+behind+`"}`)
				want := slices.Clone(plain)
				got, escaped := blocksOf(t, c, `{"prompt":"`+strings.Repeat(`\u0009`, n)+parts[1]+behind+`"}`)
				if !slices.Equal(got, want) || length != escaped {
					t.Fatalf("%s behind %d escapes, with %d letters in between: "+
						"%d of %d blocks", name, n, gap, common(t, got, want),
						len(want))
				}
			}
		}
	}
}

// Text after the last block counts by its unescaped length.
func TestEscapedTextThatIsNotHashed(t *testing.T) {
	c := NewChainer(testSecret, 64)
	for name, body := range map[string]string{
		"in one text": `{"model":"m","prompt":"` + chinese(200_000) + `"}`,
		"in many": `{"model":"m","prompt":["` + chinese(50_000) + `","` + chinese(50_000) + `","` + chinese(50_000) +
			`"]}`,
		"in an object": `{"model":"m","messages":[{"role":"user","content":[{"text":"` + chinese(100_000) + `"},{"text":"` +
			chinese(50_000) +
			`"}]}]}`,
	} {
		blocks, length := blocksOf(t, c, body)
		share := float64(blocks[len(blocks)-1].End) / float64(length)
		if len(blocks) != MaxBlocks || share > 0.9 {
			t.Fatalf("%s: %d blocks are %v of it", name, len(blocks), share)
		}
		blocks, escaped := blocksOf(t, c, ascii(body))
		if got := float64(blocks[len(blocks)-1].End) / float64(escaped); got < share-0.01 || got > share+0.01 {
			t.Errorf("%s: escaped, %v of it are in blocks, else %v", name, got, share)
		}
	}
}

// FuzzEscapes compares the hashing of text with encoding/json: escapes of every kind have the same meaning.
func FuzzEscapes(f *testing.F) {
	f.Add("你好 <b>\n\"😀\\ a/b", uint8(3))
	f.Add(strings.Repeat("\n", 300)+"x", uint8(1))
	f.Fuzz(func(t *testing.T, text string, every uint8) {
		text = strings.ToValidUTF8(text, "?")
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var escaped bytes.Buffer
		for i, r := range []rune(text) {
			switch quoted, _ := json.Marshal(string(r)); {
			case every > 0 && i%int(every) == 0 && r < 0x10000:
				fmt.Fprintf(&escaped, `\u%04X`, r)
			default:
				escaped.WriteString(ascii(string(quoted[1 : len(quoted)-1])))
			}
		}
		c := NewChainer(testSecret, 16)
		want, length := blocksOf(t, c, `{"prompt":`+string(plain)+`}`)
		want = slices.Clone(want)
		got, n := blocksOf(t, c, `{"prompt":"`+escaped.String()+`"}`)
		if !slices.Equal(got, want) || n != length {
			t.Fatalf("%q: %d of %d blocks, %d of %d bytes", text, common(t, got, want), len(want), n, length)
		}
	})
}
