package main

import "testing"

// TestThresholds holds what the queue promises in the short form of the scenes, by counts: a machine that is busy makes
// all requests wait, but does not change who passes whom. One that is granted the next server can still be passed by
// those that were granted one just before, so each limit is what all servers run at once.
func TestThresholds(t *testing.T) {
	const running = servers * slots
	f := playedQuick(t)
	for _, c := range []struct {
		what      string
		got, most float64
	}{
		{"share of refusals that were false", f.Falsely, 0.05},
		{"batch jobs that passed an interactive request", float64(f.InteractivePassed), running},
		{"interactive requests that were refused", float64(f.InteractiveRefused), 0},
		{"requests of the flood that passed one of another tenant", float64(f.OtherPassed), running},
		{"the other tenant's requests that were refused", float64(f.OtherRefused), 0},
		{"requests of made-up tenants that passed one of another", float64(f.NamesPassed), running},
		{"the other tenant's requests that were refused beside made-up tenants", float64(f.NamesRefused), 0},
		{"in flight over slots while the metrics stall", f.Overflow, 1},
	} {
		if c.got > c.most {
			t.Errorf("%s: %v, want at most %v", c.what, c.got, c.most)
		}
	}
	if f.Least == 0 {
		t.Error("after a gateway was killed, no server had a request, while some waited in the other gateway")
	}
}
