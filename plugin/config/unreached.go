package config

import "strings"

// This file finds rules, and names in them, that are for no request: the configuration that they are part of would be
// in force without them.

// checkName reports a name that no request has, by its form: one that looks like a URL, a path, a pattern, a list or a
// host with its port. Where routes and clusters may be called so after all, as on stock Envoy, there is only a warning.
// Envoy Gateway has patterns of host names in the names of its routes.
func (p *parser) checkName(kind, at, name string) {
	last := len(name) - 1
	host, inHigress, service := kind == matchDomain, p.host == Higress, kind == matchService
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
	what, refused := ", which is compared letter by letter", false
	switch {
	case host && (odd || blank || withoutPort(name) != name && (name[0] != '[' || strings.Contains(name, "]"))):
		what, refused = ", want one host without a port, * only as the first or the last character", true
	case host:
		return
	case odd && inHigress:
		what, refused = ", which is the name of none in Higress; want one whole name", true
	case odd || blank:
	case service && inHigress && !dot:
		what = ", but services in Higress end in .dns, .static or .svc.cluster.local"
	default:
		return
	}
	if what = "got " + quote(name) + what; refused {
		p.bad(at, what)
	} else {
		p.warn(at, what)
	}
}

// warnUnreached warns of a rule, or names of its strongest condition, for which a rule before it applies. Only the same
// names are found, and those behind the domain "*".
func (p *parser) warnUnreached(at string, lists map[string][]string) {
	if all := p.first[matchDomain+"*"]; all != "" {
		p.warn(at, "is never reached: "+all+" is for every request")
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
		if by := p.first[id]; by != "" && by != at {
			p.warn(at+"."+kind, "has "+quote(name)+", which "+by+" before it is for")
		} else if kind != matchRoute || lists[matchService] == nil {
			p.first[id] = at
		}
	}
}
