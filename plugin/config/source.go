package config

// AdminSource returns the admin cluster to ask for endpoints and how often: the first one that the global part or a
// rule names. An Envoy has one admin interface, so there is no need for more. ok is false when none is named.
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

// All returns the configurations of the set: those of the rules in their order, then the global one.
func (s *Set) All() []*Config {
	var all []*Config
	for i := range s.rules {
		all = append(all, &s.rules[i].config)
	}
	if s.global != nil {
		all = append(all, s.global)
	}
	return all
}
