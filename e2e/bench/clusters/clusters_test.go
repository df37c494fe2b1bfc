package main

import (
	"testing"
	"time"
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
		if slowed := at >= p.slow && at < 5*time.Second; ms%20 == 0 && !slowed {
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
	if r.shares[sites[slowing].name] != 0.5 || r.shares[sites[failing].name] != 0 {
		t.Errorf("shares %v", r.shares)
	}
	if want := (returned{after: 2300 * time.Millisecond}); r.recovery != want || r.slowed != 0 {
		t.Errorf("it has half of its fair share again after %v, and had %v", r.recovery, r.slowed)
	}
	if want := (returned{3 * time.Second, true}); r.back != want {
		t.Errorf("one that gets nothing is back after %v", r.back)
	}
}

// Each VM knows of its own requests only, and its rules are those that are published.
func TestPerVM(t *testing.T) {
	v := perVM(3, "LeastBusy").(*vms)
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
	v = perVM(2, "AdaptiveScore").(*vms)
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
	m := perVM(2, "LeastTotalLatency").(*vms).list[0]
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

// The last line has the figures of the own contender, beside those of all.
func TestLine(t *testing.T) {
	two := []contender{contenders[2], contenders[4]}
	rep := &report{settings: settings{own: "LeastBusy"}, contenders: two, results: [][]result{
		{{requests: 10, p99: 100 * time.Millisecond, recovery: returned{after: time.Second}}},
		{{requests: 10, failed: 1, p99: 400 * time.Millisecond, back: returned{never: true}}},
	}}
	for i := range rep.results {
		rep.results[i][0].shares = map[string]float64{}
	}
	l := rep.line()
	if l.Weighted == nil || *l.Weighted != 0.25 || l.Recovery != 1 || l.All[weighted].Failed != 10 ||
		l.Never != 0 || l.All[weighted].NotBack != 1 {
		t.Errorf("%+v", l)
	}
	if rows := rep.table().Rows; len(rows) != 2 || len(rep.configuration()) < 6 {
		t.Errorf("%v", rows)
	}
}
