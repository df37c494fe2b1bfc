package metrics

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Numbers are rounded as strconv rounds them, in the notations that are read without it, too.
func TestNumbersAreRoundedCorrectly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[0-9]{0,17}(\.[0-9]{0,17})?`).Draw(rt, "digits")
		want, err := strconv.ParseFloat(text, 64)
		if got, ok := number([]byte(text)); ok != (err == nil) || ok && got != want {
			rt.Fatalf("%q: %v, %v, want %v, %v", text, got, ok, want, err)
		}
		if got, ok := decimal([]byte(text)); ok && got != want {
			rt.Fatalf("%q: decimal reads %v, want %v", text, got, want)
		}
	})
}

// Every finite float64 is read as it is written, in each notation of strconv.
func TestNumbersAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.Float64().Filter(func(f float64) bool { return math.Abs(f) < 1e40 }).Draw(rt, "number")
		for _, format := range []byte("efg") {
			text := strconv.FormatFloat(want, format, -1, 64)
			if len(text) > 64 {
				continue
			}
			if got, ok := number([]byte(" " + text + " # x")); !ok || got != want {
				rt.Fatalf("%s: %v, %v", text, got, ok)
			}
		}
	})
}

// escapeLabel writes a value as the text format does.
func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}

// A label is found by its whole name, whatever the other labels contain.
func TestLabelsAgainstAMap(t *testing.T) {
	names := []string{"a", "ab", "b", "reason", "le"}
	value := rapid.StringOfN(rapid.RuneFrom([]rune(`ab"\={},# é`)), 0, 6, -1)
	rapid.Check(t, func(rt *rapid.T) {
		labels := rapid.MapOfN(rapid.SampledFrom(names), value, 0, len(names)).Draw(rt, "labels")
		var pairs []string
		for _, name := range rapid.Permutation(names).Draw(rt, "order") {
			if v, ok := labels[name]; ok {
				pairs = append(pairs, name+`="`+escapeLabel(v)+`"`)
			}
		}
		comma := rapid.SampledFrom([]string{",", " , ", ",\t"}).Draw(rt, "comma")
		text := "{" + strings.Join(pairs, comma) + "} 7"
		inside, rest, ok := splitLabels([]byte(text))
		if !ok || string(rest) != " 7" {
			rt.Fatalf("%s: rest %q, %v", text, rest, ok)
		}
		for _, name := range names {
			got := label(inside, name)
			if want, ok := labels[name]; string(got) != escapeLabel(want) || (got != nil) != ok {
				rt.Fatalf("%s: %s is %q, want %q", text, name, got, want)
			}
		}
	})
}

// A list of adapters has exactly the names in the label, up to its limit, in the order of the page.
func TestAdapterLists(t *testing.T) {
	name := rapid.StringOfN(rapid.RuneFrom([]rune(`ab"\-/é`+"\n")), 1, 8, -1)
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfN(name, 0, MaxNames+4).Draw(rt, "names")
		var escaped []string
		for _, n := range names {
			escaped = append(escaped, escapeLabel(n))
		}
		var list Adapters
		list.parse([]byte(strings.Join(escaped, rapid.SampledFrom([]string{",", ", "}).Draw(rt, "comma"))))
		if list.N != min(len(names), MaxNames) {
			rt.Fatalf("%d of %d adapters", list.N, len(names))
		}
		for i, n := range names[:list.N] {
			if list.IDs[i] != AdapterID(n) || !list.Has(AdapterID(n)) {
				rt.Fatalf("adapter %d is not %q", i, n)
			}
		}
		if list.Has(AdapterID("not there")) {
			rt.Fatal("an adapter that is in no list")
		}
	})
}
