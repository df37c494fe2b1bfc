package config

import "strings"

// The keys of Higress around the plugin's own: the list of rules, and those of a rule that are conditions on requests.
const (
	rulesKey     = "_rules_"
	pluginIDKey  = "_plugin_id_" // a name for logs, which Higress may add
	matchRoute   = "_match_route_"
	matchPrefix  = "_match_route_prefix_"
	matchDomain  = "_match_domain_"
	matchService = "_match_service_"
)

var conditionKeys = []string{matchRoute, matchPrefix, matchDomain, matchService}

// rule is a Config for some requests. The conditions follow Higress: routes outrank domains, domains outrank
// services, services outrank route prefixes, and only routes and services are combined.
type rule struct {
	config   Config
	routes   []string
	prefixes []string
	domains  []domain
	services []service
}

// service is a service's name, with or without a port.
type service struct {
	whole      string // as it is written; never empty
	fqdn, port string // its parts around the last colon
	hasPort    bool   // there is a colon; the port behind it may be empty, as in a cluster's name
}

func newService(s string) service {
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 {
		return service{whole: s}
	}
	return service{whole: s, fqdn: s[:colon], port: s[colon+1:], hasPort: true}
}

// Match returns the configuration for a request by the names of its route and cluster and its :authority header: the
// first rule that matches, else the global part, else nil. It does not allocate.
func (s *Set) Match(route, cluster, authority string) *Config {
	limit := len(s.rules)
	if i, ok := s.byRoute[route]; ok {
		limit = i
	}
	if len(s.others) > 0 && s.others[0] < limit {
		t := newTarget(route, cluster, authority, s.host)
		for _, i := range s.others {
			if i > limit {
				break
			}
			if s.rules[i].matches(&t) {
				return &s.rules[i].config
			}
		}
	}
	if limit < len(s.rules) {
		return &s.rules[limit].config
	}
	return s.global
}

// target is what rules compare of a request.
type target struct {
	route  string
	name   string // host in the :authority header: see hostOf
	whole  string // the cluster's name, where services may be named by it
	fqdn   string // of the service, "" if the cluster's name does not contain it
	port   string
	inside bool // the cluster's name contains fqdn and port
}

// newTarget splits Higress's cluster names, outbound|port|subset|fqdn. On stock Envoy, where the operator chooses the
// names, rules may also use the whole name.
func newTarget(route, cluster, authority string, h Host) target {
	t := target{route: route, name: hostOf(authority)}
	if h == Envoy {
		t.whole = cluster
	}
	if strings.Count(cluster, "|") == 3 {
		_, rest, _ := strings.Cut(cluster, "|")
		t.port, rest, _ = strings.Cut(rest, "|")
		_, t.fqdn, _ = strings.Cut(rest, "|")
		t.inside = true
	}
	return t
}

// withoutPort cuts the port off an authority. A colon inside brackets belongs to an IPv6 address.
func withoutPort(authority string) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.LastIndexByte(authority, ']') > colon {
		return authority
	}
	return authority[:colon]
}

func (r *rule) matches(t *target) bool {
	switch {
	case r.routes != nil:
		return contains(r.routes, t.route) && r.matchesService(t)
	case r.domains != nil:
		return r.matchesDomain(t.name)
	case r.services != nil:
		return r.matchesService(t)
	}
	for _, p := range r.prefixes {
		if strings.HasPrefix(t.route, p) {
			return true
		}
	}
	return false
}

func (r *rule) matchesDomain(name string) bool {
	for _, d := range r.domains {
		part := name
		switch n := len(d.text); {
		case len(name) < n:
			continue
		case d.tails:
			part = name[len(name)-n:]
		case d.head:
			part = name[:n]
		}
		if sameHost(part, d.text) {
			return true
		}
	}
	return false
}

// sameHost compares host names, in which only the letters of ASCII have two cases.
func sameHost(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (r *rule) matchesService(t *target) bool {
	for _, s := range r.services {
		same := s.whole == t.fqdn || s.hasPort && s.fqdn == t.fqdn && s.port == t.port
		if s.whole == t.whole || t.inside && same {
			return true
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}

// add appends a rule, and indexes it for Match.
func (s *Set) add(r rule) {
	i := len(s.rules)
	s.rules = append(s.rules, r)
	if r.routes == nil || r.services != nil {
		s.others = append(s.others, i)
		return
	}
	for _, name := range r.routes {
		if _, taken := s.byRoute[name]; !taken {
			s.byRoute[name] = i
		}
	}
}
