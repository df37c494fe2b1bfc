package config

import (
	"strconv"
	"strings"
)

// This file reads the conditions of rules.

func isCondition(name string) bool { return contains(conditionKeys, name) }

// conditions decodes the conditions of a rule.
func (src *source) conditions(at string, v value) rule {
	lists := make(map[string][]string, len(conditionKeys))
	for i, name := range v.names {
		if !isCondition(name) {
			continue
		}
		place := at + "." + name
		if _, twice := lists[name]; twice {
			src.bad(place, "written twice")
			continue
		}
		lists[name] = src.names(name, place, v.items[i])
	}
	if len(lists) == 0 {
		src.bad(at, "matches nothing, want at least one of "+strings.Join(conditionKeys, ", "))
	}
	src.warnUnreached(at, lists)
	r := rule{routes: lists[matchRoute], prefixes: lists[matchPrefix]}
	if names := lists[matchDomain]; names != nil {
		r.domains = make([]domain, len(names))
		for i, name := range names {
			r.domains[i], _ = newDomain(name)
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

// outranked drops the conditions of a rule that are ignored beside stronger ones, as in the Go SDK of Higress; its SDKs
// for other languages, and older ones for Go, refuse such a rule. Who writes both means requests that meet both, so the
// rule would be for more of them. It is refused, on Higress only if those would be touched.
func (src *source) outranked(d *draft) {
	r, touches := &d.rule, d.config.Enabled && !d.config.Shadow
	all, refused := r.forAllHosts(), touches || src.host == Envoy
	if r.domains != nil && r.routes != nil {
		src.ignored(d.at+"."+matchDomain, matchRoute, refused && !(all && src.host == Higress))
		r.domains, all = nil, false
	}
	if r.services != nil && r.domains != nil {
		src.ignored(d.at+"."+matchService, matchDomain, refused)
		r.services = nil
	}
	if r.prefixes != nil && (r.routes != nil || r.domains != nil || r.services != nil) {
		src.ignored(d.at+"."+matchPrefix, "the other conditions", refused)
		r.prefixes = nil
	}
	if touches && all {
		src.warn(d.at+"."+matchDomain, `has "*": the rule is for every request that no rule before it is for`)
	}
}

// ignored reports a condition that is ignored beside another one.
//
//go:noinline
func (src *source) ignored(at, by string, refused bool) {
	what := "is ignored beside " + by
	if !refused {
		src.warn(at, what)
		return
	}
	src.bad(at, what+", and the rule would be for more requests; want one of the two")
}

// forAllHosts reports whether one of the domains is "*".
//
//go:noinline
func (r *rule) forAllHosts() bool {
	for i := range r.domains {
		if r.domains[i].text == "" {
			return true
		}
	}
	return false
}

// names decodes a list of names; a single one needs no brackets. An invalid name matches nothing.
func (src *source) names(kind, at string, v value) []string {
	if v.kind == kindString {
		v = value{kind: kindArray, items: []value{v}}
	}
	if v.kind != kindArray || len(v.items) == 0 {
		src.badValue(at, v, ", want a list of names")
	}
	list := make([]string, 0, len(v.items))
	for i, item := range v.items {
		if item.kind != kindString || item.text == "" {
			src.bad(at+"["+strconv.Itoa(i)+"]", got(item)+", want a name")
			continue
		}
		list = append(list, strings.Clone(item.text))
	}
	src.checkNames(kind, at, list)
	return list
}
