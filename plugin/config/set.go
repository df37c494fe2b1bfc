package config

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/internal/order"
)

// Set is a configuration: the rules in their order and the global part. Refused rules are included, so that they match
// the same requests.
type Set struct {
	rules    []rule
	byRoute  map[string]int // route name to the first rule that needs nothing but that route
	others   []int          // the rules that are not in byRoute, in order
	global   *Config
	own      map[string]bool // clusters through which the plugin makes calls
	headers  []string        // that name clusters to routes
	regions  []*Config       // see Regions
	rulesOf  [][]*Config     // see RulesOf, beside regions
	apis     []*Config       // with an admission API
	inspect  *Inspect        // where the gateway shows what it knows, nil for nowhere
	warnings []string
	refusals []Refusal
	host     Host

	refusedAPIs APIPaths
}

// Refusal is a part of a configuration, a rule or the global part, that was refused.
type Refusal struct {
	Part string // its place, and its conditions
	Kept bool   // its last good form stays in force; else native balancing takes its requests
}

// HasRules reports whether Match depends on its arguments. Without rules it always returns the global part.
func (s *Set) HasRules() bool { return len(s.rules) > 0 }

// Warnings returns what was accepted but has no effect, or another meaning than it seems to have, one sentence each.
func (s *Set) Warnings() []string { return s.warnings }

// Refusals returns the parts that were refused.
func (s *Set) Refusals() []Refusal { return s.refusals }

// AdminSource returns the admin cluster to poll for endpoints, and how often: the first one that the global part or a
// rule names. An Envoy has one admin interface, so one is enough. ok is false when none is named.
func (s *Set) AdminSource() (EnvoySource, bool) {
	if s.global != nil && s.global.EnvoyCfg.AdminCluster != "" {
		return s.global.EnvoyCfg, true
	}
	for i := range s.rules {
		if src := s.rules[i].config.EnvoyCfg; src.AdminCluster != "" {
			return src, true
		}
	}
	return EnvoySource{}, false
}

// Owns reports whether the cluster is the plugin's own, for any configuration of the set: it makes calls through it, or
// it leads to another region, where only the plugin sends requests.
func (s *Set) Owns(cluster string) bool { return s.own[cluster] }

// IsPeer reports whether the cluster leads to another region: to its gateways, or to its servers.
func (s *Set) IsPeer(cluster string) bool {
	return slices.ContainsFunc(s.regions, func(c *Config) bool {
		return slices.ContainsFunc(c.Regions.Peers, func(p Peer) bool { return slices.Contains(p.clusters(), cluster) })
	})
}

// RulesOf returns the configurations of a region of Regions by which its endpoints differ in how much they take: the
// first of equal ones, in the order of All, without those in shadow mode unless there are no others.
func (s *Set) RulesOf(region *Config) []*Config {
	if i := slices.Index(s.regions, region); i >= 0 && len(s.rulesOf[i]) > 0 {
		return s.rulesOf[i]
	}
	return []*Config{region}
}

// Regions returns a configuration of each region that is configured, by [Regions.SameBoard]: the first one in force, in
// the order of All.
func (s *Set) Regions() []*Config { return s.regions }

// ClusterHeaders returns the headers by which routes take the clusters, or regions, that are chosen, in lower case, and
// those that parts name which are refused, or have no use for them. While a part is refused, which may have chosen
// among clusters, the usual header is one of them.
func (s *Set) ClusterHeaders() []string { return s.headers }

// ClusterHeaders returns the headers by which routes take clusters, as far as a configuration names them that is
// refused as a whole, and the usual one, in lower case.
func ClusterHeaders(raw []byte) []string {
	headers := map[string]bool{DefaultClusterHeader: true}
	if root, err := parseJSON(string(raw[:min(len(raw), maxBytes)])); err == nil {
		root.nameHeaders(headers)
	}
	return order.Keys(headers)
}

// nameHeaders adds the headers that are written as one by which routes take clusters, in whatever place.
func (v *value) nameHeaders(headers map[string]bool) {
	for i := range v.items {
		item := &v.items[i]
		if i < len(v.names) && v.names[i] == "cluster_header" && item.isClusterHeader() {
			headers[strings.ToLower(strings.Clone(item.text))] = true
		}
		item.nameHeaders(headers)
	}
}

// DefaultClusterHeader is the header by which a route takes the cluster unless another is configured.
const DefaultClusterHeader = "x-higress-target-cluster"

// claim records the clusters of Owns and the headers of ClusterHeaders.
func (s *Set) claim(root *value) {
	s.own = map[string]bool{}
	headers := map[string]bool{}
	root.nameHeaders(headers)
	if slices.ContainsFunc(s.refusals, func(r Refusal) bool { return !r.Kept }) {
		headers[DefaultClusterHeader] = true
	}
	for _, c := range s.All() {
		if c.AmongClusters() {
			headers[c.Clusters.Header] = true
		}
		s.claimRegions(c)
		s.claimAPI(c)
		if name := c.RegionHeader(); name != "" {
			headers[name] = true
		}
		for _, name := range c.callClusters() {
			if name != "" {
				s.own[name] = true
			}
		}
	}
	s.headers = order.Keys(headers)
}

// claimRegions records the clusters of peers, and the configuration if it is the first of its region, or differs from
// the others in it.
func (s *Set) claimRegions(c *Config) {
	for i := range c.Regions.Peers {
		for _, name := range c.Regions.Peers[i].clusters() {
			s.own[name] = true
		}
	}
	if !c.Enabled || !c.Regions.Enabled() {
		return
	}
	i := slices.IndexFunc(s.regions, func(other *Config) bool { return other.Regions.SameBoard(&c.Regions) })
	if i < 0 {
		i, s.regions, s.rulesOf = len(s.regions), append(s.regions, c), append(s.rulesOf, nil)
	}
	if !c.Shadow && !slices.ContainsFunc(s.rulesOf[i], c.takesAsMuch) {
		s.rulesOf[i] = append(s.rulesOf[i], c)
	}
}

// All returns the configurations in force: those of the rules in their order, then the global one; behind one that
// chooses among clusters, how an endpoint is chosen in them.
func (s *Set) All() []*Config {
	var all []*Config
	add := func(c *Config) {
		if c.Refused {
			return
		}
		all = append(all, c)
		if c.Clusters.Endpoint != nil {
			all = append(all, c.Clusters.Endpoint)
		}
	}
	for i := range s.rules {
		add(&s.rules[i].config)
	}
	if s.global != nil {
		add(s.global)
	}
	return all
}

// API returns the configuration whose admission API a request path is for, nil if it is for none, and what follows the
// API's own path: "" or a path that begins with a slash. The request path may have a query.
func (s *Set) API(path string) (c *Config, below string) {
	for _, c := range s.apis {
		if rest, ok := pathBelow(path, c.API.Path); ok {
			return c, rest
		}
	}
	return nil, ""
}

// HasAPI reports whether there is an admission API.
func (s *Set) HasAPI() bool { return len(s.apis) > 0 }

// claimAPI records the API of a configuration, and where that has the gateway show what it knows.
func (s *Set) claimAPI(c *Config) {
	if c.Enabled && c.API.Path != "" {
		s.apis = append(s.apis, c)
	}
	if c.Enabled && c.Inspect.Path != "" {
		s.inspect = &c.Inspect
	}
}

// Inspect returns where the gateway shows what it knows, if a request path is for that, and what follows its path: see
// API.
func (s *Set) Inspect(path string) (in *Inspect, below string) {
	if s.inspect != nil {
		if rest, ok := pathBelow(path, s.inspect.Path); ok {
			return s.inspect, rest
		}
	}
	return nil, ""
}

// HasInspect reports whether the gateway shows what it knows.
func (s *Set) HasInspect() bool { return s.inspect != nil }

// RefusedAPIs returns the paths of APIs of the plugin in the parts that are refused, also where their last good form is
// in force. An API in force may have the same path.
func (s *Set) RefusedAPIs() APIPaths { return s.refusedAPIs }
