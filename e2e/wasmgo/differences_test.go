package wasmgo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	rulesKey     = "_rules_"
	pluginIDKey  = "_plugin_id_"
	matchRoute   = "_match_route_"
	matchPrefix  = "_match_route_prefix_"
	matchDomain  = "_match_domain_"
	matchService = "_match_service_"
)

var conditionKeys = []string{matchRoute, matchPrefix, matchDomain, matchService}

// never is a name that no request in these tests has.
const never = "\x00"

// input is a configuration, reduced to what decides which part applies, and a request.
type input struct {
	request
	global bool // there is a global part
	rules  []map[string][]gjson.Result
}

// difference is one that is meant between Warmgate's rules and Higress's. adapt changes an input into one for which
// Higress chooses what Warmgate chooses for the original, and reports whether it had to.
type difference struct {
	name, why string
	adapt     func(*input) bool

	// An input that shows it: of these rules Warmgate chooses another part than Higress.
	rules     string
	request   request
	warmgate  int
	higress   int
	refusedBy string // Higress's error, "" if it accepts the configuration
}

// differences are applied in this order.
var differences = []difference{
	{
		name:     "escapes of half a character",
		why:      "gjson drops the escape behind it; no name of a route, a host or a service has one",
		adapt:    readHalves,
		rules:    `[{"_match_route_":["\ud800\u0041"],"enabled":false}]`,
		request:  request{route: "\ufffdA"},
		warmgate: 1, higress: globalPart,
	},
	{
		name: "names that cannot be read",
		why: "the rule is refused and reported; an unreadable name matches nothing, and a list without a readable " +
			"name does not make the rule one for more requests",
		adapt:    dropUnreadable,
		rules:    `[{"_match_route_":[""],"_match_service_":["s.dns"],"enabled":false}]`,
		request:  request{cluster: "outbound|80||s.dns"},
		warmgate: globalPart, higress: 1,
	},
	{
		name:     "rules without a condition",
		why:      "one bad rule must not disable the others: it matches nothing, is refused and reported",
		adapt:    fillEmpty,
		rules:    `[{"enabled":false},{"_match_route_":["r"],"enabled":false}]`,
		request:  request{route: "r"},
		warmgate: 2, higress: noPart,
		refusedBy: "at least one of",
	},
	{
		name: "letters of host names",
		why: "names of hosts have no case: Envoy routes a request with any spelling of one to the same route, so " +
			"the same configuration must apply",
		adapt:    lowerHosts,
		rules:    `[{"_match_domain_":["a.com"],"enabled":false}]`,
		request:  request{authority: "A.com"},
		warmgate: 1, higress: globalPart,
	},
	{
		name: "dots behind host names",
		why: "a.com. is the host a.com, and whoever serves the one answers to the other: a rule that keeps requests " +
			"in a region must not be left by a dot",
		adapt:    cutDots,
		rules:    `[{"_match_domain_":["a.com"],"enabled":false}]`,
		request:  request{authority: "a.com.:80"},
		warmgate: 1, higress: globalPart,
	},
}

// readInput reads a configuration as Higress does.
func readInput(text string, r request) *input {
	in := &input{request: r}
	for key := range gjson.Parse(text).Map() {
		in.global = in.global || key != rulesKey && key != pluginIDKey
	}
	for _, rule := range gjson.Get(text, rulesKey).Array() {
		lists := map[string][]gjson.Result{}
		for _, key := range conditionKeys {
			if v := rule.Get(key); rule.IsObject() && v.Exists() {
				lists[key] = v.Array()
			}
		}
		in.rules = append(in.rules, lists)
	}
	return in
}

// text writes the configuration down.
func (in *input) text(tb testing.TB) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString("{")
	if in.global {
		b.WriteString(`"enabled":false,`)
	}
	b.WriteString(`"_rules_":[`)
	for i, lists := range in.rules {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"enabled":false`)
		for _, key := range conditionKeys {
			if list, ok := lists[key]; ok {
				raw := make([]string, len(list))
				for j, name := range list {
					raw[j] = name.Raw
				}
				b.WriteString(`,"` + key + `":[` + strings.Join(raw, ",") + `]`)
			}
		}
		b.WriteString("}")
	}
	b.WriteString("]}")
	return b.String()
}

// named returns a name as it is read from JSON. Bytes that are no UTF-8 stay what they are.
func named(s string) gjson.Result {
	raw := []byte{'"'}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			raw = fmt.Appendf(raw, `\u%04x`, c)
		} else {
			raw = append(raw, c)
		}
	}
	return gjson.Result{Type: gjson.String, Raw: string(append(raw, '"')), Str: s}
}

// lower turns the letters of ASCII into small ones.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func lowerHosts(in *input) bool {
	changed := lower(in.authority) != in.authority
	in.authority = lower(in.authority)
	for _, lists := range in.rules {
		for i, name := range lists[matchDomain] {
			if small := lower(name.Str); name.Type == gjson.String && small != name.Str {
				lists[matchDomain][i], changed = named(small), true
			}
		}
	}
	return changed
}

// cutDots cuts the dots behind the names of hosts. A domain that is nothing else is for none.
func cutDots(in *input) bool {
	changed := false
	host, port := in.authority, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		host, port = host[:i], host[i:]
	}
	if cut := strings.TrimRight(host, ".") + port; cut != in.authority {
		in.authority, changed = cut, true
	}
	for _, lists := range in.rules {
		for i, name := range lists[matchDomain] {
			cut := strings.TrimRight(name.Str, ".")
			if cut == "" || cut == "*" && name.Str != "*" {
				cut = never
			}
			if name.Type == gjson.String && cut != name.Str {
				lists[matchDomain][i], changed = named(cut), true
			}
		}
	}
	return changed
}

func dropUnreadable(in *input) bool {
	changed := false
	for _, lists := range in.rules {
		for key, list := range lists {
			var names []gjson.Result
			for _, name := range list {
				if name.Type == gjson.String && name.Str != "" {
					names = append(names, name)
				}
			}
			if len(names) == 0 {
				names = []gjson.Result{named(never)}
			} else if len(names) == len(list) {
				continue
			}
			lists[key], changed = names, true
		}
	}
	return changed
}

func fillEmpty(in *input) bool {
	changed := false
	for _, lists := range in.rules {
		if len(lists) == 0 {
			lists[matchRoute], changed = []gjson.Result{named(never)}, true
		}
	}
	return changed
}

func readHalves(in *input) bool {
	changed := false
	for _, lists := range in.rules {
		for _, list := range lists {
			for i, name := range list {
				var s string
				if utf8.ValidString(name.Raw) && name.Type == gjson.String &&
					json.Unmarshal([]byte(name.Raw), &s) == nil && s != name.Str {
					list[i], changed = named(s), true
				}
			}
		}
	}
	return changed
}
