package calibrate

import (
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// The distance of a part is how many tokens the parts have that were used since its last use, itself included.
func TestDistances(t *testing.T) {
	rng, s := rand.New(rand.NewPCG(1, 2)), &stack{last: map[uint64]used{}}
	var order []engine.Part // parts that were used, the latest one last
	for range 2000 {
		p := engine.Part{Name: 1 + rng.Uint64N(40)}
		p.Tokens = int(p.Name) * 7
		want := 0
		for i := len(order) - 1; i >= 0; i-- {
			if want += order[i].Tokens; order[i].Name == p.Name {
				order = append(order[:i], order[i+1:]...)
				break
			} else if i == 0 {
				want = 0
			}
		}
		order = append(order, p)
		if got := s.touch(p); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	}
}
