package config

import (
	"os"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/golden"
)

// TestCompat compares the result of each configuration of Higress's plugins with a golden file, with which the tables
// in docs/higress.md and docs/inference-pool.md are compared in turn.
func TestCompat(t *testing.T) {
	for _, plugin := range []string{"ai-load-balancer", "ai-endpoint-picker"} {
		t.Run(plugin, func(t *testing.T) { testCompat(t, "testdata/compat/"+plugin) })
	}
}

func testCompat(t *testing.T, compatFile string) {
	raw, err := os.ReadFile(compatFile + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	cases, refused := strings.Split(strings.TrimSpace(string(raw)), "\n\n")[1:], 0
	for _, c := range cases {
		name, text, ok := strings.Cut(c, "\n")
		if !ok {
			t.Fatalf("%q: no configuration", name)
		}
		s, err := Parse([]byte(text), Higress)
		verdict := "accepted"
		switch {
		case err != nil:
			refused++
			_, problems, _ := strings.Cut(err.Error(), "\n  ")
			verdict = "refused: " + strings.ReplaceAll(problems, "\n  ", "; ")
		case len(s.Warnings()) > 0:
			verdict = "accepted, with a warning: " + strings.Join(s.Warnings(), "; ")
		}
		b.WriteString(name + "\n" + verdict + "\n\n")
	}
	golden.Compare(t, compatFile+".golden", b.String())
	t.Logf("%d of %d refused", refused, len(cases))
}
