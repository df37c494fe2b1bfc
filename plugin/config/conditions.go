package config

import (
	"slices"
	"strconv"
	"strings"
)

// This file reads the conditions of rules.

func isCondition(name string) bool { return contains(conditionKeys, name) }

// conditions decodes the conditions of a rule.
func (p *parser) conditions(at string, v value) rule {
	lists := make(map[string][]string, len(conditionKeys))
	for i, name := range v.names {
		if !isCondition(name) {
			continue
		}
		place := at + "." + name
		if _, twice := lists[name]; twice {
			p.bad(place, "written twice")
			continue
		}
		lists[name] = p.names(place, v.items[i])
	}
	if len(lists) == 0 {
		p.bad(at, "matches nothing, want at least one of "+strings.Join(conditionKeys, ", "))
	}
	r := rule{routes: lists[matchRoute], prefixes: lists[matchPrefix]}
	if names := lists[matchDomain]; names != nil {
		r.domains = make([]domain, len(names))
		for i, name := range names {
			r.domains[i] = newDomain(name)
		}
	}
	if names := lists[matchService]; names != nil {
		r.services = make([]service, len(names))
		for i, name := range names {
			r.services[i] = newService(name)
		}
	}
	return r
}

// outranked drops the conditions of a rule that Higress ignores beside stronger ones. Who writes both means requests
// that meet both, so the rule would be for more of them. It is refused: on Higress, which has this order for all its
// plugins, only if those would be touched.
func (p *parser) outranked(d *draft) {
	r, touches := &d.rule, d.config.Enabled && !d.config.Shadow
	drop := func(name, by string, widens bool) {
		if at := d.at + "." + name; p.host == Envoy || touches && widens {
			p.bad(at, "is ignored beside "+by+", and the rule would be for more requests; want one of the two: only "+
				matchRoute+" and "+matchService+" can be combined")
		} else {
			p.warn(at, "is ignored beside "+by)
		}
	}
	if r.domains != nil && r.routes != nil {
		drop(matchDomain, matchRoute, !r.forAllHosts())
		r.domains = nil
	}
	if r.services != nil && r.domains != nil {
		drop(matchService, matchDomain, true)
		r.services = nil
	}
	if r.prefixes != nil && (r.routes != nil || r.domains != nil || r.services != nil) {
		drop(matchPrefix, "the other conditions", true)
		r.prefixes = nil
	}
	if touches && r.forAllHosts() {
		p.warn(d.at+"."+matchDomain, `has "*": the rule is for every request that no rule before it is for`)
	}
}

// forAllHosts reports whether one of the domains is "*".
func (r *rule) forAllHosts() bool {
	return slices.ContainsFunc(r.domains, func(d domain) bool { return d.text == "" })
}

func newDomain(s string) domain {
	if tail, ok := strings.CutPrefix(s, "*"); ok {
		return domain{text: tail, tails: true}
	}
	if head, ok := strings.CutSuffix(s, "*"); ok {
		return domain{text: head, head: true}
	}
	return domain{text: s}
}

// names decodes a list of names; a single one needs no brackets. An invalid name matches nothing.
func (p *parser) names(at string, v value) []string {
	if v.kind == kindString {
		v = value{kind: kindArray, items: []value{v}}
	}
	if v.kind != kindArray || len(v.items) == 0 {
		p.badValue(at, v, ", want a list of names")
	}
	list := make([]string, 0, len(v.items))
	for i, item := range v.items {
		if item.kind != kindString || item.text == "" {
			p.bad(at+"["+strconv.Itoa(i)+"]", got(item)+", want a name")
			continue
		}
		list = append(list, strings.Clone(item.text))
	}
	return list
}
