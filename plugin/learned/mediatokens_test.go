package learned

import (
	"math"
	"testing"
)

// What is learned of sizes in prompts with several media.
func TestTokensOfMedia(t *testing.T) {
	var l mediaTokens
	l.observe(Media{Count: 2, Sizes: []byte{1, 1}}, 200)
	l.observe(Media{Count: 3, Sizes: []byte{1, 5, 5}}, 2100) // the others take what is left
	if l.bySize[1] != 100 || l.bySize[5] != 1000 {
		t.Errorf("%v and %v tokens, want 100 and 1000", l.bySize[1], l.bySize[5])
	}
	for range 50 {
		l.observe(Media{Count: 2, Sizes: []byte{1, 5}}, 2200)
	}
	if math.Abs(float64(l.bySize[1])-200) > 5 || math.Abs(float64(l.bySize[5])-2000) > 50 {
		t.Errorf("%v and %v tokens, want twice as many", l.bySize[1], l.bySize[5])
	}
	before := l.bySize
	l.observe(Media{Count: 200, Sizes: make([]byte, 128)}, 1e6)
	l.observe(Media{Count: 1, Sizes: []byte{7}}, -100)
	if before[7] = 1; l.bySize != before || l.any < 1 {
		t.Errorf("%+v", l)
	}
}
