// Package fieldtest changes one field of a value after the other, for tests of what must depend on each of them.
package fieldtest

import (
	"reflect"
	"testing"
)

// Each calls check with each field of v, those of its structs included, set to another value than zero while
// all others are zero. path is the name of v.
func Each(t *testing.T, v reflect.Value, path string, check func(path string)) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			Each(t, v.Field(i), path+"."+v.Type().Field(i).Name, check)
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

// Fill sets every field of v to another value than zero, those of its structs, pointers and slices included; of a slice
// there is one.
func Fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			Fill(t, v.Field(i))
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Fill(t, v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(t, v.Index(0))
	default:
		kept := reflect.New(v.Type()).Elem()
		Each(t, v, v.Type().Name(), func(string) { kept.Set(v) })
		v.Set(kept)
	}
}
