package prompt

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oneText returns the request with a prompt that is one text.
func oneText(field, text string) string { return `{"model":"m","` + field + `":"` + text + `"}` }

// index is an endpoint as stores know it: what it was sent is recorded but for inner blocks, and looked up block by
// block, up to the first one without a record; then come the inner ones behind the last one that has one.
type index map[uint64]bool

func (x index) serve(blocks []Block) (added int) {
	for _, b := range blocks {
		if !b.Inner && !x[b.Key] {
			x[b.Key] = true
			added++
		}
	}
	return added
}

func (x index) known(blocks []Block) (bytes int) {
	last := -1
	for i, b := range blocks {
		if b.Inner {
			continue
		}
		if !x[b.Key] {
			break
		}
		last, bytes = i, b.End
	}
	for _, b := range blocks[last+1:] {
		if last < 0 || b.Inner && !x[b.Key] {
			break
		}
		if b.Inner {
			bytes = b.End
		}
	}
	return bytes
}

// escapes writes a text with lines, quotes and characters that some clients escape.
func escapes(rt *rapid.T, r *rand.Rand, n int) string {
	sets := map[string][]string{
		"plain": {"a", "b", " "},
		"lines": {"a", "b", "c", "d", " ", `\n`},
		"any":   {"a", `\"`, `\u00e9`, `\ud83d\ude00`, "é", `\\`},
	}
	set := sets[rapid.SampledFrom([]string{"plain", "lines", "any"}).Draw(rt, "set")]
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(set[r.IntN(len(set))])
		if r.IntN(1<<12) == 0 {
			b.WriteString("\xff") // doubled
		}
	}
	return b.String()
}

// Of a conversation that is one text all is known but for a piece at its end, as long as a turn adds no more than is
// cut finely and blocks are no longer than that. Its prompts take few more places of an index than their full blocks.
func TestEndsOfTexts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		field := rapid.SampledFrom([]string{"prompt", "text", "inputs", "text_input"}).Draw(rt, "field")
		c, x := NewChainer(testSecret, blockBytes), index{}
		text := escapes(rt, r, rapid.IntRange(1, 110<<10).Draw(rt, "bytes"))
		const marks = 8 // bytes around the text, as it is hashed
		var was []Block
		end := 0
		for range rapid.IntRange(2, 6).Draw(rt, "turns") {
			blocks, length := blocksOf(t, c, oneText(field, text))
			if length > 128<<10 {
				break
			}
			if known := x.known(blocks); end > blockBytes+marks && known < end-TailPart(blockBytes)-marks {
				rt.Fatalf("of %d bytes that were served %d are known", end, known)
			}
			checkFine(rt, was, blocks, end)
			if more := x.serve(blocks); end > 0 && more > 8+4096/TailPart(blockBytes)+1 {
				rt.Fatalf("a turn of %d bytes has taken %d places", length-end, more)
			}
			was, end = append(was[:0], blocks...), length-marks
			text += escapes(rt, r, rapid.IntRange(1, tailLeast*blockBytes-64).Draw(rt, "added"))
		}
	})
}

// checkFine checks that the fine cuts before an earlier prompt's end, up to which the prompt is the same, are among
// that one's, and what is true of any chain.
func checkFine(rt *rapid.T, was, blocks []Block, end int) {
	had := map[Block]bool{}
	for _, b := range was {
		b.Inner = false
		had[b] = true
	}
	last := 0
	for i, b := range blocks {
		if b.Inner && !b.Fine || i == 0 && b.Fine || b.End <= last {
			rt.Fatalf("block %d of %d: %+v behind one to %d", i, len(blocks), b, last)
		}
		last, b.Inner = b.End, false
		if b.Fine && len(was) > 0 && b.End <= end-8 && !had[b] {
			rt.Fatalf("an earlier prompt, of %d bytes, was not cut at %d", end, b.End)
		}
	}
	if len(blocks) > MaxBlocks {
		rt.Fatalf("%d blocks", len(blocks))
	}
}

// Also if what follows a text fills its last block, the fine cuts in it are recorded: no longer prompt has that block.
func TestTextThatEndsBesideABlock(t *testing.T) {
	c := NewChainer(testSecret, blockBytes)
	for n := 6*4096 - 16; n < 6*4096+16; n++ {
		x, text := index{}, words(1, n)[:n]
		blocks, _ := blocksOf(t, c, oneText("prompt", text))
		x.serve(blocks)
		blocks, _ = blocksOf(t, c, oneText("prompt", text+words(2, 100)))
		if known := x.known(blocks); known < n-TailPart(blockBytes)-8 {
			t.Errorf("of %d bytes %d are known", n, known)
		}
	}
}

// Only the end of a whole prompt that is one text is cut finely, and no other key depends on that.
func TestWhatIsCutFinely(t *testing.T) {
	text := words(1, 8000) // 40 KB
	fine := func(body string) (n int) {
		for _, b := range chainOf(t, body) {
			if b.Fine {
				n++
			}
		}
		return n
	}
	if n := fine(oneText("prompt", text)); n < tailLeast {
		t.Errorf("%d fine cuts at the end of a text", n)
	}
	for name, body := range map[string]string{
		"chat":      chat(`{"role":"user","content":"` + text + `"}`),
		"responses": oneText("input", text), "several texts": `{"prompt":["` + text + `"]}`,
		"tokens":         `{"prompt":[` + strings.Repeat("123,", 9999) + `1]}`,
		"format":         `{"input":"` + text + `","text":{"format":{"name":"` + text + `"}}}`,
		"a long one":     oneText("prompt", strings.Repeat(text, 1+maxTailed*testBlock/len(text))),
		"a short one":    oneText("prompt", text[:testBlock]),
		"what is cut":    `{"prompt":"` + text,
		"a system's one": oneText("system", text),
	} {
		_, parts, err := Read([]byte(body), body[len(body)-1] == '}')
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		blocks, _ := NewChainer(testSecret, testBlock).Chain([]byte(body), &parts)
		for _, b := range blocks {
			if b.Fine {
				t.Errorf("%s is cut finely at %d", name, b.End)
				break
			}
		}
	}
}
