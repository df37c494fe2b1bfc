package config

import "strings"

// This file finds rules, and names in them, that are for no request: the configuration that they are part of would be
// in force without them.

// checkNames reports names that no request has. One beside others has a warning, as the rule is for requests without
// it, too; a rule with no others is refused, as it would be for none.
func (src *source) checkNames(kind, at string, names []string) {
	report := src.bad
	for _, name := range names {
		if _, none := checkName(src.host, kind, name); !none {
			report = src.warn
		}
	}
	for _, name := range names {
		if what, _ := checkName(src.host, kind, name); what != "" {
			report(at, "got "+quote(name)+what)
		}
	}
}

// checkName says what is wrong with a name, and whether no request can have it, by its form: one that looks like a URL,
// a path, a pattern, a list or a host with its port. Routes and clusters may be called so after all on stock Envoy.
// Envoy Gateway has patterns of host names in the names of its routes.
func checkName(h Host, kind, name string) (what string, none bool) {
	last := len(name) - 1
	host, inHigress, service := kind == matchDomain, h == Higress, kind == matchService
	var odd, blank, dot bool
	for i := range len(name) {
		switch name[i] {
		case ' ', '\n':
			blank, odd = true, odd || i == 0 || i == last
		case ',':
			odd = true
		case '/', '|':
			odd = odd || host || i == 0 || name[i-1] == ':' || service && inHigress
		case '*':
			if host {
				odd = odd || i > 0 && (i < last || name[0] == '*')
			} else {
				odd = odd || !strings.Contains(name, "/match/")
			}
		case '.':
			dot = true
		}
	}
	switch {
	case host && (odd || blank || withoutPort(name) != name && (name[0] != '[' || strings.Contains(name, "]"))):
		return ", want one host without a port, * only as the first or the last character", true
	case host && !isDomain(name):
		return ", which no host in DNS is called; beside * want whole labels where letters are beyond ASCII", true
	case host:
	case odd && inHigress:
		return ", which is the name of none in Higress; want one whole name", true
	case odd || blank:
		return ", which is compared letter by letter", false
	case service && inHigress && !dot:
		return ", but services in Higress end in .dns, .static or .svc.cluster.local", false
	}
	return "", false
}

// warnUnreached warns of a rule, or names of its strongest condition, for which a rule before it applies. Only the same
// names are found, and those behind the domain "*".
func (src *source) warnUnreached(at string, lists map[string][]string) {
	if all := src.first[matchDomain+"*"]; all != "" {
		src.warn(at, "is never reached: "+all+" is for every request")
		return
	}
	kind := ""
	for _, kind = range [...]string{matchRoute, matchDomain, matchService, matchPrefix} {
		if lists[kind] != nil {
			break
		}
	}
	for _, name := range lists[kind] {
		id := kind + name
		if d, ok := newDomain(name); kind == matchDomain && ok {
			id = kind + d.String()
		}
		if by := src.first[id]; by != "" && by != at {
			src.warn(at+"."+kind, "has "+quote(name)+", which "+by+" before it is for")
		} else if kind != matchRoute || lists[matchService] == nil {
			src.first[id] = at
		}
	}
}
