package waiting

import (
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Clients of waiting requests leave, or stay, at a point of their own.
func TestLeaver(t *testing.T) {
	seen := map[loadgen.LeavePoint]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		seen[leaver(r, i).Leave.At]++
	}
	if seen[loadgen.Stay] < 10 || seen[loadgen.MidUpload] < 10 || seen[loadgen.BeforeFirstByte] < 200 {
		t.Errorf("300 clients leave at %v", seen)
	}
}
