package gateway

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Every way to leave, and staying, must be among a few hundred clients, and the same seed must give the same ones.
func TestLeaver(t *testing.T) {
	seen := map[loadgen.LeavePoint]int{}
	a, b := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		q, again := leaver(a, i), leaver(b, i)
		if !bytes.Equal(q.Body, again.Body) || q.Leave != again.Leave || q.Upload != again.Upload {
			t.Fatalf("request %d differs between two runs of one seed", i)
		}
		seen[q.Leave.At]++
	}
	for _, at := range append(leavePoints, loadgen.Stay) {
		if seen[at] < 10 {
			t.Errorf("%d of 300 clients leave at %q", seen[at], at)
		}
	}
}
