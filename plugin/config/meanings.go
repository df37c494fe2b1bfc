package config

import (
	"cmp"
	"strings"
)

// meaning is a key or a section, or advice in place of one, and what people write who mean it: the names of other
// programs, of fields around a configuration, or of what they want to do. The names are in the form of plain, each
// between blanks.
type meaning struct{ key, names string }

// meanings are for names that resemble no key by their letters. On Higress, where ai-load-balancer ignores what it does
// not know, these are errors, too: ignored, they leave traffic touched otherwise than was meant.
var meanings = []meaning{
	{keyMaxWait + ", which is 0 without a queue", " enabled enable disabled disable "},
	{keyClassHeader, " priority "},
	{
		"lb_config.health.consecutive_failures: 0 and slow_start: 0 to switch it off",
		" enabled enable disabled disable ",
	},
	{
		"enabled, which says the opposite", " disable disabled off bypass defaultconfigdisable pause " +
			"paused suspend ",
	},
	{"enabled", " enable isenabled active activate "},
	{
		"lb_config.shadow", " dryrun dry observe observation monitor watch logonly reportonly audit simulate " +
			"simulation testmode testonly passive mirror preview readonly noop enforce enforced ",
	},
	{"_rules_, or matchRules of the resource beside its configuration", " matchrules routerules "},
	{"vmConfig of the resource beside its configuration", " vmconfig "},
	{"what is in it, without this key around it", " config defaultconfig pluginconfig spec "},
	{"_rules_[]._match_route_", " route routes ingress "},
	{"_rules_[]._match_domain_", " domain domains host hosts "},
	{"_rules_[]._match_service_", " service services "},
	{keyClusters, " services clusterlist upstreams "},
	{"lb_type", " type lblevel "},
	{"lb_policy", " algorithm strategy "},
	{
		keyMaxInflight, " concurrency maxconcurrency maxconcurrent maxconcurrentrequests concurrencylimit " +
			"maxrequests maxinflightrequests inflightlimit maxconnections ",
	},
	{keyMaxWait, " timeout wait waittime waittimeout maxwaittime queuetimeout maxqueuetime "},
	{"lb_config.queue.max_length", " maxsize maxqueue queuelength maxqueuelength maxqueuesize "},
	{keyClassHeader, " priorityheader "},
	{"lb_config.health", " healthcheck outlierdetection passivehealth circuitbreaker "},
	{"lb_config.health.consecutive_failures", " maxfailures failurethreshold consecutiveerrors consecutive5xx "},
	{"lb_config.health.ejection_time", " baseejectiontime "},
	{"lb_config.metrics.interval", " scrapeinterval pollinterval "},
	{"lb_config.redisKeyTTL", " ttl cachettl prefixttl "},
	{keySession, " sessionheader stickyheader sticky affinity hashkey "},
	{keyTunnel, redisNames},
	{keyService, redisNames},
	{keyPort, " port "},
}

// nearby is how many meanings are for the section of their key alone: elsewhere these names mean something else.
const nearby = 3

const redisNames = " redis rediscluster redishost redisaddr redisaddress redisurl redisserver redisservice " +
	"servicename "

// meant returns a hint at the key that the unknown key full probably stands for, by its full name unless it is in the
// same section.
func (pt *part) meant(path, full string) string {
	found := pt.intended(path, full)
	if found == "" {
		return ""
	}
	if name, ok := strings.CutPrefix(found, path+"."); ok && !strings.Contains(name, ".") {
		found = name
	}
	if pt.prefix != "" {
		found = strings.TrimPrefix(found, rulesKey+"[].")
	}
	return "; did you mean " + found + "?"
}

// intended returns what an unknown key is called: with one letter wrong in its section, or else a name for a key of
// that section, the name of a key in another section, one that resembles a key of its own, or a name for any key.
func (pt *part) intended(path, full string) string {
	name := strings.TrimPrefix(full[len(path):], ".")
	written, near := plain(clip(name)), nearest(name, pt.members(path))
	if near == name {
		near = ""
	}
	if near != "" && distance(written, plain(near)) < 2 {
		return near
	}
	for {
		here, anywhere := pt.meaningOf(written, path)
		if found := cmp.Or(here, pt.namesake(written, path, full), near, anywhere); found != "" {
			return found
		}
		bare := core(written)
		if bare == written {
			return ""
		}
		written = bare
	}
}

// members returns the names that a section contains.
func (pt *part) members(path string) (here []string) {
	for i := range keys {
		if rest, ok := cutSection(keys[i].Name, path); ok {
			member, _, _ := strings.Cut(rest, ".")
			here = append(here, member)
		}
	}
	if path == "" && pt.prefix != "" {
		here = append(here, conditionKeys...)
	}
	return here
}

// meaningOf returns the first key of the section, and the first one of any, that a name is for.
func (pt *part) meaningOf(written, path string) (here, anywhere string) {
	written = " " + written + " "
	for i := range meanings {
		m := &meanings[i]
		if !strings.Contains(m.names, written) || pt.useless(m.key) || tooHigh(m.key, path) {
			continue
		}
		if anywhere == "" && i >= nearby {
			anywhere = m.key
		}
		if rest, ok := cutSection(m.key, path); here == "" && ok && strings.IndexByte(rest, '.') < 0 {
			here = m.key
		}
	}
	return here, anywhere
}

// useless reports whether a key has an effect on the other kind of gateway only.
//
//go:noinline
func (pt *part) useless(name string) bool {
	if pt.host == Envoy {
		return name == keyService || name == keyPort || name == keyTimeout
	}
	return name == keyTunnel
}

// namesake returns the key or the section that is called so, the first one of those nearest to the top. A name is not
// of a region only: Higress's configurations may have their own.
func (pt *part) namesake(written, path, full string) (best string) {
	least := len(section) // more than there are levels
	for i := range keys {
		k, level := keys[i].Name, 0
		for end := 0; end <= len(k) && level < least; end++ {
			if end < len(k) && k[end] != '.' {
				continue
			}
			name := k[:end]
			if called(name, written) && name != full && name != keyRegionName && !pt.useless(name) &&
				!tooHigh(name, path) {
				best, least = name, level
			}
			level++
		}
	}
	return best
}

// tooHigh reports whether a key at the top is no hint in a section of lb_config: who writes enabled into that of health
// does not mean the whole plugin.
//
//go:noinline
func tooHigh(name, path string) bool {
	return strings.IndexByte(path, '.') > 0 && strings.IndexByte(name, '.') < 0
}

// called reports whether the full name of a key, or an end of it that begins with a section or the key itself, is what
// was written, apart from separators and case.
func called(name, written string) bool {
	left := len(written)
	for i := len(name) - 1; i >= 0; i-- {
		switch c := lower(name[i]); {
		case c == '.' && left == 0:
			return true
		case c == '.' || c == '_' || c == '-':
		case left == 0 || written[left-1] != c:
			return false
		default:
			left--
		}
	}
	return left == 0
}

// core cuts a word off a name that does not change what it means: shadow_mode, enable_shadow, redis_password.
func core(written string) string {
	for _, word := range around {
		if rest := strings.TrimPrefix(strings.TrimSuffix(written, word), word); rest != written {
			return rest
		}
	}
	return written
}

var around = []string{"enabled", "enable", "mode", "only", "traffic", "config", "settings", "is", "use", "lb", "redis"}

// cutSection cuts the section and its dot off a key's name.
//
//go:noinline
func cutSection(name, section string) (string, bool) {
	if section == "" {
		return name, true
	}
	return strings.CutPrefix(name, section+".")
}
