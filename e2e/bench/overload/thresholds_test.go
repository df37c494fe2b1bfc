package overload

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
	count := func(name string) int { return f[name].(int) }
	for what, name := range map[string]string{
		"batch jobs passed an interactive request":                         "interactive_passed_max",
		"batch jobs passed an interactive request, with Redis,":            "interactive_redis_passed_max",
		"batch jobs passed an interactive request, with Redis and strict,": "interactive_redis_strict_passed_max",
		"requests of the flood passed one of the other tenant":             "flood_other_tenant_passed_max",
		"requests with made-up names passed one of the other tenant":       "flood_names_other_tenant_passed_max",
	} {
		if got := count(name); got > most {
			t.Errorf("%d %s, want at most %d", got, what, most)
		}
	}
	for _, name := range []string{
		"interactive_refused", "interactive_redis_refused", "interactive_redis_strict_refused",
		"flood_other_tenant_refused", "flood_names_other_tenant_refused",
	} {
		if n := count(name); n > 0 {
			t.Errorf("%s: %d requests refused of those that must not be", name, n)
		}
	}
	if count("kill_placed") < count("kill_held") {
		t.Errorf("after a gateway was killed, the other one had %d requests at servers, placed %d", count("kill_held"),
			count("kill_placed"))
	}
	if overflow, stale := f.Value("stall_overflow_max"), f.Value("stall_overflow_stale_max"); overflow > 1.5 ||
		stale > 1.25 {
		t.Errorf("%v of the slots in flight after the metrics stalled, %v once they were stale, %v before", overflow,
			stale, f["stall_before_max"])
	}
}
