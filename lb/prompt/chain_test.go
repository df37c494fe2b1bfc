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

var testSecret = [16]byte{1, 2, 3}

const testBlock = 64

// chainOf returns the chain of a valid body.
func chainOf(t testing.TB, body string, namespace ...string) []Block {
	t.Helper()
	_, parts, err := Read([]byte(body), true)
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	blocks, length := NewChainer(testSecret, testBlock).Chain([]byte(body), &parts, namespace...)
	for i, b := range blocks {
		if b.End > length || b.End <= 0 || i > 0 && b.End < blocks[i-1].End {
			t.Fatalf("%.200s: block %d ends at %d of %d", body, i, b.End, length)
		}
	}
	return slices.Clone(blocks)
}

// common returns how many leading blocks two chains have in common, and fails if they share any after these.
func common(t testing.TB, a, b []Block) int {
	t.Helper()
	n := 0
	for n < min(len(a), len(b)) && a[n].Key == b[n].Key {
		n++
	}
	keys := map[uint64]bool{}
	for _, x := range a[n:] {
		keys[x.Key] = true
	}
	for _, x := range b[n:] {
		if keys[x.Key] {
			t.Fatalf("a key is shared behind the first difference, at %d", n)
		}
	}
	return n
}

// words returns about n bytes of text that depends on the seed everywhere.
func words(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", r.Uint32())
	}
	return b.String()
}

func message(role string, seed uint64, n int) string {
	return `{"role":"` + role + `","content":"` + words(seed, n) + `"}`
}

func chat(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `],"max_tokens":9}`
}

// An appended turn extends the chain and changes no key before it.
func TestChainGrowsWithTheConversation(t *testing.T) {
	var turns []string
	var before []Block
	for i := range 40 {
		turns = append(turns, message([]string{"user", "assistant"}[i%2], uint64(i), 30+i*i))
		now := chainOf(t, chat(turns...))
		if n := common(t, before, now); n != len(before) {
			t.Fatalf("turn %d changes block %d of %d", i, n, len(before))
		}
		before = now
	}
	if len(before) < 60 {
		t.Errorf("%d blocks in the end", len(before))
	}
}

// An answer is cached with its question, although no request has contained it yet.
func TestChainCountsTheAnswer(t *testing.T) {
	question, answer, next := message("user", 1, 300), message("assistant", 2, 500), message("user", 3, 200)
	first, all := chainOf(t, chat(question)), chainOf(t, chat(question, answer, next))
	n := common(t, first, all)
	if n != len(first) {
		t.Fatalf("%d of %d blocks are known", n, len(first))
	}
	given := chainOf(t, chat(question, strings.Replace(answer, "assistant", "user", 1), next))
	if end := given[n-1].End; end < 300 || end > 400 {
		t.Errorf("%d bytes are known of a question of 300 that another follows", end)
	}
	if end := all[n-1].End; end < 800 || end > 900 {
		t.Errorf("%d bytes are known of a question of 300 with an answer of 500", end)
	}
	if last := all[len(all)-1]; last.End < 1000 {
		t.Errorf("the last block ends at %d", last.End)
	}
}

// A changed message changes every key from there on, and none before.
func TestChainDetectsEveryChange(t *testing.T) {
	build := func(change int) string {
		var all []string
		for i := range 12 {
			seed := uint64(i)
			if i == change {
				seed += 100
			}
			all = append(all, message("user", seed, 300))
		}
		return chat(all...)
	}
	whole := chainOf(t, build(-1))
	last := -1
	for i := range 12 {
		n := common(t, whole, chainOf(t, build(i)))
		if n <= last {
			t.Errorf("a change of message %d leaves %d blocks, of the previous one %d", i, n, last)
		}
		last = n
	}
}

// What makes two prompts different for a model makes their chains different from the beginning.
func TestChainsThatShareNothing(t *testing.T) {
	a, b := message("user", 1, 500), message("user", 2, 500)
	base := chainOf(t, chat(a, b), "route", "tenant")
	for name, other := range map[string][]Block{
		"messages swapped":   chainOf(t, chat(b, a), "route", "tenant"),
		"another role":       chainOf(t, chat(strings.Replace(a, "user", "system", 1), b), "route", "tenant"),
		"another tenant":     chainOf(t, chat(a, b), "route", "tenant2"),
		"another route":      chainOf(t, chat(a, b), "route2", "tenant"),
		"names run together": chainOf(t, chat(a, b), "routet", "enant"),
		"no tenant":          chainOf(t, chat(a, b), "route"),
		"another model":      chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m2"`, 1), "route", "tenant"),
		"a cache salt":       chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","cache_salt":"s"`, 1), "route", "tenant"),
		"an adapter":         chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","lora_path":"s"`, 1), "route", "tenant"),
		"an effort": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","reasoning_effort":"low"`, 1), "route",
			"tenant"),
		"reasoning": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","reasoning":{"effort":"low"}`, 1), "route",
			"tenant"),
		"a template": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","chat_template":"{{x}}"`, 1), "route",
			"tenant"),
		"a template's option": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","chat_template_kwargs":{"a":1}`, 1),
			"route", "tenant"),
		"tools": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","tools":[{"type":"function"}]`, 1),
			"route", "tenant"),
		"a system prompt": chainOf(t, strings.Replace(chat(a, b), `"m"`, `"m","system":"be brief"`, 1), "route",
			"tenant"),
		"as a plain prompt":   chainOf(t, `{"model":"m","prompt":"`+words(1, 500)+`"}`, "route", "tenant"),
		"the same text twice": chainOf(t, chat(b, b), "route", "tenant"),
	} {
		if n := common(t, base, other); n != 0 {
			t.Errorf("%s: %d of %d blocks are shared", name, n, len(base))
		}
	}
	c := NewChainer([16]byte{9}, testBlock)
	_, parts, _ := Read([]byte(chat(a, b)), true)
	other, _ := c.Chain([]byte(chat(a, b)), &parts, "route", "tenant")
	if n := common(t, base, other); n != 0 {
		t.Errorf("another secret: %d blocks are shared", n)
	}
}

// What is different deep inside a prompt, or only by a key with escapes or by an id, has other keys.
func TestChainOfHiddenDifferences(t *testing.T) {
	for _, body := range []string{
		`{"tools":[{"function":{"function":{"function":{"function":{"a":1,"b":2},"z":"X"}}}}],"prompt":"T"}`,
		`{"messages":[{"\u0072ole":"X","content":"T"}]}`,
		`{"messages":[{"role":"user","content":[{"\u0074ype":"X","text":"T"}]}]}`,
		`{"input":[{"type":"item_reference","id":"X"},{"role":"user","content":"T"}]}`,
		`{"input":[{"id":"X"},{"role":"user","content":"T"}]}`,
	} {
		body = strings.Replace(body, `"T"`, `"`+words(1, 300)+`"`, 1)
		a, b := chainOf(t, strings.Replace(body, "X", "system", 1)), chainOf(t, strings.Replace(body, "X", "user", 1))
		if n := common(t, a, b); n == len(a) {
			t.Errorf("%.80s: all of %d blocks are shared", body, n)
		}
	}
}

// The chain depends on the content of a prompt, not on its JSON notation.
func TestChainOfTheSamePrompt(t *testing.T) {
	want := chainOf(t, `{"model":"m","tools":[{"type":"function","n":1}],"system":"你好 <b>",`+
		`"messages":[{"role":"user","content":"\n\"😀 a/b"},{"role":"assistant","content":[{"type":"text","text":"`+
		words(1, 400)+`"}]}]}`)
	for name, body := range map[string]string{
		"escapes": `{"model":"\u006d","tools":[{"type":"f\u0075nction","n":1}],"system":"\u4f60\u597D \u003cb>",` +
			`"messages":[{"role":"us\u0065r","content":"\u000a\u0022\ud83d\ude00 a\/b"},{"role":"assistant",` +
			`"content":[{"type":"text","text":"` + words(1, 400) + `"}]}]}`,
		"order of the fields": `{"messages":[{"role":"user","content":"\n\"😀 a/b"},{"role":"assistant",` +
			`"content":[{"type":"text","text":"` + words(1, 400) + `"}]}],` +
			`"temperature":1,"system":"你好 <b>","model":"m","tools":[{"type":"function","n":1}]}`,
		"role behind the content": `{"model":"m","tools":[{"type":"function","n":1}],"system":"你好 <b>",` +
			`"messages":[{"content":"\n\"😀 a/b","role":"user"},{"content":[{"type":"text","text":"` + words(1, 400) +
			`"}],"role":"assistant"}]}`,
		"white space": "{ \"model\" : \"m\" ,\n\t\"tools\" : [ { \"type\" : \"function\" , \"n\" : 1 } ] " +
			", \"system\" : " +
			"\"你好 <b>\" ,\r\n" +
			`"messages" : [ { "role" : "user" , "content" : "\n\"😀 a/b" } , { "role" : "assistant" , "content" : [ { ` +
			`"type" : "text" , "text" : "` + words(1, 400) + `" } ] } ] }`,
	} {
		if got := chainOf(t, body); !slices.Equal(got, want) {
			t.Errorf("%s: %d of %d blocks are shared", name, common(t, got, want), len(want))
		}
	}
}

// Text cannot be mistaken for the structure around it.
func TestChainSeparatesTextFromStructure(t *testing.T) {
	fill := words(1, 200)
	seen := map[uint64]string{}
	for _, body := range []string{
		`{"prompt":"ab` + fill + `"}`, `{"prompt":["a","b` + fill + `"]}`, `{"prompt":["a\",\"b` + fill + `"]}`,
		"{\"prompt\":[\"a\xff\\\"b" + fill + "\"]}", "{\"prompt\":[\"a\xff.\xff\\\"b" + fill + "\"]}",
		"{\"prompt\":[\"a\xff\xff.\xff\xff\\\"b" + fill + "\"]}",
		`{"prompt":[["a","b` + fill + `"]]}`, `{"prompt":[{"a":"b` + fill + `"}]}`, `{"prompt":["a","","b` + fill + `"]}`,
		`{"prompt":[1,2,3,"` + fill + `"]}`, `{"prompt":[12,3,"` + fill + `"]}`, `{"prompt":["1","2","3","` + fill + `"]}`,
		`{"prompt":[null,"` + fill + `"]}`, `{"prompt":["null","` + fill + `"]}`, `{"input":"ab` + fill + `"}`,
		`{"messages":[{"role":"a","content":"` + fill + `"}]}`, `{"messages":[{"role":"a"},{"content":"` + fill + `"}]}`,
		`{"messages":[{"content":"` + fill + `"}]}`, `{"messages":[{"role":"","content":"` + fill + `"}]}`,
	} {
		blocks := chainOf(t, body)
		if len(blocks) == 0 {
			t.Fatalf("%q has no block", body)
		}
		if other, ok := seen[blocks[len(blocks)-1].Key]; ok {
			t.Errorf("%q and %q have the same key", body, other)
		}
		seen[blocks[len(blocks)-1].Key] = body
	}
}

// A long prompt has few keys, and the common beginning of two prompts is known to 1/30 or a block.
func TestChainIsShortAndClose(t *testing.T) {
	text := words(1, 64<<10)
	whole := chainOf(t, `{"prompt":"`+text+`"}`)
	if len(whole) > MaxBlocks || len(whole) < 60 {
		t.Errorf("%d blocks for %d bytes", len(whole), len(text))
	}
	for same := 100; same < len(text); same += 331 {
		other := chainOf(t, `{"prompt":"`+text[:same]+"!"+text[same+1:]+`"}`)
		n := common(t, whole, other)
		known := 0
		if n > 0 {
			known = whole[n-1].End
		}
		if off := same - known; off > max(testBlock, same/growEvery*2)+8 {
			t.Errorf("%d bytes are the same, known are %d", same, known)
		}
	}
	tiny := strings.Repeat(`{"role":"user","content":"a"},`, 20000)
	if n := len(chainOf(t, chat(tiny[:len(tiny)-1]))); n > MaxBlocks || n < 100 {
		t.Errorf("%d blocks for many short messages, want %d or a little less", n, MaxBlocks)
	}
}

// An image counts by its digest, not by its length.
func TestChainOfMedia(t *testing.T) {
	with := func(picture string) []Block {
		return chainOf(t, chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+picture+
			`"}},{"type":"text","text":"`+words(3, 200)+`"}]}`))
	}
	data := "data:image/png;base64," + strings.Repeat("QUJD", 20000)
	a, b, c := with(data), with(data[:len(data)-4]+"REVG"), with("https://example.com/a.png")
	const before = 1 // block of what is in front of the picture
	if common(t, a, b) > before || common(t, a, c) > before {
		t.Error("different images have a key in common")
	}
	if a[len(a)-1].End > 600 {
		t.Errorf("an image counts as %d bytes of text", a[len(a)-1].End)
	}
}

// The chain of a cut-off body is the beginning of the whole body's, whose end alone is cut finely, too.
func TestChainOfABeginning(t *testing.T) {
	for _, list := range []string{
		`"messages":[{"role":"user","content":"` + words(2, 300) + `"},{"role":"user","content":[{"text":"\ud83d\ude00` +
			words(3, 300) + `"}]}, ` +
			`{"content":"` + words(5, 20) + `","role":"assistant"},{"role":"x","content":"` + words(4, 200) + `"} ]`,
		`"input":[{"role":"user","content":"` + words(2, 30) + `"},{"arguments":"` + words(3, 300) +
			`","type":"function_call"}, ` +
			`{"output":"` + words(5, 200) + `","type":"function_call_output"},{"role":"assistant","content":"` + words(4, 200) +
			`"} ]`,
		`"contents":[{"parts":[{"text":"` + words(2, 300) + `"}],"role":"user"},{"role":"model","parts":[{"text":"` +
			words(3, 300) + `"}]} ]`,
		`"inputs":"` + words(2, 300) + `"`,
	} {
		body := []byte(`{"model":"m","tools":[{"a":"` + words(1, 100) + `"}],` + list + ` ,"n":1}`)
		fine := func(b Block) bool { return b.Fine }
		whole := slices.DeleteFunc(slices.Clone(chainOf(t, string(body))), fine)
		c := NewChainer(testSecret, testBlock)
		most := 0
		for n := range body {
			_, parts, err := Read(body[:n], false)
			if err != nil {
				t.Fatal(err)
			}
			blocks, _ := c.Chain(body[:n], &parts)
			blocks = slices.DeleteFunc(blocks, fine)
			if same := common(t, blocks, whole); same != len(blocks) {
				t.Fatalf("cut off at %d: %d of %d blocks are those of the whole: %s", n, same, len(blocks),
					body[max(0, n-30):n])
			}
			most = max(most, len(blocks))
		}
		if most < len(whole)-1 {
			t.Errorf("at most %d of %d blocks of a beginning", most, len(whole))
		}
	}
}

// FuzzChain compares chains with encoding/json: a body that it has rewritten has the same chain.
func FuzzChain(f *testing.F) {
	f.Add([]byte(`{"model":"a","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"stream":true}`))
	f.Add([]byte(`{"prompt":[1,2,3,"a\ud83d\ude00\ud83d",null],"input":{"a":[true,{"role":"b"}]},"lora_path":"x"}`))
	f.Add([]byte(`{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AAAA"}}],"role":{"role":1}},"x",` +
		`[],{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, parts, err := Read(body, true)
		if err != nil {
			return
		}
		for _, f := range nameFields {
			if name := parts.of(body, f); len(name) > 0 && name[0] != '"' {
				return // no name; it counts as it is written
			}
		}
		c := NewChainer(testSecret, 16)
		blocks, length := c.Chain(body, &parts)
		if len(blocks) > MaxBlocks || length > 3*len(body)+16*len(textFields) {
			t.Fatalf("%d blocks, %d bytes", len(blocks), length)
		}
		first := slices.Clone(blocks)
		parts.long = longStrings{}
		if searched, _ := c.Chain(body, &parts); !slices.Equal(searched, first) {
			t.Fatal("where the ends of strings are searched for it is another prompt")
		}
		var indented bytes.Buffer
		if json.Indent(&indented, body, " ", "\t") != nil {
			return
		}
		_, parts, err = Read(indented.Bytes(), true)
		if err != nil {
			t.Fatalf("indented: %v", err)
		}
		if again, _ := c.Chain(indented.Bytes(), &parts); !slices.Equal(again, first) {
			t.Fatalf("indented it is another prompt")
		}
		for n := range body {
			_, parts, err := Read(body[:n], false)
			if err != nil {
				t.Fatalf("cut off at %d: %v", n, err)
			}
			c.Chain(body[:n], &parts)
		}
	})
}

// A chain covers 200 KiB, unless nearly all messages are very short.
func TestChainCoversConversations(t *testing.T) {
	for _, roles := range [][2]string{{"user", "user"}, {"user", "assistant"}} {
		for _, lengths := range [][2]int{
			{300, 300},
			{540, 540},
			{700, 700},
			{1024, 1024},
			{1500, 1500},
			{4000, 4000},
			{20_000, 20_000},
			{300, 2000},
			{2000, 300},
			{300, 20_000},
			{20_000, 300},
			{100, 500},
			{500, 100},
			{1, 400},
			{400, 1},
			{200, 200},
		} {
			var all talk
			for i, n := 0, 0; n < 400<<10; i++ {
				all = all.add(roles[i%2], strings.Repeat("x", lengths[i%2]))
				n += lengths[i%2]
			}
			blocks, _ := blocksOf(t, NewChainer(testSecret, blockBytes), all.json())
			if last := blocks[len(blocks)-1].End; len(blocks) > MaxBlocks || last < 200<<10 {
				t.Errorf("messages of %v bytes of %v: %d blocks end at %d", lengths, roles, len(blocks), last)
			}
		}
	}
}
