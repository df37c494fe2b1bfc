package main

import "testing"

// TestScenesKeepTheirPromises holds what the scenes show by counts, which a busy machine hardly changes. If a backlog
// went first, hundreds would pass; likewise beside a flood that is not held to its turn. Servers without a limit have
// several times their slots. Names that are kept are tenants once they are answered, and take turns: no bound.
//
// One turn is as many as are served at once. As many again may pass while a request is on its way: it counts from where
// its client sends it to where a server sees it, since gateways with the shipped file tell nobody how long it waited.
//
// What a killed gateway had at the servers is kept for it for seconds. What others leave is not granted to those who
// waited in it: each of their places is taken again, several times even.
func TestScenesKeepTheirPromises(t *testing.T) {
	f := playedQuick(t)
	const most = 2 * servers * slots
	for _, x := range []struct {
		what string
		got  int
	}{
		{"batch jobs passed an interactive request", f.InteractivePassed},
		{"batch jobs passed an interactive request, with Redis,", f.RedisPassed},
		{"batch jobs passed an interactive request, with Redis and strict,", f.StrictPassed},
		{"requests of the flood passed one of the other tenant", f.OtherPassed},
		{"requests with made-up names passed one of the other tenant", f.NamesPassed},
	} {
		if x.got > most {
			t.Errorf("%d %s, want at most %d", x.got, x.what, most)
		}
	}
	if n := f.InteractiveRefused + f.RedisRefused + f.StrictRefused + f.OtherRefused + f.NamesRefused; n > 0 {
		t.Errorf("%d requests refused of those that must not be: %+v, %+v, %+v", n, *f.SustainedFound,
			*f.SustainedRedisFound, *f.FloodFound)
	}
	if f.Placed < f.Held {
		t.Errorf("after a gateway was killed, the other one had %d requests at servers, placed %d", f.Held, f.Placed)
	}
	if f.Overflow > 1.5 || f.Stale > 1.25 {
		t.Errorf("%v of the slots in flight after the metrics stalled, %v once they were stale, %v before", f.Overflow,
			f.Stale, f.Before)
	}
}
