package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/golden"
)

// TestGolden parses each testdata/*.json for the gateway that its name begins with, and compares all that comes out of
// it, every message included, with the file beside it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h := Higress
			if strings.HasPrefix(name, "envoy-") {
				h = Envoy
			}
			set, err := Parse(raw, h)
			golden.Compare(t, strings.TrimSuffix(file, ".json")+".golden", describe(h, set, err))
		})
	}
}

// describe writes down the result of Parse.
func describe(h Host, s *Set, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	if s == nil {
		return b.String()
	}
	for _, r := range s.Refusals() {
		fmt.Fprintf(&b, "refused: %s, kept: %v\n", r.Part, r.Kept)
	}
	for _, w := range s.Warnings() {
		fmt.Fprintln(&b, "warning:", w)
	}
	for i := range s.rules {
		b.WriteString("rule:\n" + shown(h, &s.rules[i].config))
	}
	if s.global != nil {
		b.WriteString("global:\n" + shown(h, s.global))
	}
	return b.String()
}

// shown writes down in what a configuration differs from that of a policy without any key, so that a new key changes
// no golden file but those that have it.
func shown(h Host, c *Config) string {
	if c.Refused {
		return "  refused\n"
	}
	text := `{"lb_policy":"global_least_request"}`
	if h == Envoy {
		text = `{"lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":"warmgate-admin"}}}`
	}
	usual, err := Parse([]byte(text), h)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	differences(&b, h, " ", reflect.ValueOf(c).Elem(), reflect.ValueOf(usual.global).Elem())
	if own := c.own[c.Policy]; own != nil {
		settings := reflect.ValueOf(own).Elem()
		differences(&b, h, "  "+c.Policy, settings, reflect.Zero(settings.Type()))
	}
	return b.String()
}

// differences writes down the fields of got that are not as in usual, one to a line, members of members with dots.
func differences(b *strings.Builder, h Host, path string, got, usual reflect.Value) {
	whole := got.Kind() != reflect.Struct
	if got.CanInterface() {
		switch v := got.Interface().(type) {
		case *Config:
			if v != nil {
				fmt.Fprintf(b, "%s:\n%s", path, shown(h, v))
				return
			}
		case fmt.Stringer: // which may hide a password
			whole = true
		}
	}
	if whole {
		if g, u := leaf(got), leaf(usual); g != u {
			fmt.Fprintf(b, "%s: %s\n", path, g)
		}
		return
	}
	for i := range got.NumField() {
		if name := got.Type().Field(i).Name; name != "own" {
			name = strings.Replace(path+"."+name, " .", "  ", 1)
			differences(b, h, name, got.Field(i), usual.Field(i))
		}
	}
}

// leaf writes down a value. A list that is empty says something else than one that is not there.
func leaf(v reflect.Value) string {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return "nil"
	}
	return fmt.Sprintf("%+v", v)
}

// String writes down a class without the types that it is made of.
func (c Class) String() string {
	return fmt.Sprintf("{%s ID:%d Rank:%d Weight:%v Reserved:%d}", c.Name, c.ID, c.Rank, c.Weight, c.Reserved)
}
