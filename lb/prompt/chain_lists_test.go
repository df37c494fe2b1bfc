package prompt

import (
	"fmt"
	"strings"
	"testing"
)

// list returns a JSON list of n numbers from first on.
func list(first, n int) string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = fmt.Sprint(first + i*7)
	}
	return "[" + strings.Join(numbers, ",") + "]"
}

// The chain of a cut-off body is the beginning of the whole body's, wherever a list, a string or a medium is cut off.
func TestChainOfABeginningOfLists(t *testing.T) {
	image := `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 200) + `"}}`
	for _, field := range []string{
		`"prompt":["` + words(1, 150) + `","` + words(2, 150) + `"]`,
		`"prompt":[` + list(1, 60) + `,` + list(2, 60) + `]`,
		`"prompt":` + list(90, 200),
		`"prompt":` + list(9, 20),
		`"messages":[{"role":"user","content":[` + image + `,{"type":"text","text":"` + words(3, 200) + `"}]}]`,
		`"messages":[{"role":"user","content":[{"detail":"low","url":"https://` + strings.Repeat("a", 90) +
			`"},{"text":"` + words(3, 200) + `"}]}]`,
		`"messages":[{"content":"` + words(4, 200) + `","name":"` + words(5, 100) + `","role":"user"}]`,
		`"contents":[{"parts":[{"text":"` + words(6, 200) + `"}],"role":"user"},{"parts":[],"role":"model"}]`,
		`"documents":[{"text":"` + words(7, 200) + `","title":"x"},"` + words(8, 200) + `"]`,
		`"tools":[{"function":{"name":"f","parameters":{"a":[1,2,{"b":"` + words(9, 200) + `"}]}}}]`,
	} {
		body := []byte(`{"model":"m",` + field + `,"n":1}`)
		whole := chainOf(t, string(body))
		c, most := NewChainer(testSecret, testBlock), 0
		for n := range body {
			_, parts, err := Read(body[:n], false)
			if err != nil {
				t.Fatal(err)
			}
			blocks, _ := c.Chain(body[:n], &parts)
			if same := common(t, blocks, whole); same != len(blocks) {
				t.Fatalf("%.60s cut off at %d: %d of %d blocks are those of the whole", field, n, same, len(blocks))
			}
			most = max(most, len(blocks))
		}
		if most < len(whole)-1 || len(whole) == 0 {
			t.Errorf("%.60s: at most %d of %d blocks of a beginning", field, most, len(whole))
		}
	}
}

// Each string and each list in a list is a message: a block ends with it.
func TestMessagesOfAList(t *testing.T) {
	for _, c := range []struct{ first, second, other string }{
		{`"` + words(1, 150) + `"`, `"` + words(2, 150) + `"`, `"` + words(3, 150) + `"`},
		{list(1000, 40), list(2000, 40), list(3000, 40)},
		{`{"text":"` + words(1, 150) + `"}`, `{"text":"` + words(2, 150) + `"}`, `{"text":"` + words(3, 150) + `"}`},
	} {
		a := chainOf(t, `{"prompt":[`+c.first+`,`+c.second+`]}`)
		n := common(t, a, chainOf(t, `{"prompt":[`+c.first+`,`+c.other+`]}`))
		alone := `{"prompt":[` + c.first + `]}`
		_, parts, err := Read([]byte(alone), true)
		if err != nil {
			t.Fatal(err)
		}
		_, length := NewChainer(testSecret, testBlock).Chain([]byte(alone), &parts)
		if n == 0 || a[n-1].End < length-8 || a[n-1].End > length {
			t.Errorf("%.30s: %d blocks in common, which end at %d of %d", c.first, n, a[n-1].End, length)
		}
	}
}

// A medium is digested if it is longer than 64 bytes: shorter ones may be names.
func TestDigestedMedia(t *testing.T) {
	length := func(n int) int {
		body := []byte(`{"messages":[{"role":"user","content":[{"url":"` + strings.Repeat("a", n) + `"}]}]}`)
		_, parts, err := Read(body, true)
		if err != nil {
			t.Fatal(err)
		}
		_, length := NewChainer(testSecret, testBlock).Chain(body, &parts)
		return length
	}
	if a, b := length(maxShortName-1), length(maxShortName); b != a+1 {
		t.Errorf("%d bytes are hashed as %d, one more as %d", maxShortName-1, a, b)
	}
	if a, b := length(maxShortName+1), length(1000); a != b || a > length(maxShortName) {
		t.Errorf("%d bytes are hashed as %d, 1000 as %d", maxShortName+1, a, b)
	}
}

// What is behind the last block of a chain counts once, however it is spelled.
func TestLengthOfAFullChain(t *testing.T) {
	const turns, each = 16, 20_000 // bytes
	members := ""
	for n := range maxMembers {
		members += fmt.Sprintf(`"m%d":1,`, n)
	}
	for _, content := range []string{
		`"T"`, `["T"]`, `[{"type":"text","text":"T"}]`, `[{` + members + `"text":"T"}]`,
		`[{"type":"tool_result","content":[{"type":"text","text":"T"}]},{"text":""}]`,
	} {
		messages := make([]string, turns)
		for n := range messages {
			message := `{"role":"user","content":` + content + `}`
			messages[n] = strings.Replace(message, "T", words(uint64(n), each), 1)
		}
		body := chat(messages...)
		blocks, length := blocksOf(t, NewChainer(testSecret, testBlock), body)
		if len(blocks) != MaxBlocks || length < turns*each || length > len(body) {
			t.Errorf("%.60s: %d blocks, %d bytes of a body of %d", content, len(blocks), length, len(body))
		}
	}
}
