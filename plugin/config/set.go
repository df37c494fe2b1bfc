package config

// Set is a configuration: the rules in their order and the global part. Refused rules are included, so that they match
// the same requests.
type Set struct {
	rules    []rule
	byRoute  map[string]int // route name to the first rule that needs nothing but that route
	others   []int          // the rules that are not in byRoute, in order
	global   *Config
	own      map[string]bool // clusters through which the plugin makes calls
	warnings []string
	refusals []Refusal
	host     Host
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

// Owns reports whether the plugin makes calls through the cluster on stock Envoy, for any configuration of the set.
func (s *Set) Owns(cluster string) bool { return s.own[cluster] }

// claim records the clusters of Owns.
func (s *Set) claim() {
	s.own = map[string]bool{}
	for _, c := range s.All() {
		for _, name := range []string{c.EnvoyCfg.AdminCluster, c.Engines.Cluster, c.Redis.Cluster} {
			if name != "" {
				s.own[name] = true
			}
		}
	}
}

// All returns the configurations in force: those of the rules in their order, then the global one.
func (s *Set) All() []*Config {
	var all []*Config
	for i := range s.rules {
		if c := &s.rules[i].config; !c.Refused {
			all = append(all, c)
		}
	}
	if s.global != nil && !s.global.Refused {
		all = append(all, s.global)
	}
	return all
}
