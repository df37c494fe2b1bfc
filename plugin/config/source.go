package config

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
