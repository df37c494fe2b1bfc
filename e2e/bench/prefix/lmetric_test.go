package prefix

import "testing"

// TestLMetricMultiplies has 192 tokens of 208 cached at the second server: with so many requests there that the product
// is that of the others, it goes elsewhere.
func TestLMetricMultiplies(t *testing.T) {
	stage, q := exactStage(t)
	p, err := stage.Servers[0].Prompt(string(q.Body), true)
	if err != nil {
		t.Fatal(err)
	}
	left := p.Tokens - stage.Servers[1].Cached(&p)
	if left < 1 || left > 60 {
		t.Fatalf("%d of %d tokens are not cached", left, p.Tokens)
	}
	l := newLMetric(stage, &workload{})
	for _, tc := range []struct {
		there int
		stays bool
	}{{0, true}, {p.Tokens/left - 2, true}, {p.Tokens/left + 1, false}} {
		l.underWay[1] = tc.there
		server, u := l.choose(q)
		if (server == 1) != tc.stays {
			t.Errorf("with %d requests there, server %d", tc.there, server)
		}
		if u.First(); l.underWay[server] == 0 || len(l.computing[server]) != 0 {
			t.Errorf("computed: %d under way, %d being computed", l.underWay[server], len(l.computing[server]))
		}
		if u.Done(); l.underWay[1] != tc.there {
			t.Errorf("%d under way at the end, %d before", l.underWay[1], tc.there)
		}
	}
}

// TestLMetricSeesWhatComes holds that a prompt counts as cached where it is about to be computed.
func TestLMetricSeesWhatComes(t *testing.T) {
	stage, q := exactStage(t)
	fresh := stage.Servers[:1:1]
	fresh = append(fresh, stage.Servers[2])
	stage.Servers = fresh // none has it
	choose := byLMetric(stage, &workload{})
	first, u := choose(q)
	if second, _ := choose(q); second != first {
		t.Errorf("first to %d, and while it is computed to %d", first, second)
	}
	u.First() // as if it was lost: the server has not computed anything
	u.Done()
}
