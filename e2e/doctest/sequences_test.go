package doctest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

var (
	participant = regexp.MustCompile(`^participant (\w+) as .+$`)
	message     = regexp.MustCompile(`^(\w+)(->>|-->>)(\w+): (.+)$`)
	note        = regexp.MustCompile(`^Note over (\w+): .+$`)
	blockBegins = regexp.MustCompile(`^(loop|par|alt|opt|else) .+$`)
	apiCall     = regexp.MustCompile(`^(GET|POST) (/\w+)`)
)

// TestSequences checks the sequence diagrams of documents: each line is of a form that Mermaid has, names participants
// of its diagram, and a call is one of the admission API's, to the gateway.
func TestSequences(t *testing.T) {
	var api struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(harness.ReadT(t, "docs/api.yaml"), &api); err != nil {
		t.Fatal(err)
	}
	isCall := func(to, text string) bool {
		c := apiCall.FindStringSubmatch(text)
		return c == nil || to == "G" && api.Paths[c[2]][strings.ToLower(c[1])] != nil
	}
	diagrams := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "mermaid" {
				continue
			}
			diagrams++
			for _, i := range wrongLines(strings.Split(b.text, "\n"), isCall) {
				t.Errorf("%s:%d: not a line of a diagram, or not its place", d.name, b.line+1+i)
			}
		}
	}
	if diagrams == 0 {
		t.Error("there are no diagrams")
	}
}

// wrongLines returns which lines of a diagram are wrong. The last one is empty.
func wrongLines(lines []string, isCall func(to, text string) bool) (wrong []int) {
	who, depth := map[string]bool{}, 1
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		if text == "end" || strings.HasPrefix(text, "else ") {
			depth--
		}
		good := len(line)-len(text) == 4*depth
		switch m := message.FindStringSubmatch(text); {
		case i == 0 || i == len(lines)-1:
			good = text == "sequenceDiagram" && i == 0 || text == "" && i > 0 && depth == 1
		case m != nil:
			good = good && who[m[1]] && who[m[3]] && isCall(m[3], m[4])
		case participant.MatchString(text):
			who[participant.FindStringSubmatch(text)[1]] = true
		case note.MatchString(text):
			good = good && who[note.FindStringSubmatch(text)[1]]
		case blockBegins.MatchString(text):
			depth++
		default:
			good = good && text == "end"
		}
		if !good {
			wrong = append(wrong, i)
		}
	}
	return wrong
}

// The test above finds what is wrong.
func TestWrongLines(t *testing.T) {
	const head = "sequenceDiagram\n    participant A as a\n    participant G as b\n"
	isCall := func(to, text string) bool { return to == "G" && text == "GET /a" }
	for _, c := range []struct {
		text string
		want []int
	}{
		{head + "    A->>G: GET /a\n    loop x\n        A-->>G: GET /a\n    end\n", nil},
		{head + "    alt x\n        Note over A: y\n    else z\n        A->>G: GET /a\n    end\n", nil},
		{"flowchart\n", []int{0}},
		{head + "    A->>G: GET /b\n    B->>G: GET /a\n    G->>A: GET /a\n", []int{3, 4, 5}},
		{head + "    loop x\n    A->>G: GET /a\n    end\n    Note over B: y\n", []int{4, 6}},
		{head + "    loop x\n", []int{4}},
		{head + "    A=>G: GET /a\n", []int{3}},
	} {
		if got := wrongLines(strings.Split(c.text, "\n"), isCall); !slices.Equal(got, c.want) {
			t.Errorf("%v are wrong, want %v:\n%s", got, c.want, c.text)
		}
	}
}
