package prompt

import (
	"slices"
	"strings"
	"testing"
)

// What the server inserts into a prompt, after the instructions, makes chains differ from there on; and so does the
// API.
func TestChainsThatShareTheirInstructions(t *testing.T) {
	instructions, input := words(1, 500), words(2, 500)
	continued := func(by string) []Block {
		return chainOf(t, `{"instructions":"`+instructions+`","input":"`+input+`"`+by+`}`)
	}
	base := continued("")
	if same := continued(`,"previous_response_id":null,"conversation":null`); !slices.Equal(same, base) {
		t.Error("nothing in front is something")
	}
	chains := [][]Block{base}
	for _, by := range []string{
		`,"previous_response_id":"a"`, `,"previous_response_id":"b"`, `,"conversation":"a"`, `,"conversation":{"id":"a"}`,
		`,"conversation":{"id":"b"}`,
		`,"prompt":{"id":"a"}`, `,"prompt":{"id":"b"}`, `,"prompt":{"id":"b","version":"2"}`,
		`,"prompt":{"id":"b","variables":{"x":"y"}}`,
	} {
		chains = append(chains, continued(by))
	}
	for i, chain := range chains {
		for _, other := range chains[:i] {
			n := common(t, chain, other)
			if n == 0 || chain[n-1].End > 560 {
				t.Errorf("chain %d has %d blocks in common with another, want those of 500 bytes", i, n)
			}
		}
	}
}

// The same text in the fields of different APIs is not the same prompt, and field names of other APIs have no effect.
func TestChainsOfEveryAPI(t *testing.T) {
	text := words(1, 500)
	var chains [][]Block
	for _, body := range []string{
		`{"prompt":"T"}`, `{"text":"T"}`, `{"inputs":"T"}`, `{"text_input":"T"}`, `{"input":"T"}`,
		`{"contents":[{"role":"user","parts":[{"text":"T"}]}]}`, `{"system_instruction":{"parts":[{"text":"T"}]},` +
			`"contents":[]}`,
		`{"messages":[{"role":"user","content":"T"}]}`,
	} {
		body = strings.Replace(body, "T", text, 1)
		chain := chainOf(t, body)
		if len(chain) < 5 {
			t.Fatalf("%.30s: %d blocks", body, len(chain))
		}
		for _, other := range chains {
			if n := common(t, chain, other); n > 0 {
				t.Errorf("%.30s: %d blocks are those of another API", body, n)
			}
		}
		chains = append(chains, chain)
	}
	chat := `{"messages":[{"role":"user","content":"` + text + `"}]`
	got := chainOf(t, chat+`,"text":"x","inputs":"x","input_ids":[1],"text_input":"x","contents":"x",`+
		`"conversation":"x","previous_response_id":"x"}`)
	if last := chains[len(chains)-1]; !slices.Equal(got, last) {
		t.Errorf("%d of %d blocks of a chat with fields of other APIs", common(t, got, last), len(last))
	}
	turn := func(role, text string) string { return `{"role":"` + role + `","parts":[{"text":"` + text + `"}]}` }
	question := chainOf(t, `{"contents":[`+turn("user", text)+`]}`)
	next := chainOf(t, `{"contents":[`+turn("user", text)+","+turn("model", words(2, 900))+`]}`)
	if n := common(t, question, next); n != len(question) || next[n-1].End < 1400 {
		t.Errorf("%d of %d blocks of a question are in the next turn, with the answer up to %d", n, len(question),
			next[n-1].End)
	}
}

// However a name is written, it is the same name.
func TestChainOfTheSameNames(t *testing.T) {
	with := func(names string) []Block { return chainOf(t, `{`+names+`,"prompt":"`+words(1, 500)+`"}`) }
	plain := with(`"model":"ab/c","lora_path":"l","cache_salt":"s","chat_template":"t","reasoning_effort":"low"`)
	escaped := with(`"mod\u0065l":"a\u0062\/c","lora_path":"\u006c","cache_salt":"\u0073","chat_template":"\u0074",` +
		`"reasoning_effort":"l\u006fw"`)
	if !slices.Equal(plain, escaped) {
		t.Errorf("%d of %d blocks", common(t, plain, escaped), len(plain))
	}
}

// An input of the responses API that is a text is the message that it stands for, and the next turn goes on behind it.
func TestChainOfAnInputAsText(t *testing.T) {
	text := words(1, 500)
	with := func(input string) []Block {
		return chainOf(t, `{"instructions":"`+words(2, 100)+`","input":`+input+`}`)
	}
	list := `[{"role":"user","content":"` + text + `"}`
	want := with(`"` + text + `"`)
	for _, same := range []string{
		list + `]`, `[{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text + `"}]}]`,
	} {
		if got := with(same); !slices.Equal(got, want) {
			t.Errorf("%.40s: %d of %d blocks are the same", same, common(t, got, want), len(want))
		}
	}
	next := with(list + `,` + message("assistant", 3, 900) + `,` + message("user", 4, 100) + `]`)
	if n := common(t, want, next); n != len(want) || next[n-1].End < 1400 {
		t.Errorf("%d of %d blocks are in the next turn, with the answer up to %d", n, len(want), next[n-1].End)
	}
	if got := with(list[:len(list)-1] + `},{"role":"user","content":"x"}]`); slices.Equal(got, want) {
		t.Error("another message behind it has no effect")
	}
	body := []byte(`{"instructions":"` + words(2, 100) + `","input":"` + text[:300])
	_, parts, err := Read(body, false)
	if err != nil {
		t.Fatal(err)
	}
	cut, _ := NewChainer(testSecret, testBlock).Chain(body, &parts)
	if n := common(t, cut, want); n != len(cut) || n < 4 {
		t.Errorf("%d of %d blocks of the beginning are those of all", n, len(cut))
	}
}
