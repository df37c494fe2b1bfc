package config

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/setting"
)

// The default of a key stands in the table of keys alone: with another one there, a key that is not written has that
// one, and so has a key of which 0 stands for the default.
func TestDefaultsStandOnce(t *testing.T) {
	absent, zero := 0, 0
	for i := range keys {
		k := &keys[i]
		old, isNumber := k.number()
		if !isNumber {
			continue
		}
		other := k.another(old)
		meant, zeroStands := k.stored(mustParse(t, withoutKey(k), k.host())), false
		if k.Min <= 0 && old != 0 && k.Type != setting.Number { // of these, 0 has a meaning of its own
			c, err := Parse(withKey(k, "0"), k.host())
			zeroStands = err == nil && k.stored(c.Match("", "", "")) == meant
		}
		want := k.stored(mustParse(t, withKey(k, other), k.host()))
		restore := k.setDefaults(other)
		if got := k.stored(mustParse(t, withoutKey(k), k.host())); got != want || got == meant {
			t.Errorf("%s: with the default %s in the table, %v where it is not written", k.Name, other, got)
		}
		absent++
		if zeroStands {
			zero++
			if got := k.stored(mustParse(t, withKey(k, "0"), k.host())); got != want {
				t.Errorf("%s: with the default %s in the table, %v where 0 is written", k.Name, other, got)
			}
		}
		restore()
	}
	if absent < 30 || zero < 4 {
		t.Errorf("only %d defaults, %d of them also for 0", absent, zero)
	}
}

// number returns the default of a key that is a number and stored as it is written.
func (k *key) number() (f float64, ok bool) {
	if k.Field == nil || k.set != nil || k.NoEffect != "" || k.Default == "" {
		return 0, false
	}
	var v value
	switch k.Type {
	case setting.Integer, setting.Seconds, setting.Number, setting.Size, setting.Duration:
		v, _ = defaultOf(&k.Key)
	default:
		return 0, false
	}
	if d, isDuration := v.duration(); k.Type == setting.Duration && isDuration {
		return float64(d.Milliseconds()), true
	}
	return v.float()
}

// another returns another valid value than the default, a little beside it.
func (k *key) another(old float64) string {
	f := old + 1
	if k.Type == setting.Number && f > k.Max {
		f = (old + k.Min) / 2
	} else if f > k.Max {
		f = old - 1
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// setDefaults puts another default into the table, and into the policies' own keys that the table was made of.
func (k *key) setDefaults(text string) (restore func()) {
	var places []*string
	places = append(places, &k.Default)
	for i := range k.also {
		places = append(places, &k.also[i].Default)
	}
	for _, d := range policy.All() {
		for i := range d.Keys {
			if section+d.Keys[i].Name == k.Name {
				places = append(places, &d.Keys[i].Default)
			}
		}
	}
	old := make([]string, len(places))
	for i, at := range places {
		old[i], *at = *at, text
	}
	return func() {
		for i, at := range places {
			*at = old[i]
		}
	}
}

// withoutKey returns a configuration in which the key would have an effect, without it.
func withoutKey(k *key) []byte { return []byte(writeConfig(needed(k)...)) }

// A default in the table has the same effect as leaving the key out.
func TestDefaultsAreThoseOfTheTable(t *testing.T) {
	tested := 0
	for _, k := range Keys() {
		if k.Default == "" {
			continue
		}
		tested++
		text, h := document(k.Name, k.Default)
		set, err := Parse([]byte(text), h)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want := defaults(h)
		want.Policy, want.EnvoyCfg.AdminCluster = set.global.Policy, set.global.EnvoyCfg.AdminCluster
		want.Store = StoreLocal
		if !reflect.DeepEqual(*set.global, want) {
			t.Errorf("%s: got %+v, want %+v", text, *set.global, want)
		}
	}
	if tested < 20 {
		t.Errorf("only %d defaults", tested)
	}
}
