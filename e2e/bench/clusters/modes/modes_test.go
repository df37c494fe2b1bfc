package modes

import (
	"math"
	"slices"
	"testing"
	"time"
)

const (
	// asGood is how much more than the best other mode AdaptiveScore may take: seeds differ by that.
	asGood = 1.05
	// again is within what time a cluster that has failed has requests again.
	again = 10 * time.Second
)

// With the defaults of all keys AdaptiveScore is as good as the best other mode of each scene, whichever that is, in
// the mean, in p99 and in the slowest percent, and better over all scenes; and uses what has failed within ten seconds.
func TestAdaptiveScoreIsAsGoodAsTheBest(t *testing.T) {
	all, err := compare(scenes, 3)
	if err != nil {
		t.Fatal(err)
	}
	measures := []struct {
		name string
		of   func(outcome) float64
		most float64 // over all scenes, as a geometric mean
		sum  float64
	}{{"mean", meanOf, 0.92, 0}, {"p99", p99Of, 0.85, 0}, {"slowest percent", slowestOf, 0.87, 0}}
	for i := range all {
		c := &all[i]
		for k := range measures {
			m := &measures[k]
			ratio := c.ratio(m.of)
			if m.sum += math.Log(ratio); ratio > asGood {
				t.Errorf("%s: %s %.0f ms, of the best %.0f",
					c.scene.title(), m.name, m.of(c.by[Adaptive]), c.best(m.of))
			}
		}
		if back := c.by[Adaptive].back; back > again {
			t.Errorf("%s: the cluster has requests again after %v", c.scene.title(), back)
		}
	}
	for _, m := range measures {
		if over := math.Exp(m.sum / float64(len(all))); over > m.most {
			t.Errorf("%s: %.3f of the best modes, over all scenes", m.name, over)
		}
	}
}

// The table has a row for each scene, and the line what is over the best.
func TestTable(t *testing.T) {
	var all []comparison
	for i := range scenes[:2] {
		c := comparison{&scenes[i], map[string]outcome{}}
		for k, mode := range Names {
			c.by[mode] = outcome{mean: 100 - float64(k), p99: 200, slowest: 300, failed: k, back: time.Duration(i) * ms}
		}
		all = append(all, c)
	}
	tab := table(all)
	if len(tab.Rows) != 2 || len(tab.Rows[0]) != len(tab.Head) || tab.Rows[1][4] != "97 / 200 / 300" ||
		tab.Rows[1][5] != "0.99 / 1.00 / 1.00" || tab.Rows[0][6] != "–" || tab.Rows[1][6] != "0 1 2 3" {
		t.Errorf("%q", tab.Rows)
	}
}

// The same seed plays the same run, another one another.
func TestSeeds(t *testing.T) {
	c, err := configOf(Adaptive, 3)
	if err != nil {
		t.Fatal(err)
	}
	s := scenes[slices.IndexFunc(scenes, func(s scene) bool { return s.varied && s.events != nil })]
	var got []figures
	for _, seed := range []uint64{1, 1, 2} {
		r, err := begin(&s, c, seed)
		if err == nil {
			err = r.play(s.loads[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.figures())
	}
	if got[0] != got[1] || got[0] == got[2] {
		t.Errorf("%+v", got)
	}
}

// A cluster serves as many at once as it has slots, in order, and others wait.
func TestSites(t *testing.T) {
	c, err := configOf("LeastBusy", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := scene{sites: []site{{slots: 2, service: 100 * ms, away: 30 * ms}}}
	r, err := begin(&s, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		now := time.Duration(i) * 10 * ms
		r.until(now)
		if err := r.arrive(now); err != nil {
			t.Fatal(err)
		}
	}
	r.until(150 * ms)
	r.times[0] = 0 // those that wait fail when they would be served, and others at once
	r.until(time.Second)
	if err := r.arrive(time.Second); err != nil {
		t.Fatal(err)
	}
	r.until(time.Minute)
	var took []time.Duration
	failed := 0
	for _, q := range r.all {
		took = append(took, (q.over - q.at).Round(ms))
		if q.failed {
			failed++
		}
	}
	want := []time.Duration{130 * ms, 130 * ms, 210 * ms, 210 * ms, 161 * ms, 152 * ms, 1 * ms}
	if !slices.Equal(took, want) || failed != 3 {
		t.Errorf("%v, %d failed, want %v", took, failed, want)
	}
	if r.loads[0].Requests != 0 || r.free[0] != 2 {
		t.Errorf("%d in flight, %d free", r.loads[0].Requests, r.free[0])
	}
}

// One that has a tenth of the requests of a second is back, not before.
func TestBackAfter(t *testing.T) {
	r := &run{scene: &scene{}}
	for i := range 1000 {
		q := &request{at: time.Duration(i) * 20 * ms}
		if i >= 500 && i%10 == 0 {
			q.site = 1
		}
		r.all = append(r.all, q)
	}
	if got := r.backAfter(2*time.Second, 1); got < 8*time.Second || got > 9*time.Second {
		t.Errorf("back after %v", got)
	}
	if got := r.backAfter(2*time.Second, 2); got != end-2*time.Second {
		t.Errorf("one without requests is back after %v", got)
	}
}
