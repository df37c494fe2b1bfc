package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/push"
	"pgregory.net/rapid"
)

// queueConfig writes a configuration of a policy with the members.
func queueConfig(members ...member) []byte {
	return []byte(writeConfig(append([]member{{"lb_policy", `"prefix_cache"`}}, members...)...))
}

// checkSaneQueue checks what stores take for granted of a queue.
func checkSaneQueue(t *testing.T, q *Queue) {
	t.Helper()
	ids, reserved := map[uint16]bool{}, 0
	for i, c := range q.Classes {
		ids[c.ID] = true
		reserved += c.Reserved
		if int(c.Rank) != i || c.ID == 0 || c.Reserved < 0 || i > 0 && c.Weight > q.Classes[i-1].Weight ||
			q.Class(c.Name) != &q.Classes[i] {
			t.Errorf("class %d: %v", i, c)
		}
	}
	if n := len(ids); n == 0 || n > maxClasses || n != len(q.Classes) || reserved >= q.MaxLength {
		t.Errorf("classes %v, %d of %d places reserved", q.Classes, reserved, q.MaxLength)
	}
	if q.Class("?") == nil || q.TenantLength() < 0 || q.TenantLength() > q.MaxLength || q.MaxBytes <= 0 {
		t.Errorf("%+v", *q)
	}
}

// Classes are sorted by weight and name, and each problem has the class as it was written.
func TestClasses(t *testing.T) {
	many := make([]string, maxClasses+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"c%d":1`, i)
	}
	long := strings.Repeat("c", maxClassName)
	for _, c := range []struct {
		name, object string
		want         string // the classes
		place        string
		problem      string
	}{
		{"none", `{}`, "[{default ID:397 Rank:0 Weight:1 Reserved:0}]", "", ""},
		{"a weight", `{"a":2}`, "[{a ID:44841 Rank:0 Weight:2 Reserved:0}]", "", ""},
		{"no weight", `{"a":{}}`, "[{a ID:44841 Rank:0 Weight:1 Reserved:0}]", "", ""},
		{
			"sorted", `{"b":1,"a":1,"high":{"reserved":0.25,"weight":8}}`,
			"[{high ID:23131 Rank:0 Weight:8 Reserved:250} {a ID:44841 Rank:1 Weight:1 Reserved:0} " +
				"{b ID:23926 Rank:2 Weight:1 Reserved:0}]", "", "",
		},
		{"long name", `{"` + long + `":1}`, "[{" + long + " ID:56285 Rank:0 Weight:1 Reserved:0}]", "", ""},
		{"too long", `{"` + long + `c":1}`, "", `["` + long + `c"]`, "no name of a class" + wantClass},
		{"other letters", `{"A b":1}`, "", `["A b"]`, "no name of a class" + wantClass},
		{"empty", `{"":1}`, "", `[""]`, "no name of a class" + wantClass},
		{"twice", `{"a":1,"a":2}`, "", `["a"]`, "written twice"},
		{"too light", `{"a":0.0001}`, "", `["a"]`, "got 0.0001, want a number from 0.001 to 1000"},
		{"too heavy", `{"a":{"weight":1001}}`, "", `["a"].weight`, "got 1001, want a number from 0.001 to 1000"},
		{
			"text", `{"a":"8"}`, "", `["a"]`,
			`got "8", want a weight or an object like {"weight": 8, "reserved": 0.1}`,
		},
		{"negative", `{"a":{"reserved":-0.1}}`, "", `["a"].reserved`, "got -0.1, want a number from 0 to 1"},
		{"percent", `{"a":{"reserved":10}}`, "", `["a"].reserved`, "got 10, want a number from 0 to 1"},
		{"unknown", `{"a":{"wieght":1}}`, "", `["a"].wieght`, `unknown key, want one of "weight", "reserved", "from_priority"; did you mean "weight"?`},
		{"member twice", `{"a":{"weight":1,"weight":1}}`, "", `["a"].weight`, "written twice"},
		{
			"all reserved", `{"a":{"reserved":0.5},"b":{"reserved":0.5}}`, "", "",
			"got 1 reserved in all, want less than 1: the rest of the queue is for every class",
		},
		{
			"all reserved in tenths", `{"a":{"reserved":0.7},"b":{"reserved":0.2},"c":{"reserved":0.1}}`, "", "",
			"got 1 reserved in all, want less than 1: the rest of the queue is for every class",
		},
		{"too many", `{` + strings.Join(many, ",") + `}`, "", "", "got 17 classes, want at most 16"},
		{"a list", `["a"]`, "", "", "got an array" + wantClasses},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := queueConfig(member{keyMaxWait, `"1s"`}, member{keyClasses, c.object})
			if c.problem != "" {
				if what := refused(t, text, Higress, keyClasses+c.place); what != c.problem {
					t.Errorf("got %q, want %q", what, c.problem)
				}
				return
			}
			if got := fmt.Sprint(mustParse(t, text, Higress).Queue.Classes); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Two classes with one digest would be one class in the store.
func TestClassesWithOneDigest(t *testing.T) {
	names := map[uint16]string{}
	for i := 0; ; i++ {
		name := "c" + strconv.Itoa(i)
		other, met := names[classID(name)]
		if names[classID(name)] = name; !met {
			continue
		}
		text := queueConfig(member{keyClasses, `{"` + other + `":1,"` + name + `":2}`})
		what := refused(t, text, Higress, keyClasses+`["`+name+`"]`)
		if what != `has the same digest as "`+other+`", want another name for one of them` {
			t.Errorf("%s: %q", text, what)
		}
		return
	}
}

// A class has as many whole places as fit into its part, whatever the rounding of floating-point numbers; together they
// are fewer than the queue has.
func TestReservedPlaces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.IntRange(1, 100_000).Draw(rt, "length")
		var list []string
		var want []int
		for rest := 999; len(list) < maxClasses && rest > 0; {
			thousandths := rapid.IntRange(1, rest).Draw(rt, "thousandths")
			rest -= thousandths
			list = append(list, fmt.Sprintf(`"c%02d":{"reserved":%v}`, len(list), float64(thousandths)/1000))
			want = append(want, thousandths*length/1000)
		}
		c := mustParse(rt, queueConfig(member{keyClasses, `{` + strings.Join(list, ",") + `}`},
			member{"lb_config.queue.max_length", strconv.Itoa(length)}), Higress)
		got := make([]int, 0, len(want))
		for _, class := range c.Queue.Classes {
			got = append(got, class.Reserved)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%v of %d: %v, want %v", list, length, got, want)
		}
		checkSaneQueue(t, &c.Queue)
	})
}

// A request is in the class that is named, or else in the default class, which is the lowest one unless it is named.
func TestClassOfARequest(t *testing.T) {
	classes := member{keyClasses, `{"high":8,"middle":{"weight":2},"low":1,"also-low":1}`}
	for _, c := range []struct{ byDefault, name, want string }{
		{"", "high", "high"},
		{"", "", "low"},
		{"", "High", "low"},
		{"", "unknown", "low"},
		{"middle", "high", "high"},
		{"middle", "", "middle"},
		{"middle", "unknown", "middle"},
	} {
		list := []member{classes}
		if c.byDefault != "" {
			list = append(list, member{keyDefaultClass, strconv.Quote(c.byDefault)})
		}
		q := &mustParse(t, queueConfig(list...), Higress).Queue
		if got := q.Class(c.name); got.Name != c.want {
			t.Errorf("default %q: %q is %q, want %q", c.byDefault, c.name, got.Name, c.want)
		}
	}
	if got := new(Queue).Class("a"); got != nil {
		t.Errorf("without classes: %v", *got)
	}
	what := refused(t, queueConfig(classes, member{keyDefaultClass, `"lwo"`}), Higress, keyDefaultClass)
	if want := `got "lwo", want one of "high", "middle", "also-low", "low", of ` + keyClasses; what != want {
		t.Errorf("%q, want %q", what, want)
	}
	// Its own problem is enough of a list of classes.
	refused(t, queueConfig(member{keyClasses, `{"A":1}`}, member{keyDefaultClass, `"low"`}), Higress, keyClasses+`["A"]`)
}

// A request whose header names no class is in that of its turn, if there is one.
func TestClassOfATurn(t *testing.T) {
	classes := member{keyClasses, `{"high":8,"middle":2,"low":1}`}
	for _, c := range []struct{ first, later, name, wantFirst, wantLater string }{
		{"middle", "high", "", "middle", "high"},
		{"", "high", "unknown", "low", "high"},
		{"high", "", "", "high", "low"},
		{"middle", "high", "low", "low", "low"},
	} {
		list := []member{classes, {keyMaxWait, `"1s"`}}
		for key, name := range map[string]string{keyFirstTurn: c.first, keyLaterTurn: c.later} {
			if name != "" {
				list = append(list, member{key, strconv.Quote(name)})
			}
		}
		q := &mustParse(t, queueConfig(list...), Higress).Queue
		first, later := q.TurnClass(c.name, false).Name, q.TurnClass(c.name, true).Name
		if !q.ByTurn() || first != c.wantFirst || later != c.wantLater {
			t.Errorf("%+v: %s first, %s later", c, first, later)
		}
	}
}

// quoted returns a string in JSON.
func quoted(t *testing.T, s string) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The names of headers are as Envoy has them.
func TestNamesOfHeaders(t *testing.T) {
	for i := range queueKeys {
		k := &queueKeys[i]
		if !strings.HasSuffix(k.Name, "_header") {
			continue
		}
		for _, name := range []string{"x", "x-a_b.c~1", strings.Repeat("x", maxHeader)} {
			if got := k.stored(mustParse(t, withKey(k, strconv.Quote(name)), Higress)); got != name {
				t.Errorf("%s: %q is %q", k.Name, name, got)
			}
		}
		for _, name := range []string{
			"", "X", "x y", "x:", ":authority", "x\n", "é", "x\x00", "x,y", strings.Repeat("x", maxHeader+1),
		} {
			if what := refused(t, withKey(k, quoted(t, name)), Higress, k.Name); !strings.HasPrefix(what, "got ") ||
				!strings.HasSuffix(what, wantHeader) {
				t.Errorf("%s: %q: %q", k.Name, name, what)
			}
		}
	}
}

// A tenant takes at least one place of a queue, and any with the whole share.
func TestTenantLength(t *testing.T) {
	for _, c := range []struct {
		share  float64
		length int
		want   int
	}{
		{1, 1000, 0},
		{0.5, 1000, 500},
		{0.29, 100, 29},
		{0.5, 3, 1},
		{0.001, 10, 1},
	} {
		if got := (&Queue{TenantMaxShare: c.share, MaxLength: c.length}).TenantLength(); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.share, c.length, got, c.want)
		}
	}
}

// What has no effect is a warning.
func TestQueueWithoutEffect(t *testing.T) {
	wait, capped := member{keyMaxWait, `"1s"`}, member{keyMaxInflight, `4`}
	classes := member{keyClasses, `{"a":1,"b":2}`}
	const without = " has no effect without queue.max_wait, since no request waits"
	for _, c := range []struct {
		members []member
		want    []string
	}{
		{nil, nil},
		{[]member{wait, capped}, nil},
		{[]member{wait, {"lb_config.maxRequestCount", `4`}}, nil},
		{[]member{wait, {keyPush, `"pending"`}}, nil},
		{[]member{wait, capped, {keyPush, `"outstanding"`}}, nil},
		{[]member{wait}, []string{
			keyMaxWait + " has no effect with push blind and without max_inflight and max_inflight_tokens: no " +
				"endpoint is ever full, so that no request waits",
		}},
		{[]member{wait, {keyUnit, `"tokens"`}, {keyMaxInflightTokens, `9000`}}, nil},
		{[]member{wait, {keyFromZero, `true`}}, nil},
		{[]member{{keyFromZero, `true`}}, []string{keyFromZero + without}},
		{[]member{wait, {"lb_config.shadow", `true`}}, []string{
			keyMaxWait + " has no effect with shadow: no request waits that the gateway routes",
		}},
		{
			[]member{classes, {keyClassHeader, `"c"`}, {"lb_config.queue.skip", `1`}},
			[]string{keyClasses + without, keyClassHeader + without, "lb_config.queue.skip" + without},
		},
		{[]member{{keyMaxWait, `0`}, {"lb_config.queue.aging", `"1s"`}}, []string{"lb_config.queue.aging" + without}},
		{[]member{wait, capped, {keyClassHeader, `"c"`}}, []string{keyClassHeader + " has no effect with one class"}},
		{[]member{wait, capped, classes, {keyClassHeader, `"c"`}}, nil},
		{[]member{wait, capped, {keyTenantShare, `0.5`}}, []string{
			keyTenantShare + " has no effect without queue.tenant_header",
		}},
		{[]member{wait, capped, {keyTenantShare, `0.5`}, {"lb_config.queue.tenant_header", `"t"`}}, nil},
		{[]member{wait, capped, {keyFairBy, `"session"`}, {keyUnit, `"tokens"`}}, nil},
		{[]member{wait, capped, {keyFairBy, `"session"`}}, []string{
			keyFairBy + ` shares requests, not tokens, without unit "tokens"`,
		}},
		{[]member{wait, capped, {"lb_config.queue.max_length", `9`}, {keyClasses, `{"a":{"reserved":0.1},"b":1}`}}, []string{
			keyClasses + `["a"].reserved has no effect: 0.1 of max_length 9 is less than one place`,
		}},
		{[]member{{keyPushAhead, `1`}}, []string{keyPushAhead + " has no effect without push pending"}},
		{[]member{{keyPushAhead, `1`}, {keyPush, `"pending"`}}, nil},
	} {
		set, err := Parse(queueConfig(c.members...), Higress)
		if err != nil {
			t.Errorf("%v: %v", c.members, err)
		} else if got := set.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.members, got, c.want)
		} else if c := set.global; c.WaitsFromZero() && !c.Queue.Enabled() {
			t.Error("from_zero has an effect without a queue")
		}
	}
}

// Requests wait with a longest wait only. A cap is required where it is all that fills an endpoint.
func TestPushAndQueue(t *testing.T) {
	c := mustParse(t, queueConfig(member{keyMaxWait, `"1s"`}, member{keyPush, `"outstanding"`},
		member{"lb_config.maxRequestCount", `"4"`}), Higress)
	if !c.Queue.Enabled() || c.Push != push.Outstanding || c.MaxInflight != 4 {
		t.Errorf("%+v", *c)
	}
	if mustParse(t, queueConfig(), Higress).Queue.Enabled() {
		t.Error("requests wait by default")
	}
	for _, members := range [][]member{nil, {{keyMaxInflight, `0`}}} {
		what := refused(t, queueConfig(append(members, member{keyPush, `"outstanding"`})...), Higress, keyPush)
		if !strings.HasPrefix(what, `got "outstanding" without max_inflight and max_inflight_tokens, want one of them: `) {
			t.Errorf("%v: %q", members, what)
		}
	}
	for _, invalid := range []string{keyMaxInflight, keyMaxInflightTokens} {
		refused(t, queueConfig(member{invalid, `-1`}, member{keyPush, `"outstanding"`}), Higress, invalid)
	}
}

// A cap in tokens is one, where tokens are known.
func TestCapInTokens(t *testing.T) {
	members := func(more ...member) []member {
		return append(more, member{keyMaxInflightTokens, `9000`}, member{keyPush, `"outstanding"`})
	}
	for _, list := range [][]member{
		members(member{"lb_policy", `"global_least_request"`}, member{keyUnit, `"tokens"`}),
		members(member{"lb_policy", `"endpoint_metrics"`}, member{keyUnit, `"tokens"`}),
		members(member{"lb_policy", `"prefix_cache"`}),
	} {
		if c := mustParse(t, []byte(writeConfig(list...)), Higress); c.MaxInflightTokens != 9000 || c.MaxInflight != 0 {
			t.Errorf("%v: %+v", list, *c)
		}
	}
	for _, list := range [][]member{
		members(member{"lb_policy", `"global_least_request"`}),
		members(member{"lb_policy", `"endpoint_metrics"`}, member{keyUnit, `"requests"`}),
	} {
		what := refused(t, []byte(writeConfig(list...)), Higress, keyMaxInflightTokens)
		if !strings.HasPrefix(what, `got 9000 with unit "requests", want unit "tokens", or max_inflight in place of it: `) {
			t.Errorf("%v: %q", list, what)
		}
	}
	mustParse(t, queueConfig(member{keyMaxInflightTokens, `0`}), Higress)
	refused(t, queueConfig(member{keyUnit, `"bytes"`}, member{keyMaxInflightTokens, `9`}), Higress, keyUnit)
}

// An order is read by its own name only.
func TestOrders(t *testing.T) {
	for o := Weighted; o <= Strict; o++ {
		var got Order
		if err := got.UnmarshalText([]byte(o.String())); err != nil || got != o {
			t.Errorf("%v: got %v, %v", o, got, err)
		}
	}
	o := Strict
	if err := o.UnmarshalText([]byte("Weighted")); err == nil || o != Strict {
		t.Errorf("got %v, %v", o, err)
	}
}

// A rule has a queue of its own, and none of the keys beside the rules.
func TestQueueOfARule(t *testing.T) {
	s, err := Parse([]byte(`{"lb_policy":"prefix_cache","lb_config":{"max_inflight":1,"queue":{"max_wait":"1s",
		"classes":{"a":2,"b":1}}},"_rules_":[{"_match_route_":["r"],"lb_policy":"prefix_cache",
		"lb_config":{"max_inflight":1,"queue":{"max_wait":"2s","default_class":"default"}}}]}`), Higress)
	if err != nil {
		t.Fatal(err)
	}
	global, rule := &s.Match("", "", "").Queue, &s.Match("r", "", "").Queue
	if len(global.Classes) != 2 || global.Class("").Name != "b" || rule.Class("a").Name != "default" ||
		global.MaxWait == rule.MaxWait {
		t.Errorf("%+v and %+v", *global, *rule)
	}
}
