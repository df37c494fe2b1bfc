package config

import "slices"

// part is one Config under construction: the global part or one rule.
type part struct {
	*parser
	Config
	prefix   string          // of the part's keys in messages: "" or "_rules_[0]."
	written  map[string]bool // names of the keys met, good or bad
	invalid  map[string]bool // of these, the bad ones
	unknowns int             // unknown keys met
}

// badKey adds a problem at a key of the part.
//
//go:noinline
func (pt *part) badKey(name, what string) { pt.bad(pt.prefix+name, what) }

// idle warns of the keys that are written without effect.
//
//go:noinline
func (pt *part) idle(names []string, why string) {
	for _, name := range names {
		if pt.written[name] {
			pt.warn(pt.prefix+name, why)
		}
	}
}

// calls reports whether the plugin makes calls of its own through the cluster.
func (pt *part) calls(cluster string) bool {
	return slices.Contains(pt.callClusters(), cluster)
}
