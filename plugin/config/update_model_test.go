package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slots are the parts that pushes are made of: rules for four routes, and the global part.
const slots = 5

// pushed is a configuration that comes: for each slot its cap, 0 if it is absent, -1 if it is invalid.
type pushed [slots]int

func drawPush(rt *rapid.T) pushed {
	var p pushed
	for i := range p {
		p[i] = rapid.SampledFrom([]int{0, -1, -1, 1, 2, 3}).Draw(rt, "part")
	}
	return p
}

// invalidParts are ways in which a part is refused while its conditions are known.
var invalidParts = []string{
	`"lb_policy":"x"`, `"lb_policy":"global_least_request","lb_config":{"max_inflight":-1}`,
	`"lb_policy":"global_least_request","lb_config":[]`, `"lb_type":"cluster"`, `"enabled":1`,
	`"lb_policy":"global_least_request","lb_policy":"global_least_request"`,
	`"lb_policy":"global_least_request","lb_config":{"max_infligth":1}`,
}

// text writes the configuration, its rules in an order of their own.
func (p pushed) text(rt *rapid.T) string {
	var rules []string
	global := ""
	for i, limit := range p {
		if limit == 0 {
			continue
		}
		part := fmt.Sprintf(`"lb_policy":"global_least_request","lb_config":{"max_inflight":%d}`, limit)
		if limit < 0 {
			part = rapid.SampledFrom(invalidParts).Draw(rt, "problem")
		}
		if i == slots-1 {
			global = part
			continue
		}
		rules = append(rules, fmt.Sprintf(`{"_match_route_":["r%d"],%s}`, i, part))
	}
	return rulesOf(global, rapid.Permutation(rules).Draw(rt, "order")...)
}

// inForce is what the gateway does with the requests of each slot: the cap, 0 if no part is for them, -1 if they are
// left to native balancing because their part was refused and has no last good form.
func inForce(s *Set) (got pushed) {
	for i := range got {
		switch c := s.Match(fmt.Sprintf("r%d", i), "", ""); {
		case c == nil:
		case c.Refused:
			got[i] = -1
		default:
			got[i] = c.MaxInflight
		}
	}
	return got
}

// After any history of pushes, each part that is good is in force, each that is bad is in its last good form since it
// was last absent, and a push without any good part changes nothing.
func TestHistoriesOfPushes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var forms Forms
		var good pushed // the last good caps, 0 for none
		for range rapid.IntRange(1, 8).Draw(rt, "pushes") {
			p := drawPush(rt)
			text := p.text(rt)
			set, next, err := Update([]byte(text), Higress, forms)
			anyGood, anyBad := false, false
			for _, limit := range p {
				anyGood, anyBad = anyGood || limit > 0, anyBad || limit < 0
			}
			if anyBad != (err != nil) && anyGood || anyGood != (set != nil) {
				rt.Fatalf("%s: %v, %v", text, set, err)
			}
			if set == nil {
				continue // the gateway keeps what it has
			}
			forms = next
			want := p.after(&good)
			if got := inForce(set); got != want {
				rt.Fatalf("%s: in force %v, want %v", text, got, want)
			}
			p.checkRefusals(rt, set, want)
		}
	})
}

// after returns what is in force after the push, and updates the last good caps.
func (p pushed) after(good *pushed) (want pushed) {
	for i, limit := range p {
		switch {
		case limit >= 0:
			good[i] = limit
			want[i] = limit
		case good[i] > 0:
			want[i] = good[i]
		default:
			want[i] = -1
		}
	}
	for i := range slots - 1 { // requests without a rule are those of the global part
		if p[i] == 0 {
			want[i] = want[slots-1]
		}
	}
	return want
}

// checkRefusals checks that the parts that were refused are listed, with what is in force for them.
func (p pushed) checkRefusals(rt *rapid.T, set *Set, want pushed) {
	refusals := map[string]bool{}
	for _, r := range set.Refusals() {
		name := r.Part
		if _, rule, ok := strings.Cut(r.Part, " for "); ok {
			name = rule
		}
		refusals[name] = r.Kept
	}
	expected := map[string]bool{}
	for i, limit := range p {
		name := fmt.Sprintf("route r%d", i)
		if i == slots-1 {
			name = "the global part"
		}
		if limit < 0 {
			expected[name] = want[i] > 0
		}
	}
	if !reflect.DeepEqual(refusals, expected) {
		rt.Fatalf("refused %v, want %v", refusals, expected)
	}
}

// Forms that go through shared memory mean the same as those that do not, and the bytes do not depend on the order in
// which a map is walked.
func TestFormsThroughSharedMemory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		forms := Forms(rapid.MapOfN(rapid.Uint64(), rapid.StringN(0, 20, 40), 0, 8).Draw(rt, "forms"))
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(rt, "bytes before")
		raw := forms.Append(prefix)
		if !reflect.DeepEqual(raw, forms.Append(prefix)) || !strings.HasPrefix(string(raw), string(prefix)) {
			rt.Fatalf("%v: %q, and %q", forms, raw, forms.Append(prefix))
		}
		own := raw[len(prefix):]
		if got := ParseForms(own); !reflect.DeepEqual(got, forms) {
			rt.Fatalf("%v is read as %v", forms, got)
		}
		for id, text := range ParseForms(own[:rapid.IntRange(0, len(own)).Draw(rt, "cut")]) {
			if forms[id] != text {
				rt.Fatalf("cut, form %d is %q, want %q", id, text, forms[id])
			}
		}
	})
}

// Any bytes in shared memory are forms that do no harm: parts that are good are in force whatever the forms are.
func TestDamagedFormsDoNoHarm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, forms, _ := Update([]byte(pushed{1, 2, 3, 1, 2}.text(rt)), Higress, nil)
		raw := forms.Append(nil)
		for range rapid.IntRange(1, 5).Draw(rt, "damages") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(rt, "place")] = rapid.Byte().Draw(rt, "byte")
		}
		p := drawPush(rt)
		p[0] = 3
		set, _, _ := Update([]byte(p.text(rt)), Higress, ParseForms(raw))
		got := inForce(set)
		for i, limit := range p {
			if limit > 0 && got[i] != limit || got[i] > 9 { // damage may make a 9 of a 3
				rt.Fatalf("%v: in force %v", p, got)
			}
		}
	})
}
