package enginesim

import (
	"math"
	"strings"
	"testing"
)

func TestTokensOf(t *testing.T) {
	for bytes, want := range map[int]int{0: 1, 1: 1, 4: 1, 5: 2, 8: 2, 9: 3} {
		if got := TokensOf(bytes); got != want {
			t.Errorf("%d bytes are %d tokens, want %d", bytes, got, want)
		}
	}
}

func TestWordsAreTokens(t *testing.T) {
	for i, w := range strings.SplitAfter(words, " ") {
		if w != "" && len(w) != BytesPerToken {
			t.Errorf("word %d %q is not %d bytes long", i, w, BytesPerToken)
		}
	}
	if w := Word(math.MaxUint64, 5); !strings.Contains(words, w) {
		t.Errorf("word %q is not in the list", w)
	}
}
