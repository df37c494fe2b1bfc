package host

import (
	"math/rand/v2"
	"testing"
	"time"
)

// dice is a gateway that has random bits only.
type dice struct {
	Gateway
	random *rand.Rand
}

func (d dice) Random() uint64 { return d.random.Uint64() }

// What clients are told to wait is about what is expected, on the tick of 100 ms, and not the same for all.
func TestWaitsForBudgets(t *testing.T) {
	e := &Env{GW: dice{random: rand.New(rand.NewPCG(1, 2))}}
	for _, expected := range []time.Duration{
		0, time.Millisecond, 250 * time.Millisecond, 3 * time.Second, time.Minute, 1e18,
	} {
		seen := map[time.Duration]bool{}
		want := min(expected, maxRetryAfter)
		for range 1000 {
			wait := e.WaitFor(expected)
			seen[wait] = true
			if wait < MinWait || wait > MinWait && wait%refillTick != 0 || wait < want*9/10 ||
				wait > max(want*11/10+refillTick, MinWait) {
				t.Fatalf("expected %v, told %v", expected, wait)
			}
		}
		if spread := int(want / 5 / refillTick); len(seen) < min(spread, 20) {
			t.Errorf("expected %v: only %d different waits", expected, len(seen))
		}
	}
}
