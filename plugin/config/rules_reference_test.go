package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainRule is a rule as a user would describe it: the lists of names, nil for those that it does not have.
type plainRule struct{ routes, prefixes, domains, services []string }

// request is what rules are compared with.
type request struct{ route, cluster, authority string }

var higressCluster = regexp.MustCompile(`^([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)$`)

// applies reports whether the rule is for the request, by the words of the documentation: routes outrank domains,
// domains outrank services, services outrank route prefixes, and only routes and services are combined.
func (r *plainRule) applies(q request, h Host) bool {
	switch {
	case r.routes != nil && r.services != nil:
		return r.forRoute(q.route) && r.forService(q.cluster, h)
	case r.routes != nil:
		return r.forRoute(q.route)
	case r.domains != nil:
		return r.forDomain(q.authority)
	case r.services != nil:
		return r.forService(q.cluster, h)
	}
	for _, p := range r.prefixes {
		if strings.HasPrefix(q.route, p) {
			return true
		}
	}
	return false
}

func (r *plainRule) forRoute(route string) bool {
	for _, name := range r.routes {
		if name == route {
			return true
		}
	}
	return false
}

// forDomain compares domains by regular expressions.
func (r *plainRule) forDomain(authority string) bool {
	host := regexp.MustCompile(`:[^:\]]*$`).ReplaceAllString(authority, "")
	for _, d := range r.domains {
		pattern := "^" + regexp.QuoteMeta(d) + "$"
		if rest, ok := strings.CutPrefix(d, "*"); ok {
			pattern = regexp.QuoteMeta(rest) + "$"
		} else if rest, ok := strings.CutSuffix(d, "*"); ok {
			pattern = "^" + regexp.QuoteMeta(rest)
		}
		if regexp.MustCompile("(?i)" + pattern).MatchString(host) {
			return true
		}
	}
	return false
}

func (r *plainRule) forService(cluster string, h Host) bool {
	parts := higressCluster.FindStringSubmatch(cluster)
	for _, s := range r.services {
		if h == Envoy && s == cluster {
			return true
		}
		if parts != nil && (s == parts[4] || s == parts[4]+":"+parts[2] && parts[2] != "") {
			return true
		}
	}
	return false
}

// text writes the rule, switched off to keep it short.
func (r *plainRule) text() string {
	members := []string{`"enabled":false`}
	for _, list := range []struct {
		name  string
		items []string
	}{{matchRoute, r.routes}, {matchPrefix, r.prefixes}, {matchDomain, r.domains}, {matchService, r.services}} {
		if list.items != nil {
			members = append(members, `"`+list.name+`":["`+strings.Join(list.items, `","`)+`"]`)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

var (
	someRoutes   = []string{"a", "ab", "abc", "b", "A"}
	someDomains  = []string{"a.com", "*.com", "*a.com", "b.*", "*", "B.a.com", "a.*", "[::1]", "a.com*"}
	someServices = []string{"s.dns", "s.dns:80", "s.dns:", "t.dns", "t.dns:81", "s", "x:80", "outbound|80||s.dns"}
	someRequests = struct{ routes, clusters, authorities []string }{
		append([]string{"", "abcd"}, someRoutes...),
		[]string{
			"", "s", "s.dns", "outbound|80||s.dns", "outbound|81||s.dns", "outbound|81|v|t.dns", "a|b", "x:80",
			"outbound|||",
		},
		[]string{"", "a.com", "A.COM:80", "b.a.com", "b.org:1", "[::1]:8080", "[::1]", "com", ".com"},
	}
)

// drawRule draws a rule with at least one list of names. In Higress no service is called as the whole cluster.
func drawRule(rt *rapid.T, h Host) plainRule {
	ofHost := someServices
	if h == Higress {
		ofHost = someServices[:len(someServices)-1]
	}
	names := func(label string, of []string) []string {
		if rapid.Bool().Draw(rt, "has "+label) {
			return rapid.SliceOfN(rapid.SampledFrom(of), 1, 3).Draw(rt, label)
		}
		return nil
	}
	r := plainRule{
		routes: names("routes", someRoutes), prefixes: names("prefixes", someRoutes),
		domains: names("domains", someDomains), services: names("services", ofHost),
	}
	if r.routes == nil && r.prefixes == nil && r.domains == nil && r.services == nil {
		r.routes = []string{"a"}
	}
	return r
}

func drawRequest(rt *rapid.T) request {
	return request{
		rapid.SampledFrom(someRequests.routes).Draw(rt, "route"),
		rapid.SampledFrom(someRequests.clusters).Draw(rt, "cluster"),
		rapid.SampledFrom(someRequests.authorities).Draw(rt, "authority"),
	}
}

// For each request the first rule applies that is for it, then the global part: as a list that is read from the top.
func TestRulesAgainstAReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.SampledFrom([]Host{Higress, Envoy}).Draw(rt, "gateway")
		rules := make([]plainRule, rapid.IntRange(0, 6).Draw(rt, "rules"))
		texts := make([]string, len(rules))
		for i := range rules {
			rules[i] = drawRule(rt, h)
			texts[i] = rules[i].text()
		}
		global := rapid.Bool().Draw(rt, "global part") || len(rules) == 0
		head := ""
		if global {
			head = `"enabled":false`
		}
		s, err := Parse([]byte(rulesOf(head, texts...)), h)
		if refused := h == Envoy && slices.ContainsFunc(rules, plainRule.hasIgnored); refused != (err != nil) {
			rt.Fatal(err)
		}
		if s == nil { // each rule is refused
			return
		}
		for range 20 {
			q, want := drawRequest(rt), 0
			for i := len(rules) - 1; i >= 0; i-- {
				if rules[i].applies(q, h) {
					want = i + 1
				}
			}
			c := s.Match(q.route, q.cluster, q.authority)
			if want == 0 && !global {
				if c != nil {
					rt.Fatalf("%v, %+v: rule %d, want none", texts, q, c.ID)
				}
				continue
			}
			if c == nil || c.ID != want {
				rt.Fatalf("%v, %+v: %+v, want rule %d", texts, q, c, want)
			}
		}
	})
}

// ignored returns the conditions that are ignored beside stronger ones, and whether the requests of the rule are others
// than those that meet all of its conditions.
func (r plainRule) ignored() map[string]bool {
	all := slices.Contains(r.domains, "*")
	list := map[string]bool{}
	if r.domains != nil && r.routes != nil {
		list[matchDomain] = !all
	}
	if r.services != nil && r.domains != nil && r.routes == nil {
		list[matchService] = true
	}
	if r.prefixes != nil && (r.routes != nil || r.domains != nil || r.services != nil) {
		list[matchPrefix] = true
	}
	return list
}

func (r plainRule) hasIgnored() bool { return len(r.ignored()) > 0 }

// A condition that is ignored beside a stronger one would make the rule one for more requests. On stock Envoy it is
// refused, on Higress if those would be touched; otherwise there is a warning. Refused rules match as they always did.
func TestIgnoredConditions(t *testing.T) {
	parts := map[string]bool{ // of rules, and whether they touch requests
		`"enabled":false`:                                 false,
		`"lb_policy":"prefix_cache"`:                      true,
		`"lb_policy":"prefix_cache","lb_config":{"x":{}}`: true, // refused for another reason
	}
	shadow := `"lb_policy":"prefix_cache","lb_config":{"shadow":true}`
	parts[shadow] = false
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.SampledFrom([]Host{Higress, Envoy}).Draw(rt, "gateway")
		r := drawRule(rt, h)
		part := rapid.SampledFrom(slices.Sorted(maps.Keys(parts))).Draw(rt, "part")
		text := strings.Replace(r.text(), `"enabled":false`, part, 1)
		s, err := Parse([]byte(rulesOf(`"enabled":false`, text)), h)
		said := strings.Join(s.Warnings(), "\n")
		if err != nil {
			said = err.Error()
		}
		for _, name := range conditionKeys {
			widens, ignored := r.ignored()[name]
			refused := ignored && (h == Envoy || parts[part] && widens)
			if strings.Contains(said, "_rules_[0]."+name+": is ignored") != refused ||
				err == nil && strings.Contains(said, "_rules_[0]."+name+" is ignored") != (ignored && !refused) {
				rt.Fatalf("%v %s: %s ignored: %v, it says %q", h, text, name, ignored, said)
			}
		}
	})
}

// Another rule in front takes requests from the rules behind it and changes nothing else; one behind all others takes
// only what no rule took.
func TestRuleOrderMatters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var texts []string
		for range rapid.IntRange(1, 4).Draw(rt, "rules") {
			r := drawRule(rt, Higress)
			texts = append(texts, r.text())
		}
		more := drawRule(rt, Higress)
		parse := func(rules ...string) *Set {
			s, err := Parse([]byte(rulesOf(`"enabled":false`, rules...)), Higress)
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		alone, before := parse(more.text()), parse(texts...)
		front, behind := parse(append([]string{more.text()}, texts...)...), parse(append(texts, more.text())...)
		for range 20 {
			q := drawRequest(rt)
			id := func(s *Set) int { return s.Match(q.route, q.cluster, q.authority).ID }
			inFront, atEnd := id(before), id(before)
			if inFront > 0 {
				inFront++
			}
			if id(alone) == 1 {
				inFront = 1
				if atEnd == 0 {
					atEnd = len(texts) + 1
				}
			}
			if id(front) != inFront || id(behind) != atEnd {
				rt.Fatalf("%v, %v in front or behind, %+v: rules %d and %d, want %d and %d", texts, more.text(), q,
					id(front), id(behind), inFront, atEnd)
			}
		}
	})
}
