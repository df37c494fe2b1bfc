package clusters

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// Shares and recoveries follow from which site served when.
func TestJudge(t *testing.T) {
	p := phases{
		warm: 1 * time.Second, slow: 2 * time.Second, recovers: 3 * time.Second, fails: 8 * time.Second,
		works: 9 * time.Second, end: 12 * time.Second, recovered: time.Second,
	}
	sites := newSites()
	var all []answer
	for ms := 0; ms < 12000; ms += 10 {
		at := time.Duration(ms) * time.Millisecond
		a := answer{at: at, took: 100 * time.Millisecond, site: sites[0].name, ok: true}
		slowed := at >= p.slow && at < 5*time.Second
		if failed := at >= p.works && at < 10*time.Second; ms%20 == 0 && !slowed && !failed {
			a.site = sites[slowing].name
		}
		if at >= p.fails && at < p.works && ms%100 == 0 {
			a.ok, a.took = false, 0
		}
		all = append(all, a)
	}
	r := p.judge(all, sites)
	if r.requests != 1100 || r.failed != 10 || r.p50 != 100*time.Millisecond || r.p99 != 100*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r.shares[sites[slowing].name] != 0.5 || r.shares[sites[2].name] != 0 {
		t.Errorf("shares %v", r.shares)
	}
	if want := (returned{after: 2300 * time.Millisecond}); r.recovery != want || r.slowed != 0 {
		t.Errorf("it has half of its fair share again after %v, and had %v", r.recovery, r.slowed)
	}
	if want := (returned{stayed: true}); r.back != want {
		t.Errorf("one that fails a tenth of the requests is back after %v", r.back)
	}
	if r := p.backAfter(all, sites, 2, p.works, p.end); r != (returned{after: 3 * time.Second, never: true}) {
		t.Errorf("one that gets nothing is back after %v", r)
	}
}

// Each VM knows of its own requests only, and its rules are those that are published.
func TestPerVM(t *testing.T) {
	v := perVM(3, "LeastBusy", 1).(*vms)
	for range 300 {
		v.choose()
	}
	for _, m := range v.list {
		low, high := m.ongoing[0], m.ongoing[0]
		for _, n := range m.ongoing {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 2 {
			t.Errorf("ongoing %v", m.ongoing)
		}
	}
	v = perVM(2, "AdaptiveScore", 1).(*vms)
	m := v.list[0]
	m.ongoing[0], m.ongoing[1] = 1, 2
	m.ended(0, time.Millisecond, 99*time.Millisecond, true)
	m.ended(1, time.Millisecond, 24*time.Millisecond, true)
	m.ongoing[1]--
	now := time.Now()
	if a, b := m.score(now, 0), m.score(now, 1); a <= b {
		t.Errorf("the slower one scores %v, the faster one %v", a, b)
	}
	m.ongoing[1]++
	m.ended(1, time.Millisecond, time.Millisecond, false)
	for range 50 {
		if c := m.choose(time.Now()); c != 0 {
			t.Fatal("a cluster that has just failed is chosen")
		}
	}
}

// By mean latency one that was slow is never asked again.
func TestPublishedLatency(t *testing.T) {
	m := perVM(2, "LeastTotalLatency", 1).(*vms).list[0]
	for i := range 2 {
		m.ongoing[i] = 1
		m.ended(i, 0, time.Duration(1000-900*i)*time.Millisecond, true)
	}
	for range 99 {
		if c := m.choose(time.Now()); c != 1 {
			t.Fatalf("cluster %d is chosen", c)
		}
		m.ongoing[1]++
		m.ended(1, 0, 200*time.Millisecond, true)
	}
	if n := len(m.latest[1]); n != sampled {
		t.Errorf("a mean of %d answers", n)
	}
}

// A cluster that was never left is not one that is back at once, and a failure elsewhere is an error.
func TestNotLeft(t *testing.T) {
	p := phases{
		slow: time.Second, recovers: 2 * time.Second, fails: 3 * time.Second, works: 4 * time.Second,
		end: 5 * time.Second, recovered: time.Second,
	}
	sites := newSites()
	var all []answer
	for ms := 0; ms < 5000; ms += 10 {
		all = append(all, answer{at: time.Duration(ms) * time.Millisecond, site: sites[ms/10%3].name, ok: true})
	}
	all[7].ok, all[7].site = false, ""
	all[10].ok = false
	r := p.judge(all, sites)
	if want := (returned{stayed: true}); r.recovery != want || r.back != want || r.failed != 2 || r.errors != 1 {
		t.Errorf("%+v", r)
	}
	b := backOf([]result{r, {recovery: returned{after: 4 * time.Second}}}, recovery)
	if text := b.String(); *b.median() != 4 || text != "4.0 (4.0..4.0), not left in 1 of 2" {
		t.Error(text)
	}
	if b := backOf([]result{r}, back); b.median() != nil || b.String() != "–, not left in 1 of 1" {
		t.Error(b)
	}
}

// The same seed chooses the same.
func TestSeeded(t *testing.T) {
	for _, mode := range []string{"LeastBusy", "AdaptiveScore"} {
		a, b, other := perVM(3, mode, 1), perVM(3, mode, 1), perVM(3, mode, 2)
		same := 0
		for range 99 {
			chosen := a.choose()
			if c := b.choose(); c != chosen {
				t.Fatalf("%s: %d and %d", mode, chosen, c)
			}
			if other.choose() == chosen {
				same++
			}
		}
		if same == 99 {
			t.Errorf("%s chooses the same with another seed", mode)
		}
	}
}

// played is a report of a contender that meets all targets, and of those that these need.
func played() *report {
	rep := &report{settings: settings{Settings: bench.Settings{Own: "LeastBusy", Rounds: 1}, rate: load}}
	for _, r := range []struct {
		name   string
		p99    time.Duration
		failed int
	}{{"LeastBusy", 100, 1}, {weighted, 400, 2}, {"LeastBusy per VM", 200, 3}} {
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == r.name })
		rep.contenders = append(rep.contenders, contenders[i])
		rep.Add("", r.name, result{
			requests: 10, failed: r.failed, p99: r.p99 * time.Millisecond, shares: map[string]float64{},
			recovery: returned{after: time.Second}, back: returned{after: 2 * time.Second},
		})
	}
	return rep
}

// of returns what a contender did in the only round.
func (rep *report) of(name string) *result { return &rep.Of("", name)[0] }

// The last line has the figures of the own contender, beside those of all.
func TestLine(t *testing.T) {
	rep := played()
	l := rep.line()
	all := l["contenders"].(map[string]bench.Line)
	if l["p99_vs_weighted"] != 0.25 || l["p99_vs_per_vm"] != 0.5 || l["recovery_s"] != 1.0 ||
		all[weighted]["failed_percent"] != 20.0 || l["never_recovered"] != 0 ||
		l["recovery_after_failures_s"] != 2.0 || all[weighted]["never_back_after_failures"] != 0 ||
		l["p99_vs_modes"] != nil || l["target_met"] != true || l["not_met"] != nil {
		t.Errorf("%+v", l)
	}
	if rows := rep.table().Rows; len(rows) != 3 || len(rep.configuration()) < 6 {
		t.Errorf("%v", rows)
	}
	rep.settings.Own = contenders[0].name
	text, err := json.Marshal(rep.line())
	if err != nil || !strings.Contains(string(text), `"not_met":["AdaptiveScore was not played"],`) ||
		rep.line()["p99_ms"] != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// TestNotMet spoils a report that meets all targets, in one way after another.
func TestNotMet(t *testing.T) {
	for _, c := range []struct {
		why   string
		spoil func(rep *report)
	}{
		{"another load than that of the targets", func(rep *report) { rep.settings.rate = 0.5 }},
		{"2 requests failed elsewhere than in the cluster that fails", func(rep *report) {
			rep.of("LeastBusy per VM").errors = 2
		}},
		{"weighted was not played", func(rep *report) { rep.Drop("", weighted) }},
		{"LeastBusy per VM was not played", func(rep *report) { rep.Drop("", "LeastBusy per VM") }},
		{"p99 is not below that of weighted", func(rep *report) { rep.of(weighted).p99 /= 4 }},
		{"30.00 % failed, of weighted 20.00 %", func(rep *report) { rep.of("LeastBusy").failed = 3 }},
		{"the slow cluster was not left in 1 of 1 rounds", func(rep *report) {
			rep.of("LeastBusy").recovery = returned{stayed: true}
		}},
		{"it was back after 11.0 s", func(rep *report) { rep.of("LeastBusy").recovery.after = 11 * time.Second }},
		{"after failures it was back after 11.0 s", func(rep *report) {
			rep.of("LeastBusy").back.after = 11 * time.Second
		}},
		{"after failures it was back after 2.0 s", func(rep *report) { rep.of("LeastBusy").back.never = true }},
		{"p99 is 1.06 of that of LeastTotalLatency", func(rep *report) {
			i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == "LeastTotalLatency" })
			rep.contenders = append(rep.contenders, contenders[i])
			other := *rep.of("LeastBusy")
			other.p99 = rep.of("LeastBusy").p99 * 100 / 106
			rep.Add("", "LeastTotalLatency", other)
		}},
		{"it was not back in 1 of 1 rounds", func(rep *report) { rep.of("LeastBusy").recovery.never = true }},
	} {
		rep := played()
		c.spoil(rep)
		l := rep.line()
		if l["target_met"] != false || !slices.Equal(l["not_met"].(bench.Reasons), bench.Reasons{c.why}) {
			t.Errorf("%q, want %q", l["not_met"], c.why)
		}
	}
}
