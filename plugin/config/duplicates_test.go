package config

import (
	"cmp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sample returns a valid value of a key that is part of a Config: the default for a key that has no cases yet.
func sample(k *key) string { return cmp.Or(keyCases[k.Name].good, k.Default) }

// A key that is written twice is an error, even with the same value, in the global part and in a rule, beside the other
// or at the other end of its section.
func TestDuplicateKeysAreRefused(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		if !k.decodes() {
			continue
		}
		section, name := split(k.Name)
		once := string(withKey(k, sample(k)))
		first := strconv.Quote(name) + ":" + sample(k)
		if strings.Count(once, first) != 1 {
			t.Fatalf("%s: %s", k.Name, once)
		}
		other := strings.TrimSuffix(section, ".") // a section of its own, behind
		texts := []string{strings.Replace(once, first, first+","+first, 1)}
		if section == "" {
			texts = append(texts, once[:len(once)-1]+","+first+"}")
		}
		for _, text := range texts {
			if what := refused(t, []byte(text), k.host(), k.Name); what != "written twice" {
				t.Errorf("%s: %q", text, what)
			}
			rule := `{"_rules_":[{"_match_route_":["r"],` + text[1:] + `]}`
			if what := refused(t, []byte(rule), k.host(), "_rules_[0]."+k.Name); what != "written twice" {
				t.Errorf("%s: %q", rule, what)
			}
		}
		if !strings.Contains(other, ".") && other != "" {
			text := once[:len(once)-1] + `,"` + other + `":{` + first + `}}`
			if what := refused(t, []byte(text), k.host(), other); what != "written twice" {
				t.Errorf("%s: %q", text, what)
			}
		}
	}
}

// Names count as written twice when they are the same text after their escapes.
func TestDuplicatesWithEscapes(t *testing.T) {
	text := `{"lb_policy":"global_least_request","lb\u005fpolicy":"global_least_request"}`
	if what := refused(t, []byte(text), Higress, "lb_policy"); what != "written twice" {
		t.Errorf("%q", what)
	}
	text = `{"lb_policy":"global_least_request","lb_config":{"max_inflight":1,"max_infl\u0069ght":1}}`
	if what := refused(t, []byte(text), Higress, "lb_config.max_inflight"); what != "written twice" {
		t.Errorf("%q", what)
	}
}

// The same key in several parts is no duplicate, and neither are keys of the same name in different sections.
func TestSameNameElsewhereIsNoDuplicate(t *testing.T) {
	text := `{"lb_policy":"endpoint_metrics","lb_config":{"engine":"vllm","metrics":{"engine":"vllm"}},
		"_rules_":[{"_match_route_":["a"],"lb_policy":"endpoint_metrics","lb_config":{"engine":"vllm"}},
			{"_match_route_":["b"],"lb_policy":"endpoint_metrics","lb_config":{"engine":"vllm"}}]}`
	if _, err := Parse([]byte(text), Higress); err != nil {
		t.Error(err)
	}
}

// A condition of a rule that is written twice is an error of that rule.
func TestDuplicateConditions(t *testing.T) {
	for _, name := range conditionKeys {
		text := `{"_rules_":[{"enabled":false,"` + name + `":["a"],"` + name + `":["a"]}]}`
		if what := refused(t, []byte(text), Higress, "_rules_[0]."+name); what != "written twice" {
			t.Errorf("%s: %q", name, what)
		}
	}
}

// Each duplicate is one problem with its own path, however often the key is written and wherever it is.
func TestDuplicatesAreCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SliceOfN(rapid.IntRange(1, 4), 3, 3).Draw(rt, "times")
		names := []string{"max_inflight", "shadow", "output_tokens"}
		values := []string{"1", "true", "5"}
		var list []string
		want := 0
		for i, n := range times {
			for range n {
				list = append(list, strconv.Quote(names[i])+":"+values[i])
			}
			want += n - 1
		}
		list = rapid.Permutation(list).Draw(rt, "order")
		text := `{"lb_policy":"global_least_request","lb_config":{` + strings.Join(list, ",") + `}}`
		_, err := Parse([]byte(text), Higress)
		if want == 0 {
			if err != nil {
				rt.Fatalf("%s: %v", text, err)
			}
			return
		}
		if err == nil || strings.Count(err.Error(), ": written twice") != want ||
			strings.Count(err.Error(), "\n") != want {
			rt.Fatalf("%s: %v, want %d duplicates", text, err, want)
		}
	})
}
