package main

import "testing"

// TestScenesKeepTheirPromises holds what the scenes show by counts, which a busy machine does not change. If a backlog
// went first, hundreds would pass; likewise beside a flood that is not held to its turn. Servers without a limit have
// several times their slots. Names that are kept are tenants once they are answered, and take turns: no bound.
func TestScenesKeepTheirPromises(t *testing.T) {
	f := playedQuick(t)
	const most = servers * slots // as many as are served at once
	for _, x := range []struct {
		what string
		got  int
	}{
		{"batch jobs passed an interactive request", f.InteractivePassed},
		{"requests of the flood passed one of the other tenant", f.OtherPassed},
		{"requests with made-up names passed one of the other tenant", f.NamesPassed},
	} {
		if x.got > most {
			t.Errorf("%d %s, want at most %d", x.got, x.what, most)
		}
	}
	if n := f.InteractiveRefused + f.OtherRefused + f.NamesRefused; n > 0 {
		t.Errorf("%d requests refused of those that must not be: %+v, %+v", n, *f.SustainedFound, *f.FloodFound)
	}
	if f.Least == 0 {
		t.Error("after a gateway was killed, no server had a request, while some waited in the other gateway")
	}
	if f.Overflow > 1.5 {
		t.Errorf("%v of the slots in flight after the metrics stalled, %v before", f.Overflow, f.Before)
	}
}
