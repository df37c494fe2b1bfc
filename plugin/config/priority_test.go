package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const prioritized = `{"urgent":{"weight":4,"from_priority":10},"usual":{"weight":8,"from_priority":-3},"bulk":2,"rest":1}`

// A request is of the class that takes requests from the highest priority which is not above its own, whatever the
// weights are. Text that is no whole number is no priority.
func TestClassesByPriority(t *testing.T) {
	c := mustParse(t, queueConfig(member{keyMaxWait, `"1s"`}, member{keyMaxInflight, `1`},
		member{keyPriority, `["header:x-p"]`}, member{keyClasses, prioritized}), Higress)
	if len(c.PrioritySources()) != 1 {
		t.Error("no class follows from a priority")
	}
	for text, want := range map[string]string{
		"10": "urgent", "11": "urgent", "+10": "urgent", "9223372036854775807": "urgent", "1000001": "urgent",
		"9": "usual", "0": "usual", "-3": "usual", "-0": "usual", "010": "urgent",
		"-4": "", "-1000001": "", "-9223372036854775808": "",
		"": "", " 10": "", "10.0": "", "1e1": "", "0x10": "", "1_0": "", "high": "", "10,1": "",
		"9223372036854775808": "",
	} {
		got := ""
		if class := c.Queue.AtPriority(text); class != nil {
			got = class.Name
		}
		if got != want {
			t.Errorf("%q: class %q, want %q", text, got, want)
		}
	}
	if !c.Queue.Has("rest") || c.Queue.Has("") || c.Queue.Has("default") {
		t.Error("other classes than those that are configured")
	}
	if len(mustParse(t, queueConfig(member{keyPriority, `["header:x-p"]`}), Higress).PrioritySources()) > 0 {
		t.Error("a class follows from a priority where no request waits")
	}
}

// The class of a priority is what a search through all classes finds, and no text makes it panic.
func TestClassOfAnyPriority(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from := rapid.SliceOfNDistinct(rapid.IntRange(-9, 9), 1, maxClasses, rapid.ID[int]).Draw(rt, "from_priority")
		var list []string
		for i, n := range from {
			list = append(list, fmt.Sprintf(`"c%d":{"from_priority":%d,"weight":%d}`, i, n, 1+i%3))
		}
		c := mustParse(rt, queueConfig(member{keyMaxWait, `"1s"`}, member{keyMaxInflight, `1`},
			member{keyPriority, `["body:p"]`}, member{keyClasses, "{" + strings.Join(list, ",") + "}"}), Higress)
		priority, want := rapid.IntRange(-11, 11).Draw(rt, "priority"), ""
		slices.Sort(from)
		for _, n := range from {
			if n <= priority {
				want = strconv.Itoa(n)
			}
		}
		got := ""
		if class := c.Queue.AtPriority(strconv.Itoa(priority)); class != nil {
			got = strconv.Itoa(class.FromPriority)
		}
		if got != want {
			rt.Errorf("priority %d is of the class from %q, want %q", priority, got, want)
		}
		text := rapid.String().Draw(rt, "text")
		if _, err := strconv.Atoi(text); err != nil && c.Queue.AtPriority(text) != nil {
			rt.Errorf("%q is a priority", text)
		}
	})
}

// What is written of priorities has an effect, or there is a warning; no two classes are from one priority.
func TestPrioritiesWithoutEffect(t *testing.T) {
	wait, capped := member{keyMaxWait, `"1s"`}, member{keyMaxInflight, `4`}
	from, classes := member{keyPriority, `["header:x-p"]`}, member{keyClasses, prioritized}
	const (
		noPriority = "].from_priority has no effect without queue.priority_from, since no request has a priority"
		noClass    = keyPriority + " has no effect without from_priority of a class in queue.classes"
	)
	for _, c := range []struct {
		members []member
		want    []string
	}{
		{[]member{wait, capped, from, classes}, nil},
		{[]member{wait, capped, classes}, []string{
			keyClasses + `["usual"` + noPriority, keyClasses + `["urgent"` + noPriority,
		}},
		{[]member{wait, capped, from, {keyClasses, `{"a":1,"b":2}`}}, []string{noClass}},
		{[]member{wait, capped, {keyOutputFrom, `["body:n"]`}, {keyUnit, `"requests"`}}, []string{
			keyOutputFrom + ` has no effect without unit "tokens"`,
		}},
		{[]member{wait, capped, {keyOutputFrom, `["body:n"]`}, {keyUnit, `"tokens"`}}, nil},
	} {
		members := append([]member{{"lb_policy", `"global_least_request"`}}, c.members...)
		set, err := Parse([]byte(writeConfig(members...)), Higress)
		if err != nil {
			t.Errorf("%v: %v", c.members, err)
		} else if got := set.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.members, got, c.want)
		}
	}
	twice := member{keyClasses, `{"a":{"from_priority":1},"b":{"from_priority":1},"c":2}`}
	what := refused(t, queueConfig(wait, capped, from, twice), Higress, keyClasses+`["b"].from_priority`)
	if want := `got that of "a", want another number for one of them`; what != want {
		t.Errorf("got %q, want %q", what, want)
	}
}
