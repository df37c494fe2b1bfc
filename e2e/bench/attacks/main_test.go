package attacks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/benchtest"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// madeUp is a report of all attacks whose results meet all targets, changed by f.
func madeUp(f func(a *attack, round int, r *result)) *report {
	rep := &report{
		settings: settings{
			Settings: bench.Settings{Rounds: 3, Workers: 2, Seed: 7}, load: 0.53, span: 13 * time.Second,
		},
		attacks: attacks,
	}
	for i := range attacks {
		var rounds []result
		for round := range 3 {
			r := result{p99: 1.05, fast: 0.08, script: 1.4}
			r.share, r.apart, r.apartNull = attacks[i].share, 0.04, 0.03
			f(&attacks[i], round, &r)
			rounds = append(rounds, r)
		}
		rep.results = append(rep.results, rounds)
	}
	return rep
}

func TestLineOfTargetsThatAreMet(t *testing.T) {
	l := madeUp(func(*attack, int, *result) {}).line()
	if l["target_met"] != true || len(l["missed"].([]string)) != 0 {
		t.Errorf("missed %v of %v", l["missed"], l)
	}
	for _, target := range targets {
		if _, ok := l[target.name].(float64); !ok {
			t.Errorf("the line lacks %s", target.name)
		}
	}
}

func TestLineTakesTheWorstAttack(t *testing.T) {
	// in changes the results of an attack, or of all, in the rounds from one to another.
	in := func(name string, from, to int, change func(r *result)) func(a *attack, round int, r *result) {
		return func(a *attack, round int, r *result) {
			if (name == "" || a.String() == name) && from <= round && round <= to {
				change(r)
			}
		}
	}
	moves, fails := func(r *result) { r.apart = 0.18 }, func(r *result) { r.ejected = 2 }
	passes, attracts := func(r *result) { r.passed = 1 }, func(r *result) { r.fast = 0.7 }
	stalls, delays := func(r *result) { r.script = 9 }, func(r *result) { r.p99 = 7 }
	loses := func(r *result) { r.lost = 0.21 }
	for _, c := range []struct {
		name, figure, worst string
		change              func(a *attack, round int, r *result)
		want                float64
		missed              bool
	}{
		{"moved in two of three rounds", "displaced_max", "1c prefix", in("1c prefix", 1, 2, moves), 3, true},
		{"moved in one of three", "displaced_max", "1a tokens", in("1c prefix", 2, 2, moves), 0.2, false},
		{"ejected once", "ejected_by_clients", "2 stall", in("2 stall", 1, 1, fails), 2, true},
		{"ejected, and rightly so", "ejected_by_clients", "1a tokens", in("3 fast 404", 0, 2, fails), 0, false},
		{"above the cap once", "cap_passed", "4", in("", 2, 2, passes), 1, true},
		{"a server that attracts", "fast_4xx_share", "3 fast 404", in("", 0, 2, attracts), 0.7, true},
		{"a script that is long once", "script_ms_max", "9", in("", 0, 0, stalls), 1.4, false},
		{"latency where capacity is taken", "honest_p99_ratio", "1a tokens", in("4", 0, 2, delays), 1.05, false},
		{
			"latency of a server that fails", "honest_p99_ratio", "1a tokens", in("3 fast 404", 0, 2, delays),
			1.05, false,
		},
		{"matches lost", "matching_lost", "5", in("5", 0, 2, loses), 0.21, true},
	} {
		l := madeUp(c.change).line()
		got := l[c.figure].(float64)
		if !near(got, c.want, 1e-9) || l[c.figure+"_worst"] != c.worst {
			t.Errorf("%s: %s is %v of %v, want %v of %s", c.name, c.figure, got, l[c.figure+"_worst"], c.want, c.worst)
		}
		if missed := slices.Contains(l["missed"].([]string), c.figure); missed != c.missed ||
			l["target_met"] == c.missed {
			t.Errorf("%s: missed %v, met %v", c.name, l["missed"], l["target_met"])
		}
	}
}

func TestLineLeavesOutWhatWasNotPlayed(t *testing.T) {
	rep := madeUp(func(*attack, int, *result) {})
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.id == "4" })
	rep.attacks, rep.results = rep.attacks[i:i+1], rep.results[i:i+1]
	raw, err := json.Marshal(rep.line())
	if err != nil || !strings.Contains(string(raw), `"cap_passed":0`) || strings.Contains(string(raw), "script") ||
		!strings.Contains(string(raw), `"target_met":false`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestReportHasConfiguration(t *testing.T) {
	rep := madeUp(func(_ *attack, round int, r *result) { r.passed = float64(round) })
	benchtest.Report(t, rep.configuration(), rep.table(), rep.line(),
		`"max_inflight":4`, "127.0.0.2", "7 clients from 127.0.0.3 on", "content-length: 1000000000", "1 (0..2)",
		"honest_p99_ratio", "scenario redis", "33 % of all requests", "decode step 79 ms",
	)
	if n := len(rep.targetTable().Rows); n != len(targets) {
		t.Errorf("%d targets in the table", n)
	}
}

func TestResultComparesWithBothControls(t *testing.T) {
	sc := scenarioOf("four")
	traffic := make([]honest, 400)
	samples := func(choose func(i int) int, ttft time.Duration) []loadgen.Sample {
		out := at(len(traffic), choose)
		for i := range out {
			out[i].Due = time.Duration(i) * 50 * time.Millisecond
			out[i].TTFT = ttft
			traffic[i].ID = i
		}
		return out
	}
	inTurn := func(i int) int { return i % 4 }
	one := &arm{scenario: sc, traffic: traffic, outcome: outcome{samples: samples(inTurn, 100)}}
	two := &arm{scenario: sc, traffic: traffic, outcome: outcome{samples: samples(inTurn, 100), ejected: 1, slow: 2}}
	with := &arm{scenario: sc, traffic: traffic, attack: &attack{share: 0.2}, round: 5, outcome: outcome{
		samples: samples(func(int) int { return 1 }, 150), ejected: 3, passed: 4,
	}}
	with.samples[399].Error = loadgen.ErrReset
	r := resultOf(with, one, two, settings{warm: 2 * time.Second})
	if r.maxShare != 1 || r.maxShareNull != 0.25 || r.fast != 1 || r.fastNull != 0.25 {
		t.Errorf("shares %+v", r)
	}
	if !near(r.p99, 1.5, 1e-9) || r.p99Null != 1 || !near(r.failed, 1./360, 1e-9) || r.failedNull != 0 {
		t.Errorf("latency and failures %+v", r)
	}
	if r.ejected != 3 || r.ejectedNull != 1 || r.passed != 4 || r.slowNull != 2 || !near(r.perShare(), 0.75/0.2, 1e-9) {
		t.Errorf("counts %+v", r)
	}
}
