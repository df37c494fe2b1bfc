package lb

import (
	"reflect"
	"testing"
)

// Rules whose configurations differ only in a field that equal does not compare would share lists of candidates.
func TestEqualComparesEachField(t *testing.T) {
	checkEqual(t, (*ClusterConfig).equal)
	checkEqual(t, (*EngineConfig).equal)
}

// checkEqual changes one field of a zero T after the other, and checks that equal sees each change.
func checkEqual[T any](t *testing.T, equal func(a, b *T) bool) {
	t.Helper()
	var changed T
	v := reflect.ValueOf(&changed).Elem()
	changeEachField(t, v, v.Type().Name(), func(path string) {
		if other := new(T); equal(&changed, other) || equal(other, &changed) {
			t.Errorf("%s is not compared", path)
		}
		if same := changed; !equal(&changed, &same) {
			t.Errorf("%s: a copy differs", path)
		}
	})
}

// changeEachField calls check with each field of v, those of its structs included, set to another value than zero while
// all others are zero. path is the name of v.
func changeEachField(t *testing.T, v reflect.Value, path string, check func(path string)) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			changeEachField(t, v.Field(i), path+"."+v.Type().Field(i).Name, check)
		}
		return
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	default:
		t.Fatalf("%s: no other value of type %s is known here", path, v.Type())
	}
	check(path)
	v.SetZero()
}

func TestEqualComparesTheContentOfMaps(t *testing.T) {
	a, b := &ClusterConfig{Weights: map[string]float64{"a": 1}}, &ClusterConfig{Weights: map[string]float64{"a": 1}}
	if !a.equal(b) {
		t.Error("equal weights in two maps differ")
	}
	b.Weights["a"] = 2
	if a.equal(b) {
		t.Error("different weights of one address are equal")
	}
	if none := (&ClusterConfig{Weights: map[string]float64{}}); !none.equal(&ClusterConfig{}) {
		t.Error("no weights and an empty map differ")
	}
}
