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
			Unit: Tokens, MaxInflight: 3, ZonePenalty: 2, Weights: map[string]float64{"a": 1},
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
