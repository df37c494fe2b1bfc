package doctest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFormulaIsDocumented: the cost is written down twice, in the comment of lb.Choose and in the design note, and is
// the same in both.
func TestFormulaIsDocumented(t *testing.T) {
	formula := func(name, indented string) (lines []string) {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(text), "\n"+indented+"cost(c) =")
		if !found {
			t.Fatalf("%s has no formula", name)
		}
		for line := range strings.Lines(rest) {
			term, ok := strings.CutPrefix(line, indented)
			if len(lines) > 0 && !ok {
				break
			}
			if !ok {
				term = line // of the first line only the rest
			}
			lines = append(lines, strings.TrimSpace(term))
		}
		return lines
	}
	code, note := formula("lb/choose.go", "//\t"), formula("docs/design/choosing.md", "    ")
	if !slices.Equal(code, note) || len(code) < 4 {
		t.Errorf("docs/design/choosing.md has\n%s\nlb/choose.go has\n%s", strings.Join(note, "\n"),
			strings.Join(code, "\n"))
	}
}
