package config

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// verdict returns whether a rule is refused for its conditions, and what is said of it.
func verdict(rule string, h Host) (refused bool, said string) {
	s, err := Parse([]byte(`{"enabled":false,"_rules_":[{"enabled":false,`+rule+`}]}`), h)
	if err != nil {
		return true, err.Error()
	}
	return false, strings.Join(s.Warnings(), "\n")
}

const isRefused, isWarned, isTaken = "refused", "warned", "taken"

// namesOfNone are names, and what becomes of a rule with one in Higress and on stock Envoy.
var namesOfNone = []struct{ condition, name, higress, envoy string }{
	{matchDomain, "https://a.test", isRefused, isRefused},
	{matchDomain, "a.test/v1", isRefused, isRefused},
	{matchDomain, "a.test:8443", isRefused, isRefused},
	{matchDomain, "*.test:8443", isRefused, isRefused},
	{matchDomain, "::1", isRefused, isRefused},
	{matchDomain, "[::1]:80", isRefused, isRefused},
	{matchDomain, "a.test ", isRefused, isRefused},
	{matchDomain, "a.test, b.test", isRefused, isRefused},
	{matchDomain, "a.*.test", isRefused, isRefused},
	{matchDomain, "*a*", isRefused, isRefused},
	{matchDomain, "**", isRefused, isRefused},
	{matchDomain, ".", isRefused, isRefused},
	{matchDomain, "*.", isRefused, isRefused},
	{matchDomain, "*ücher.test", isRefused, isRefused},
	{matchDomain, "büch*", isRefused, isRefused},
	{matchDomain, "a.test", isTaken, isTaken},
	{matchDomain, "A.test.", isTaken, isTaken},
	{matchDomain, "*.bücher.test", isTaken, isTaken},
	{matchDomain, "A_b.test", isTaken, isTaken},
	{matchDomain, "*.test", isTaken, isTaken},
	{matchDomain, "api.*", isTaken, isTaken},
	{matchDomain, "[::1]", isTaken, isTaken},
	{matchDomain, "[fe80::*", isTaken, isTaken},
	{matchDomain, "*::1]", isTaken, isTaken},

	{matchRoute, "/v1/embeddings", isRefused, isWarned},
	{matchRoute, "https://a.test/v1", isRefused, isWarned},
	{matchRoute, "embeddings ", isRefused, isWarned},
	{matchRoute, "chat, embeddings", isRefused, isWarned},
	{matchRoute, "emb*", isRefused, isWarned},
	{matchRoute, "httproute/default/llm/*", isRefused, isWarned},
	{matchRoute, "httproute/default/llm/rule/0/match/0/*", isTaken, isTaken},
	{matchRoute, "httproute/default/llm/rule/0/match/0/*_test", isTaken, isTaken},
	{matchRoute, "chat embeddings", isWarned, isWarned},
	{matchRoute, "embeddings", isTaken, isTaken},
	{matchRoute, "team-a/embeddings", isTaken, isTaken},
	{matchRoute, "ai-route-chat.internal", isTaken, isTaken},
	{matchPrefix, "emb*", isRefused, isWarned},
	{matchPrefix, "/v1", isRefused, isWarned},
	{matchPrefix, "httproute/default/llm/", isTaken, isTaken},

	{matchService, "http://embeddings.dns", isRefused, isWarned},
	{matchService, "*.dns", isRefused, isWarned},
	{matchService, "embeddings.dns ", isRefused, isWarned},
	{matchService, "outbound|80||embeddings.dns", isRefused, isTaken},
	{matchService, "embeddings", isWarned, isTaken},
	{matchService, "embeddings:8000", isWarned, isTaken},
	{matchService, "embeddings.dns", isTaken, isTaken},
	{matchService, "embeddings.dns:8000", isTaken, isTaken},
	{matchService, "httproute/default/llm/rule/0", isRefused, isTaken},
}

// TestNamesOfNone writes names that can be those of no request, in rules that leave a service to the gateway: silently
// ignored, it would be balanced.
func TestNamesOfNone(t *testing.T) {
	for _, c := range namesOfNone {
		for host, want := range map[Host]string{Higress: c.higress, Envoy: c.envoy} {
			bad, said := verdict(strconv.Quote(c.condition)+":["+strconv.Quote(c.name)+"]", host)
			got := isTaken
			if bad {
				got = isRefused
			} else if said != "" {
				got = isWarned
			}
			if got != want || said != "" && !strings.Contains(said, "_rules_[0]."+c.condition) {
				t.Errorf("%s %q, host %v: %s, want %s: %s", c.condition, c.name, host, got, want, said)
			}
		}
	}
}

// TestNamesOfNoneBesideOthers writes such names beside one that requests may have: that one keeps its rule in force.
func TestNamesOfNoneBesideOthers(t *testing.T) {
	good := map[string]string{
		matchDomain: "z.test", matchRoute: "z", matchPrefix: "z-", matchService: "z.dns",
	}
	cases := 0
	for _, c := range namesOfNone {
		for host, alone := range map[Host]string{Higress: c.higress, Envoy: c.envoy} {
			if alone == isTaken {
				continue
			}
			cases++
			one, bad := strconv.Quote(good[c.condition]), strconv.Quote(c.name)
			for _, names := range []string{one + "," + bad, bad + "," + one, bad + "," + one + "," + bad} {
				refused, said := verdict(strconv.Quote(c.condition)+":["+names+"]", host)
				if want := "_rules_[0]." + c.condition + " got " + bad; refused || !strings.Contains(said, want) {
					t.Errorf("%s [%s], host %v: refused: %v, %q", c.condition, names, host, refused, said)
				}
			}
			refused, said := verdict(strconv.Quote(c.condition)+":["+bad+","+bad+"]", host)
			if refused != (alone == isRefused) {
				t.Errorf("%s %s twice, host %v: refused: %v, %q", c.condition, bad, host, refused, said)
			}
		}
	}
	if cases < 40 {
		t.Errorf("only %d cases", cases)
	}
}

// TestRefusedDomainsMatchNothing compares domains that are refused for their form with hosts as clients write them.
func TestRefusedDomainsMatchNothing(t *testing.T) {
	some := func(letters string) *rapid.Generator[string] {
		return rapid.StringOfN(rapid.SampledFrom([]rune(letters)), 1, 4, -1)
	}
	rapid.Check(t, func(rt *rapid.T) {
		name, host := some("aü.*/:[], ").Draw(rt, "domain"), some("aü.").Draw(rt, "host")
		if rapid.Bool().Draw(rt, "IPv6") {
			host = "[" + some("a:").Draw(rt, "address") + "]"
		}
		if rapid.Bool().Draw(rt, "port") {
			host += ":80"
		}
		d, _ := newDomain(name)
		r := rule{domains: []domain{d}}
		if _, none := checkName(Higress, matchDomain, name); none && r.matchesDomain(hostOf(host)) {
			rt.Fatalf("%q matches %q", name, host)
		}
	})
}

// unreachedNames returns how many warnings there are of each rule, by its number from 1, that names of it are another
// rule's. A rule that is never reached at all has 100.
func unreachedNames(s *Set) map[int]int {
	count := map[int]int{}
	for _, w := range s.Warnings() {
		at, _ := strconv.Atoi(strings.TrimPrefix(w[:strings.IndexByte(w, ']')], "_rules_["))
		switch {
		case strings.Contains(w, " is never reached: "):
			count[at+1] += 100
		case strings.HasSuffix(w, " before it is for"):
			count[at+1]++
		}
	}
	return count
}

// A rule, all names of which have a warning that a rule before it is for them, applies to no request. One that repeats
// another has all these warnings.
func TestUnreachedRules(t *testing.T) {
	requests := []request{}
	for _, route := range someRequests.routes {
		for _, cluster := range someRequests.clusters {
			for _, authority := range someRequests.authorities {
				requests = append(requests, request{route, cluster, authority})
			}
		}
	}
	unreached := 0
	rapid.Check(t, func(rt *rapid.T) {
		rules := make([]plainRule, rapid.IntRange(1, 5).Draw(rt, "rules"))
		texts := make([]string, len(rules))
		for i := range rules {
			rules[i] = drawRule(rt, Higress)
			texts[i] = rules[i].text()
		}
		again := rapid.IntRange(0, len(rules)-1).Draw(rt, "again")
		s, err := Parse([]byte(rulesOf("", append(texts, texts[again])...)), Higress)
		if err != nil {
			rt.Fatal(err)
		}
		applies := map[int]bool{}
		for _, q := range requests {
			if c := s.Match(q.route, q.cluster, q.authority); c != nil {
				applies[c.ID] = true
			}
		}
		count := unreachedNames(s)
		for i, r := range append(rules, rules[again]) {
			names := r.routes
			for _, weaker := range [][]string{r.domains, r.services, r.prefixes} {
				if names == nil {
					names = weaker
				}
			}
			if count[i+1] >= len(names) {
				unreached++
				if applies[i+1] {
					rt.Fatalf("%q: rule %d applies, warnings %q", texts, i+1, s.Warnings())
				}
			} else if i == len(rules) && (r.routes == nil || r.services == nil) {
				rt.Fatalf("%q and again %d: warnings %q", texts, again, s.Warnings())
			}
		}
	})
	if unreached == 0 {
		t.Error("no rule is never reached")
	}
}

// TestNamesOfTwoRules has what is said of names that a rule before is for.
func TestNamesOfTwoRules(t *testing.T) {
	rule := func(kind, name string) string { return `{"` + kind + `":["` + name + `"],"enabled":false}` }
	for _, c := range []struct{ first, second, want string }{
		{rule(matchRoute, "a"), rule(matchRoute, "a"), `_rules_[1]._match_route_ has "a", which _rules_[0] before it is for`},
		{rule(matchRoute, "a"), rule(matchRoute, "b"), ""},
		{rule(matchPrefix, "ab"), rule(matchPrefix, "a"), ""},
		{rule(matchDomain, "b.com"), rule(matchDomain, "b.com"), `_match_domain_ has "b.com", which _rules_[0] before`},
		{rule(matchDomain, "*.b.com"), rule(matchDomain, "b.com"), ""},
		{rule(matchDomain, "api.*"), rule(matchDomain, "*.b.com"), ""},
		{rule(matchDomain, "*"), rule(matchRoute, "a"), "_rules_[1] is never reached: _rules_[0] is for every request"},
		{rule(matchService, "s.dns"), rule(matchService, "s.dns"), `_match_service_ has "s.dns", which _rules_[0] before`},
		{rule(matchService, "s.dns:80"), rule(matchService, "s.dns"), ""},
		{rule(matchService, "s.dns"), rule(matchRoute, "s.dns"), ""},
	} {
		s, err := Parse([]byte(rulesOf("", c.first, c.second)), Higress)
		if err != nil {
			t.Errorf("%s, %s: %v", c.first, c.second, err)
			continue
		}
		if got := strings.Join(s.Warnings(), "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.first, c.second, got, c.want)
		}
	}
}
