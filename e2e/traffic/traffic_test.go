package traffic

import (
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// TestRedraw takes distributions in turn, each for two scripts.
func TestRedraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	scripts := Conversations(r, 7, nil, 3, 5, 5)
	Redraw(r, scripts, 2, loadgen.Fixed(11), loadgen.Fixed(13))
	for i, want := range []int{11, 11, 13, 13, 11, 11, 13} {
		for _, turn := range scripts[i].Turns {
			if turn.Answer != want {
				t.Errorf("script %d has an answer of %d tokens, want %d", i, turn.Answer, want)
			}
		}
	}
}

func TestAround(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sum, least, most := 0, 1<<30, 0
	for range 10_000 {
		n := Around(r, 200)
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	if mean := sum / 10_000; mean < 197 || mean > 203 || least < 100 || most > 300 || most-least < 190 {
		t.Errorf("around 200: mean %d, %d to %d", mean, least, most)
	}
	if Around(r, 1) != 1 {
		t.Error("around 1 is not 1")
	}
}
