package config

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// ruleFor writes a rule with a cap, by which it is recognized.
func ruleFor(match string, cap int) string {
	return `{` + match + `,"lb_policy":"global_least_request","lb_config":{"max_inflight":` + strconv.Itoa(cap) + `}}`
}

func rulesOf(global string, rules ...string) string {
	if global != "" {
		global += ","
	}
	return `{` + global + `"_rules_":[` + strings.Join(rules, ",") + `]}`
}

const (
	forA      = `"_match_route_":["a"]`
	forB      = `"_match_domain_":["b.example"]`
	forC      = `"_match_service_":["c.static:80"]`
	globalCap = `"lb_policy":"global_least_request","lb_config":{"max_inflight":9}`
	badC      = `{"_match_service_":["c.static:80"],"lb_policy":"least_busy"}`
)

// caps returns the cap in force for requests of a, b, c and others: -1 where the configuration was refused, 0 without
// one.
func caps(s *Set) (list [4]int) {
	const other = "outbound|1||x"
	requests := [4][3]string{{"a", other}, {"x", other, "b.example"}, {"x", "outbound|80||c.static"}, {"x", other}}
	for i, r := range requests {
		switch c := s.Match(r[0], r[1], r[2]); {
		case c == nil:
		case c.Refused:
			list[i] = -1
		default:
			list[i] = c.MaxInflight
		}
	}
	return list
}

// take is Update for a text that is not refused as a whole. Repeated with the forms, it must have the same result.
func take(t *testing.T, text string, before Forms) (*Set, Forms) {
	t.Helper()
	s, forms, _ := Update([]byte(text), Higress, before)
	if s == nil {
		t.Fatalf("refused as a whole: %s", text)
	}
	again, same, _ := Update([]byte(text), Higress, ParseForms(forms.Append(nil)))
	if !reflect.DeepEqual(forms, same) || !reflect.DeepEqual(again.refusals, s.refusals) || caps(again) != caps(s) {
		t.Errorf("%s: %v, forms %q; read again after itself: %v, forms %q", text, caps(s), forms, caps(again), same)
	}
	return s, forms
}

func TestRefusedRuleIsNative(t *testing.T) {
	s, err := Parse([]byte(rulesOf(globalCap, ruleFor(forA, 1), badC, ruleFor(forB, 2))), Higress)
	if s == nil || caps(s) != [4]int{1, 2, -1, 9} {
		t.Fatalf("%+v, %v", s, err)
	}
	const problem = "config: 1 problem\n  _rules_[1].lb_policy: got \"least_busy\""
	if err == nil || !strings.HasPrefix(err.Error(), problem) {
		t.Errorf("%v", err)
	}
	if want := []Refusal{{"_rules_[1] for service c.static:80", false}}; !reflect.DeepEqual(s.Refusals(), want) {
		t.Errorf("refused: %v", s.Refusals())
	}
	if len(s.All()) != 3 {
		t.Errorf("%d in force", len(s.All()))
	}
}

// A refused rule still matches its requests, before the rules behind it.
func TestRefusedRuleShadows(t *testing.T) {
	const policy = `"lb_policy":"global_least_request"}`
	for _, c := range []struct {
		rules []string
		want  [4]int
	}{
		{[]string{badC, ruleFor(`"_match_domain_":["*"]`, 5)}, [4]int{5, 5, -1, 5}},
		{[]string{ruleFor(`"_match_domain_":["*"]`, 5), badC}, [4]int{5, 5, 5, 5}},
		{[]string{`{"_match_route_":["a"],"lb_policy":"x"}`, ruleFor(forA, 5)}, [4]int{-1, 0, 0, 0}},
		{[]string{`{"_match_route_":["a",5],` + policy, ruleFor(forA, 5)}, [4]int{-1, 0, 0, 0}},
		// A match that cannot be read matches nothing, and does not make a rule apply to more requests.
		{[]string{`{"_match_route_":5,` + policy, ruleFor(forA, 5)}, [4]int{5, 0, 0, 0}},
		{[]string{`{"_match_route_":["a"],"_match_service_":5,` + policy, ruleFor(forA, 5)}, [4]int{5, 0, 0, 0}},
		{
			[]string{`{"_match_domain_":5,"_match_service_":["c.static"],` + policy, ruleFor(forC, 5)},
			[4]int{0, 0, 5, 0},
		},
		{[]string{`7`, `{"lb_policy":"global_least_request"}`, ruleFor(forA, 5)}, [4]int{5, 0, 0, 0}},
	} {
		if s, _ := take(t, rulesOf("", c.rules...), nil); caps(s) != c.want {
			t.Errorf("%v: %v, want %v", c.rules, caps(s), c.want)
		}
	}
}

func TestRefusedRuleKeepsItsLastGoodForm(t *testing.T) {
	_, forms := take(t, rulesOf(globalCap, ruleFor(forA, 1), ruleFor(forB, 2), ruleFor(forC, 3)), nil)
	s, forms := take(t, rulesOf(globalCap, badC, ruleFor(forB, 22), ruleFor(forA, 1)), forms) // in another order
	if caps(s) != [4]int{1, 22, 3, 9} || len(s.Refusals()) != 1 || !s.Refusals()[0].Kept {
		t.Errorf("%v, refused: %v", caps(s), s.Refusals())
	}
	s, forms = take(t, rulesOf(`"lb_policy":"x"`, badC, ruleFor(forB, 23)), forms) // the global part too; and a is gone
	if caps(s) != [4]int{9, 23, 3, 9} || len(s.Refusals()) != 2 {
		t.Errorf("the global part: %v, refused: %v", caps(s), s.Refusals())
	}
	s, forms = take(t, rulesOf(globalCap, `{"_match_route_":["a"],"lb_policy":"x"}`, ruleFor(forC, 33)), forms)
	if caps(s) != [4]int{-1, 9, 33, 9} {
		t.Errorf("a rule that was away has no last form: %v", caps(s))
	}
	s, _ = take(t, rulesOf(globalCap, `{"_match_service_":["c.static:80","d.static"],"lb_policy":"x"}`), forms)
	if caps(s) != [4]int{9, 9, -1, 9} {
		t.Errorf("a rule for other requests took the form: %v", caps(s))
	}
}

// Names of a rule count as a set.
func TestRuleIsKnownByItsNames(t *testing.T) {
	const good, bad = `"lb_policy":"global_least_request","lb_config":{"max_inflight":4}}`, `"lb_policy":"x"}`
	for _, c := range []struct {
		before, now string
		kept        bool
	}{
		{`{"_match_route_":["a","b"],`, `{"_match_route_":["b","a","b"],`, true},
		{`{"_match_route_":["a"],`, `{"_match_route_":"a",`, true},
		{`{"_match_route_":["a"],"_match_domain_":["*"],`, `{"_match_route_":["a"],`, true}, // routes outrank domains
		{`{"_match_route_":["a"],`, `{"_match_route_":["a"],"_match_service_":["x"],`, false},
		{`{"_match_route_":["a"],`, `{"_match_route_prefix_":["a"],`, false},
		{`{"_match_domain_":["a"],`, `{"_match_domain_":["*a"],`, false},
	} {
		_, forms := take(t, rulesOf("", c.before+good), nil)
		s, _ := take(t, rulesOf(globalCap, c.now+bad), forms)
		if s.Refusals()[0].Kept != c.kept {
			t.Errorf("%s after %s: %v", c.now, c.before, s.Refusals())
		}
	}
}

// Of two rules for the same requests only the first is ever reached, and only its form counts.
func TestRuleThatIsThereTwice(t *testing.T) {
	_, forms := take(t, rulesOf("", ruleFor(forA, 1), ruleFor(forA, 2)), nil)
	s, _ := take(t, rulesOf("", `{"_match_route_":["a"],"lb_policy":"x"}`, ruleFor(forA, 3)), forms)
	if caps(s)[0] != 1 {
		t.Errorf("%v", caps(s))
	}
}

func loginOf(match, password string) string {
	return `{` + match + `,"lb_policy":"global_least_request","lb_config":{"max_inflight":` + password +
		`,"serviceFQDN":"r.dns","password":"` + password + `"}}`
}

// Where parts contradict each other, one that has not changed wins, then one that is good, then the first.
func TestContradiction(t *testing.T) {
	_, forms := take(t, rulesOf("", loginOf(forA, "1"), loginOf(forB, "1")), nil)
	for _, c := range []struct {
		name string
		text string
		want [4]int
	}{
		{
			"a new rule in front", rulesOf("", loginOf(forC, "2"), loginOf(forA, "1"), loginOf(forB, "1")),
			[4]int{1, 1, -1, 0},
		},
		{"all change", rulesOf("", loginOf(forA, "2"), loginOf(forB, "2")), [4]int{2, 2, 0, 0}},
		{"one changes", rulesOf("", loginOf(forA, "2"), loginOf(forB, "1")), [4]int{1, 1, 0, 0}},
		{
			"all change and one is bad", rulesOf("", loginOf(forA, "2"), `{`+forB+`,"lb_policy":"x"}`),
			[4]int{2, -1, 0, 0},
		},
		{"all change to different ones", rulesOf("", loginOf(forA, "2"), loginOf(forB, "3")), [4]int{2, -1, 0, 0}},
	} {
		if s, _ := take(t, c.text, forms); caps(s) != c.want {
			t.Errorf("%s: %v, want %v", c.name, caps(s), c.want)
		}
	}
	if s, _ := take(t, rulesOf("", loginOf(forA, "1"), loginOf(forB, "2")), nil); caps(s) != [4]int{1, -1, 0, 0} {
		t.Errorf("without a past: %v", caps(s))
	}
}

func TestRefusedAsAWhole(t *testing.T) {
	_, forms := take(t, rulesOf(globalCap, ruleFor(forA, 1)), nil)
	for _, text := range []string{
		`{`, `[]`, ` `, `null`, `{"_rules_":7}`, `{` + globalCap + `,"_rules_":{}}`, `{"_rules_":[],"_rules_":[]}`,
		rulesOf("", badC), rulesOf(`"lb_policy":"x"`, badC), `{}`, `{"_rules_":[]}`,
		rulesOf(globalCap, strings.Repeat("{},", maxRules)+"{}"),
	} {
		if s, forms, err := Update([]byte(text), Higress, forms); s != nil || forms != nil || err == nil {
			t.Errorf("%.100s: %v, %v", text, s, err)
		}
	}
}

// The retained forms of parts that are refused again and again stay bounded, and every worker drops the same ones.
func TestFormsAreBounded(t *testing.T) {
	big := func(name string) string {
		blanks := strings.Repeat(" ", maxKept/2)
		return `{"_match_route_":["` + name + `"],"lb_policy":"global_least_request"` + blanks + `}`
	}
	var forms Forms
	var rules []string
	for i := range 4 {
		name := fmt.Sprint("r", i)
		_, forms = take(t, rulesOf(globalCap, append(rules, big(name))...), forms)
		rules = append(rules, `{"_match_route_":["`+name+`"],"lb_policy":"x"}`)
		if n := len(forms.Append(nil)); n > maxKept+maxBytes+1000 {
			t.Fatalf("%d bytes", n)
		}
	}
	s, _ := take(t, rulesOf(globalCap, rules...), forms)
	kept := 0
	for _, r := range s.Refusals() {
		if r.Kept {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d forms of more than half the bound are kept", kept)
	}
}

func TestForms(t *testing.T) {
	f := Forms{1: "a", 2: "", 1 << 62: strings.Repeat("x", 1000), 1 << 63: ""}
	raw := f.Append(nil)
	if got := ParseForms(raw); !reflect.DeepEqual(got, f) {
		t.Errorf("got %v", got)
	}
	// VMs with another version of the plugin read these bytes.
	const format = "\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x08\x07\x06\x05\x04\x03\x02\x01\x03\x00\x00\x00abc"
	if got := string((Forms{0x0102030405060708: "abc", 2: ""}).Append([]byte("behind "))); got != "behind "+format {
		t.Errorf("got %q", got)
	}
	for i := range raw {
		for id, text := range ParseForms(raw[:i]) {
			if f[id] != text {
				t.Fatalf("cut after %d: %d is %q", i, id, text)
			}
		}
	}
}

// A form of an older version of the plugin may be refused by this one, and shared memory may contain anything.
func TestFormThatBecameInvalid(t *testing.T) {
	_, forms := take(t, rulesOf("", ruleFor(forC, 3)), nil)
	for id := range forms {
		for _, form := range []string{"{", "7", `{"lb_policy":"y"}`, badC, ""} {
			s, after := take(t, rulesOf(globalCap, badC), Forms{id: form})
			if caps(s)[2] != -1 || len(after) != 1 {
				t.Errorf("form %q: %v", form, caps(s))
			}
		}
	}
}

// A refused part changes no other: the rest is the same as without it, whatever was in force before.
func TestRefusedPartAltersNoOther(t *testing.T) {
	good := []string{
		ruleFor(forA, 1), ruleFor(forB, 2), ruleFor(forC, 3), loginOf(`"_match_route_":["d"]`, "4"),
		`{"_match_route_":["e"],"enabled":false}`, ruleFor(`"_match_route_prefix_":["f"]`, 5),
		`{"_match_domain_":["g"],"lb_policy":"metrics_based","lb_config":{"comment":1}}`,
	}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for name, tt := range keyCases {
		for _, val := range tt.bad {
			text, h := document(name, val)
			if h != Higress || strings.HasPrefix(name, "_rules_") {
				continue
			}
			bad := `{"_match_route_":["bad"],` + text[1:]
			var rules, all []string
			at := r.IntN(len(good) + 1)
			for i, k := range r.Perm(len(good)) {
				if i == at {
					all = append(all, bad)
				}
				rules, all = append(rules, good[k]), append(all, good[k])
			}
			if at == len(good) {
				all = append(all, bad)
			}
			want, err := Parse([]byte(rulesOf(globalCap, rules...)), Higress)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse([]byte(rulesOf(globalCap, all...)), Higress)
			if err == nil || got == nil || len(got.Refusals()) != 1 {
				t.Errorf("%s: %v", bad, err)
				continue
			}
			refused++
			sameButIDs(t, got.All(), want.All())
		}
	}
	if refused < 100 {
		t.Errorf("only %d bad rules", refused)
	}
}

func sameButIDs(t *testing.T, got, want []*Config) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d configurations, want %d", len(got), len(want))
		return
	}
	for i := range got {
		g, w := *got[i], *want[i]
		g.ID, w.ID = 0, 0
		if !reflect.DeepEqual(g, w) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
}

// FuzzUpdate applies a broken configuration after another one: Update never panics, has the same result when it is
// repeated, and leaves valid rules unchanged.
func FuzzUpdate(f *testing.F) {
	f.Add([]byte(`"lb_policy":"global_least_request"`), []byte(`"lb_type":"cluster"`))
	f.Add([]byte(`"lb_policy":"prefix_cache","lb_config":{"serviceFQDN":"r.dns"}`), []byte(`"lb_policy":"x"`))
	for name, tt := range keyCases {
		if text, h := document(name, tt.good); h == Higress {
			for _, val := range tt.bad {
				bad, _ := document(name, val)
				f.Add([]byte(text[1:len(text)-1]), []byte(bad[1:len(bad)-1]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		both := func(members []byte) []byte {
			middle := `{"_match_route_":["z"],` + string(members) + `}`
			return []byte(rulesOf(globalCap, ruleFor(forA, 1), middle, ruleFor(forB, 2)))
		}
		_, forms, _ := Update(both(first), Higress, nil)
		s, after, err := Update(both(second), Higress, forms)
		if s == nil {
			if err == nil {
				t.Fatal("neither a set nor a problem")
			}
			return
		}
		again, same, _ := Update(both(second), Higress, ParseForms(after.Append(nil)))
		if again == nil || !reflect.DeepEqual(after, same) || len(again.All()) != len(s.All()) {
			t.Fatalf("%q after %q, and again: %v and %v", second, first, s.refusals, again.refusals)
		}
		for i := range s.All() {
			if !reflect.DeepEqual(*s.All()[i], *again.All()[i]) {
				t.Fatalf("%q: %+v, and again %+v", second, *s.All()[i], *again.All()[i])
			}
		}
	})
}

// FuzzForms reads any content of shared memory: what could be read is written again in the same form.
func FuzzForms(f *testing.F) {
	f.Add(Forms{1: "a", 2: ""}.Append(nil))
	f.Add([]byte("0123456789ab"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		forms := ParseForms(raw)
		if again := ParseForms(forms.Append(nil)); !reflect.DeepEqual(again, forms) {
			t.Fatalf("%q: %v, and again %v", raw, forms, again)
		}
	})
}
