package lb

import (
	"testing"
	"time"
)

// A list that was not used for longer than unusedListTTL is deleted, in a sweep every tenth of this time.
func TestUnusedListsAreDeleted(t *testing.T) {
	const tenth = unusedListTTL / 10
	for _, c := range []struct {
		swept, unused time.Duration // how long ago
		want          bool
	}{
		{tenth, unusedListTTL, true},
		{tenth, unusedListTTL + 1, false},
		{tenth - 1, unusedListTTL + 1, true},
		{tenth + 1, unusedListTTL + 1, false},
	} {
		lists := newListCache[*ClusterConfig, *View, int]()
		key := candidateKey{config: &ClusterConfig{}}
		lists.get(time.Hour-c.unused, key)
		lists.sweptAt = time.Hour - c.swept
		lists.sweep(time.Hour)
		if _, in := lists.results[key]; in != c.want || c.swept >= tenth && lists.configs[key.config] != c.want {
			t.Errorf("%+v: the list remains %v", c, in)
		}
	}
}

// Configurations are equal if all of their parts are.
func TestEqualConfigs(t *testing.T) {
	base := func() *ClusterConfig {
		return &ClusterConfig{
			Unit: Tokens, MaxInflight: 3, MaxInflightTokens: 5, ZonePenalty: 2, Weights: map[string]float64{"a": 1},
			Health: HealthConfig{SlowStart: 1},
		}
	}
	lists := newListCache[*ClusterConfig, *View, int]()
	first := base()
	if lists.intern(first) != first || lists.intern(base()) != first {
		t.Error("an equal configuration is another one")
	}
	for i, change := range []func(*ClusterConfig){
		func(c *ClusterConfig) { c.Unit = Requests },
		func(c *ClusterConfig) { c.MaxInflight = 4 },
		func(c *ClusterConfig) { c.MaxInflightTokens = 4 },
		func(c *ClusterConfig) { c.ZonePenalty = 3 },
		func(c *ClusterConfig) { c.Weights["a"] = 2 },
		func(c *ClusterConfig) { c.Health.SlowStart = 2 },
	} {
		c := base()
		if change(c); c.equal(first) || first.equal(c) {
			t.Errorf("change %d makes no difference", i)
		}
	}
}

// A pool retains the newest lists, by their number and by the candidates in them. An equal list is the one in the pool.
func TestListPoolIsBounded(t *testing.T) {
	for _, c := range []struct{ lists, size, want int }{
		{maxPooledLists - 1, 1, maxPooledLists - 1},
		{maxPooledLists, 1, maxPooledLists},
		{maxPooledLists + 1, 1, maxPooledLists},
		{4, maxPooledCandidates / 4, 4},
		{4, maxPooledCandidates/4 + 1, 3},
		{2, maxPooledCandidates + 1, 1},
	} {
		var p listPool
		for i := range c.lists {
			cs := make([]Candidate, c.size)
			cs[0].Base = float64(i)
			if p.intern(0, cs); p.lists[len(p.lists)-1].candidates[0].Base != float64(i) {
				t.Fatalf("%+v: list %d is not in the pool", c, i)
			}
		}
		if len(p.lists) != c.want {
			t.Errorf("%+v: %d lists", c, len(p.lists))
		}
	}
	var p listPool
	first := p.intern(0, []Candidate{{Base: 1}})
	p.intern(1, []Candidate{{Base: 2}})
	if again := p.intern(2, []Candidate{{Base: 1}}); &again[0] != &first[0] || p.lists[1].lastMade != 2 {
		t.Error("an equal list is another one")
	}
	for after, want := range map[time.Duration]int{unusedListTTL: 1, unusedListTTL + 1: 0} {
		p := listPool{lists: []pooledList{{lastMade: time.Hour}}}
		if p.sweep(time.Hour + after); len(p.lists) != want {
			t.Errorf("%v after it was made: %d lists", after, len(p.lists))
		}
	}
}

// Derived lists are cached up to their bounds, above which all are dropped.
func TestDerivedListsAreBounded(t *testing.T) {
	for _, c := range []struct{ lists, size, want int }{
		{maxDerivedLists, 1, maxDerivedLists},
		{maxDerivedLists + 1, 1, 1},
		{4, maxDerivedCandidates / 4, 4},
		{4, maxDerivedCandidates/4 + 1, 1},
	} {
		var d derivedLists[int]
		cs := make([]Candidate, c.size)
		for i := range c.lists {
			first := d.get(cs, i, func(cs []Candidate) []Candidate { return append([]Candidate{}, cs...) })
			if again := d.get(cs, i, nil); &again[0] != &first[0] {
				t.Fatalf("%+v: list %d is made twice", c, i)
			}
		}
		if len(d.lists) != c.want || d.candidates != c.want*c.size {
			t.Errorf("%+v: %d lists with %d candidates", c, len(d.lists), d.candidates)
		}
	}
}
