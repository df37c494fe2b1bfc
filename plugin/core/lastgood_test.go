package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/stats"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/vm"
)

// capOf writes a configuration with a rule for the route and a global part; 0 makes that part invalid.
func capOf(rule, global int) string {
	part := func(n int) string {
		if n == 0 {
			return `"lb_policy":"x"`
		}
		return fmt.Sprintf(`"lb_policy":"global_least_request","lb_config":{"max_inflight":%d}`, n)
	}
	return `{` + part(global) + `,"_rules_":[{"_match_route_":["` + fakeRoute + `"],` + part(rule) + `}]}`
}

// inForce returns the caps of the rule and of the global part, -1 for one that is refused.
func inForce(p *vm.Plugin) [2]int {
	var caps [2]int
	for i, route := range []string{fakeRoute, "other"} {
		c := p.Set.Match(route, "", "")
		if caps[i] = c.MaxInflight; c.Refused {
			caps[i] = -1
		}
	}
	return caps
}

// taken is configure for a configuration that must not be refused as a whole.
func taken(t *testing.T, v *vm.VM, raw string) *vm.Plugin {
	t.Helper()
	p := started(v, 1, "warmgate", raw)
	if p == nil || p.Set == nil {
		t.Fatalf("refused: %s", raw)
	}
	return p
}

func TestLastGoodFormIsTheSameInAllVMs(t *testing.T) {
	p := newFakeProcess(t, 2)
	for _, step := range []struct {
		raw           string
		want          [2]int
		refused, kept uint64
	}{
		{capOf(0, 1), [2]int{-1, 1}, 1, 0},
		{capOf(2, 0), [2]int{2, 1}, 1, 1},
		{capOf(3, 2), [2]int{3, 2}, 0, 0},
		{capOf(0, 4), [2]int{3, 4}, 1, 1},
		{capOf(2, 0), [2]int{2, 4}, 1, 1}, // the same text as before, which is not tried again
		{capOf(0, 4), [2]int{2, 4}, 1, 1},
	} {
		if !p.configure(step.raw) {
			t.Fatalf("%s is refused", step.raw)
		}
		late := p.newVM(config.Higress) // a new VM
		for i, got := range []*vm.Plugin{
			p.main.current, p.workers[0].current, p.workers[1].current,
			taken(t, late, step.raw),
		} {
			if inForce(got) != step.want {
				t.Errorf("%s in VM %d: %v, want %v", step.raw, i, inForce(got), step.want)
			}
		}
		if r, k := p.metrics.values[stats.BadRules], p.metrics.values[stats.KeptRules]; r != step.refused ||
			k != step.kept {
			t.Errorf("%s: %d refused, %d kept", step.raw, r, k)
		}
	}
}

// A worker that is behind does not undo what a newer configuration has written.
func TestWorkerThatIsBehind(t *testing.T) {
	p := newFakeProcess(t, 0)
	fast, slow := p.newVM(config.Higress), p.newVM(config.Higress)
	taken(t, fast, capOf(1, 9))
	taken(t, slow, capOf(1, 9))
	taken(t, fast, capOf(2, 9))
	taken(t, fast, capOf(3, 9))
	taken(t, slow, capOf(2, 9))
	if got := inForce(taken(t, fast, capOf(0, 8))); got != [2]int{3, 8} {
		t.Errorf("%v in force", got)
	}
	taken(t, slow, capOf(3, 9))
	if got := inForce(taken(t, slow, capOf(0, 8))); got != [2]int{3, 8} {
		t.Errorf("%v in force at the one that was behind", got)
	}
	if got := inForce(taken(t, slow, capOf(4, 8))); got != [2]int{4, 8} {
		t.Errorf("%v in force", got)
	}
	if got := inForce(taken(t, p.newVM(config.Higress), capOf(0, 8))); got != [2]int{4, 8} {
		t.Errorf("what it has taken later is not noted: %v in force", got)
	}
}

// A VM that has streams must not refuse, or the gateway would end it together with them.
func TestOnlyTheFirstTryIsRefused(t *testing.T) {
	const bad = `{"lb_policy":"x"}`
	p := newFakeProcess(t, 1)
	if !p.configure(bad) || p.workers[0].current.Set != nil {
		t.Fatal("an invalid first configuration must be accepted without effect, because there is no valid one to keep")
	}
	if !p.configure(capOf(1, 2)) || !p.configure(bad) { // which the gateway does not try again
		t.Fatal("refused")
	}
	p.workers[0].lose()
	for i, got := range []*vm.Plugin{p.main.current, p.workers[0].current} {
		if got.Set == nil || inForce(got) != [2]int{1, 2} {
			t.Errorf("VM %d: %+v in force", i, got.Set)
		}
	}
	if p.metrics.values[stats.ConfigValid] != 1 {
		t.Error("a good configuration is in force, and the gauge shows none")
	}
	if p.configure(`{"lb_policy":"y"}`) {
		t.Error("a bad configuration that was never taken is not refused")
	}
}

// A worker that has requests of an earlier push of the same text is not started again with it.
func TestOldContextFollowsTheLastGood(t *testing.T) {
	p := newFakeProcess(t, 1)
	for _, raw := range []string{capOf(3, 2), capOf(0, 4)} {
		if !p.configure(raw) {
			t.Fatal("refused")
		}
	}
	v, kept := p.workers[0].vm, p.workers[0].current
	policy := kept.Set.Match(fakeRoute, "", "")
	p.advance(stores.HeartbeatPeriod)
	if kept.Set.Match(fakeRoute, "", "") != policy {
		t.Error("the configuration is read again although nothing has changed")
	}
	for _, raw := range []string{capOf(5, 4), capOf(0, 4)} {
		taken(t, p.newVM(config.Higress), raw)
	}
	taken(t, v, capOf(5, 4))
	if inForce(kept) != [2]int{3, 4} {
		t.Fatalf("%v in force", inForce(kept))
	}
	p.advance(stores.HeartbeatPeriod)
	if inForce(kept) != [2]int{5, 4} {
		t.Errorf("%v in force, and in other workers the newer form of the rule", inForce(kept))
	}
	taken(t, p.newVM(config.Higress), capOf(6, 7))
	p.advance(stores.HeartbeatPeriod)
	if inForce(kept) != [2]int{5, 4} {
		t.Errorf("%v in force of another configuration", inForce(kept))
	}
}

// Plugins of other names have last good configurations of their own.
func TestLastGoodByName(t *testing.T) {
	p := newFakeProcess(t, 0)
	taken(t, p.main.vm, capOf(1, 2))
	other := started(p.main.vm, 1, "other", capOf(0, 3))
	if other == nil || inForce(other) != [2]int{-1, 3} {
		t.Errorf("%v in force for another plugin", inForce(other))
	}
}

func TestLastGoodWithoutSharedMemory(t *testing.T) {
	p := newFakeProcess(t, 0)
	v := p.main.vm
	p.kv.Broken = errors.New("host trouble")
	if got := inForce(taken(t, v, capOf(1, 0))); got != [2]int{1, -1} {
		t.Errorf("%v in force", got)
	}
	if got := inForce(taken(t, v, capOf(0, 2))); got != [2]int{-1, 2} {
		t.Errorf("%v in force: there is nothing to keep it in", got)
	}
	p.kv.Broken = nil
	taken(t, v, capOf(1, 2))
	if got := inForce(taken(t, v, capOf(0, 3))); got != [2]int{1, 3} {
		t.Errorf("%v in force once there is memory", got)
	}
}

// Another VM may write between the read and the write.
func TestLastGoodIsSwapped(t *testing.T) {
	p := newFakeProcess(t, 0)
	v := p.main.vm
	taken(t, v, capOf(1, 1))
	lost := 0
	p.kv.OnSet = func(key string, _ []byte, _ uint32) error {
		if strings.HasPrefix(key, process.KeyLastGood) && lost < 3 {
			lost++
			return lb.ErrMismatch
		}
		return nil
	}
	taken(t, v, capOf(2, 2))
	if got := inForce(taken(t, p.newVM(config.Higress), capOf(0, 3))); got != [2]int{2, 3} || lost != 3 {
		t.Errorf("%v in force after %d lost swaps", got, lost)
	}
}

func TestRefusalsInTheLog(t *testing.T) {
	const canary = "canary-9173"
	const password = `"lb_config":{"password":"` + canary + `"`
	rules := []string{`{"_match_route_":["mine"],"lb_policy":"global_least_request",` + password + `}}`}
	for i := range 200 {
		rules = append(rules, fmt.Sprintf(
			`{"_match_route_":["r%d"],"lb_policy":"least_busy",%s,"x\n":1}}`, i, password))
	}
	raw := `{"_rules_":[` + strings.Join(rules, ",") + `]}`
	p := newFakeProcess(t, 3)
	if !p.configure(raw) {
		t.Fatal("refused as a whole")
	}
	text := strings.Join(p.log, "\n")
	for want, n := range map[string]int{
		"refused in part": 1, "_rules_[1] for route r0: falls back to " +
			"native balancing": 1, "_rules_[1].lb_policy: got": 1,
		"config: 200 problems": 1, "and 150 more": 2, "_rules_[200]": 0, canary: 0,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("the log has %q %d times, want %d", want, got, n)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 2*50+20 {
		t.Errorf("%d lines for one push", lines)
	}
}

// The names in a kept rule are those of its previous form.
func TestKeptRuleNamesItsSource(t *testing.T) {
	const rule = `{"_rules_":[{"_match_route_":["chat"],"lb_policy":"%s","lb_config":{"envoy":{"admin_cluster":"%s"%s}}},
		{"_match_route_":["b"],"enabled":false}]}`
	p := newFakeProcess(t, 0)
	v := p.newVM(config.Envoy)
	for _, raw := range []string{
		fmt.Sprintf(rule, "global_least_request", "first", `,"redis_cluster":"r"`), fmt.Sprintf(rule, "x", "second", ""),
	} {
		got := started(v, 1, "warmgate", raw)
		p.now += process.TickPeriod
		got.OnTick()
		if p.source == nil || p.source.AdminCluster != "first" || !got.Set.Owns("first") || got.Set.Owns("second") {
			t.Errorf("%s: the source is %+v", raw, p.source)
		}
		if len(v.Stores.InRedis) != 1 {
			t.Errorf("%s: %d stores in Redis", raw, len(v.Stores.InRedis))
		}
	}
}
