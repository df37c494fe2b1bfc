package config

import (
	"strings"
	"testing"
	"testing/quick"

	"pgregory.net/rapid"
)

// slowDistance is the edit distance by its definition.
func slowDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	case a[0] == b[0]:
		return slowDistance(a[1:], b[1:])
	}
	return 1 + min(slowDistance(a[1:], b), slowDistance(a, b[1:]), slowDistance(a[1:], b[1:]))
}

func TestDistanceByItsDefinition(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := word.Draw(rt, "a"), word.Draw(rt, "b"), word.Draw(rt, "c")
		if got, want := distance(a, b), slowDistance(a, b); got != want {
			rt.Fatalf("%q to %q: %d, want %d", a, b, got, want)
		}
		if distance(a, b) != distance(b, a) || distance(a, c) > distance(a, b)+distance(b, c) {
			rt.Fatalf("%q, %q, %q: no metric", a, b, c)
		}
	})
}

// nearest returns the first name with the lowest distance, if a third of the word is right at least.
func TestNearestByItsDefinition(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("aB_-")), 0, 7, -1)
	rapid.Check(t, func(rt *rapid.T) {
		written, names := word.Draw(rt, "written"), rapid.SliceOfN(word, 0, 5).Draw(rt, "names")
		want, least := "", len(plain(written))/3+1
		for _, name := range names {
			if d := slowDistance(plain(written), plain(name)); d < least {
				want, least = name, d
			}
		}
		if got := nearest(written, names); got != want {
			rt.Fatalf("%q in %q: %q, want %q", written, names, got, want)
		}
	})
}

func TestPlainIsIdempotent(t *testing.T) {
	if err := quick.Check(func(s string) bool { return plain(plain(s)) == plain(s) }, nil); err != nil {
		t.Error(err)
	}
}

// camel returns a name in snake_case in camelCase.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i := 1; i < len(words); i++ {
		if words[i] != "" {
			words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
		}
	}
	return strings.Join(words, "")
}

// split returns the section of a key and its name in it.
func split(full string) (section, name string) {
	dot := strings.LastIndexByte(full, '.')
	return full[:dot+1], full[dot+1:]
}

// misspelled returns the configuration of a key under another name in its section.
func misspelled(k *key, as string) (text []byte, at string) {
	section, _ := split(k.Name)
	list := needed(k)
	switch k.Name {
	case "lb_policy":
		list = append(list, member{"lb_policy", `"global_least_request"`})
	case "lb_config.envoy.admin_cluster", "lb_config.envoy.endpoints":
		list = append(list, member{"lb_config.envoy.endpoints", `["10.0.0.1:80"]`})
	case "lb_config.mode":
		list = append(list, member{k.Name, `"LeastBusy"`})
	case keyBudgetTargets:
		list = append(list, member{k.Name, someTargets})
	}
	return []byte(writeConfig(append(list, member{section + as, `1`})...)), section + as
}

// A key of the plugin's own that is written in the manner of Higress's keys, or with hyphens or capitals, is an error
// that suggests the right name: it is not ignored as a key of another plugin.
func TestOtherSpellingsAreSuggested(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		_, name := split(k.Name)
		if !k.decodes() {
			continue
		}
		for _, as := range []string{
			camel(name), strings.ReplaceAll(name, "_", "-"), strings.ToUpper(name), strings.ReplaceAll(name, "_", ""),
		} {
			if as == name || find(k.Name[:len(k.Name)-len(name)]+as) != nil {
				continue
			}
			text, at := misspelled(k, as)
			if what := refused(t, text, k.host(), at); what != "unknown key; did you mean "+name+"?" {
				t.Errorf("%s: %q", at, what)
			}
		}
	}
}

// A key with one wrong letter is an error on both gateways, and the suggestion is a key of the same section that is at
// least as similar.
func TestTyposAreErrors(t *testing.T) {
	for _, k := range strictKeys() {
		section, name := split(k.Name)
		if len(name) < 4 { // a third of it is wrong
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				as := typo(rt, name)
				if find(section+as) != nil || isSection(section+as) {
					return
				}
				text, at := misspelled(k, as)
				what := refused(rt, text, k.host(), at)
				hint, ok := strings.CutPrefix(what, "unknown key; did you mean ")
				hint = strings.TrimSuffix(hint, "?")
				if !ok || find(section+hint) == nil && !isSection(section+hint) {
					rt.Fatalf("%s: %q", at, what)
				}
				if distance(plain(as), plain(hint)) > distance(plain(as), plain(name)) {
					rt.Fatalf("%s: suggests %s, further away than %s", as, hint, name)
				}
			})
		})
	}
}

// typo changes, drops or adds one letter.
func typo(rt *rapid.T, name string) string {
	at, letter := rapid.IntRange(0, len(name)-1).Draw(rt, "place"), rapid.StringMatching("[a-z]").Draw(rt, "letter")
	switch rapid.SampledFrom([]string{"change", "drop", "add"}).Draw(rt, "kind") {
	case "change":
		return name[:at] + letter + name[at+1:]
	case "drop":
		return name[:at] + name[at+1:]
	}
	return name[:at] + letter + name[at:]
}

// A key in the wrong section is an error that contains its full name.
func TestKeyInTheWrongSection(t *testing.T) {
	count := map[string]int{}
	for i := range keys {
		_, name := split(keys[i].Name)
		count[plain(name)]++
	}
	tested := 0
	for i := range keys {
		k := &keys[i]
		section, name := split(k.Name)
		if !k.decodes() || section == "" || count[plain(name)] > 1 || name == "name" { // which anything may have
			continue
		}
		if k.Name == keyTunnel { // which Higress has another key for
			continue
		}
		for _, place := range []string{"", "lb_config.", "lb_config.overload."} {
			if place == section || find(place+name) != nil || isSection(place+name) {
				continue
			}
			tested++
			text := writeConfig(member{"lb_policy", `"global_least_request"`}, member{place + name, `1`})
			what := refused(t, []byte(text), Higress, place+name)
			hint := strings.TrimSuffix(strings.TrimPrefix(what, "unknown key; did you mean "), "?")
			if hint != k.Name && find(place+hint) == nil && !isSection(hint) { // or one that is similar, or a section
				t.Errorf("%s: %q, want a hint at %s", place+name, what, k.Name)
			}
		}
	}
	if tested < 60 {
		t.Errorf("only %d keys", tested)
	}
}

// A name that resembles none is an error without a suggestion where keys are the plugin's own.
func TestForeignKeys(t *testing.T) {
	for _, section := range []string{"lb_config.health.", "lb_config.metrics.", "lb_config.prefix."} {
		text := writeConfig(member{"lb_policy", `"global_least_request"`}, member{section + "zzzzzzzz", `1`})
		if what := refused(t, []byte(text), Higress, section+"zzzzzzzz"); what != "unknown key" {
			t.Errorf("%s: %q", section, what)
		}
	}
}
