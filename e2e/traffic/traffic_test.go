package traffic

import (
	"math/rand/v2"
	"testing"
)

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
