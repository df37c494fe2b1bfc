package config

import (
	"slices"
	"strings"
)

// unsupported are the policies of ai-load-balancer that this plugin does not have.
var unsupported = []string{"least_busy"}

// isUnsupported reports whether a part requires a policy that ai-load-balancer has and this plugin does not have. Its
// other keys belong to that policy.
func (pt *part) isUnsupported(v value) bool {
	const advice = "; ai-load-balancer can go on serving these requests"
	for i, name := range v.names {
		item := v.items[i]
		if name == "lb_policy" && item.kind == kindString && slices.Contains(unsupported, item.text) {
			pt.badKey(name, got(item)+", which is not in this version, want "+oneOf(policyNames())+advice)
			return true
		}
	}
	return false
}

// keyCritical is ai-load-balancer's for its policy least_busy: a list of models, ignored there with all other policies.
const keyCritical = "lb_config.criticalModels"

// maxUnknown is how many unknown keys of one part are compared with the known ones.
const maxUnknown = 16

// touchesLess is what to write in place of an unknown key that no list of words foresees.
const touchesLess = ", which may be meant to touch less; want lb_config.shadow to only watch, enabled: false to " +
	"switch off, or none"

// unknown reports an unknown key. Beside Higress's own keys a text or a number is only a warning, since
// ai-load-balancer ignores it, unless its key resembles a known one or means one. What else is ignored there may be a
// switch, or name what is to be touched: it would leave traffic touched otherwise than was meant.
func (pt *part) unknown(path, full, at string, ignorable bool) {
	pt.unknowns++
	name, glued := cutGlued(full)
	theirs := path == "lb_config" || path == "" && !strings.HasPrefix(name, "_")
	foreign := theirs && pt.host == Higress && pt.unknowns <= maxUnknown
	hint := ""
	if foreign || pt.count < pt.limit() { // else it will not be shown
		hint = pt.meant(path, name)
		if glued && (hint != "" || find(name) != nil || isSection(name)) {
			hint = blankMissing
		}
	}
	if foreign && hint == "" {
		if ignorable || full == keyCritical {
			pt.warn(at, "is no key of this plugin, and ignored as by ai-load-balancer")
			return
		}
		hint = touchesLess
	}
	pt.bad(at, "unknown key"+hint)
}

// cutGlued cuts off a key what was meant as its value, maybe a password: YAML takes "key:value" for a key alone.
//
//go:noinline
func cutGlued(name string) (key string, glued bool) {
	end := strings.IndexAny(name, ":=")
	if end < 0 {
		return name, false
	}
	return name[:end], true
}
