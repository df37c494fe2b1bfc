package health

import (
	"reflect"
	"testing"

	"github.com/warmgate/warmgate/internal/fieldtest"
	"github.com/warmgate/warmgate/lb"
)

// Rules whose configurations differ only in a field that equal does not compare would share lists of candidates.
func TestEqualComparesEachField(t *testing.T) {
	var changed ClusterConfig
	fieldtest.Each(t, reflect.ValueOf(&changed).Elem(), "ClusterConfig", func(path string) {
		if other := new(ClusterConfig); changed.Equal(other) || other.Equal(&changed) {
			t.Errorf("%s is not compared", path)
		}
		if same := changed; !changed.Equal(&same) {
			t.Errorf("%s: a copy differs", path)
		}
	})
}

func TestEqualComparesTheContentOfMaps(t *testing.T) {
	a, b := &ClusterConfig{Weights: map[string]float64{"a": 1}}, &ClusterConfig{Weights: map[string]float64{"a": 1}}
	if !a.Equal(b) {
		t.Error("equal weights in two maps differ")
	}
	b.Weights["a"] = 2
	if a.Equal(b) {
		t.Error("different weights of one address are equal")
	}
	if none := (&ClusterConfig{Weights: map[string]float64{}}); !none.Equal(&ClusterConfig{}) {
		t.Error("no weights and an empty map differ")
	}
}

// Configurations are equal if all of their parts are.
func TestEqualConfigs(t *testing.T) {
	base := func() *ClusterConfig {
		return &ClusterConfig{
			Unit: lb.Tokens, MaxInflight: 3, MaxInflightTokens: 5, ZonePenalty: 2, Weights: map[string]float64{"a": 1},
			Health: Config{SlowStart: 1},
		}
	}
	var known lb.EqualConfigs[*ClusterConfig]
	first := base()
	if known.One(first) != first || known.One(base()) != first {
		t.Error("an equal configuration is another one")
	}
	for i, change := range []func(*ClusterConfig){
		func(c *ClusterConfig) { c.Unit = lb.Requests },
		func(c *ClusterConfig) { c.MaxInflight = 4 },
		func(c *ClusterConfig) { c.MaxInflightTokens = 4 },
		func(c *ClusterConfig) { c.ZonePenalty = 3 },
		func(c *ClusterConfig) { c.Weights["a"] = 2 },
		func(c *ClusterConfig) { c.Health.SlowStart = 2 },
	} {
		c := base()
		if change(c); c.Equal(first) || first.Equal(c) {
			t.Errorf("change %d makes no difference", i)
		}
	}
}
