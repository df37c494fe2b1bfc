package config

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
)

// Parse is Update of nothing.
func Parse(raw []byte, h Host) (*Set, error) {
	s, _, err := Update(raw, h, nil)
	return s, err
}

// Update parses a configuration. Its error contains every problem, one line each: its path, the value, and what is
// expected. If the set is nil, the text is not a configuration or none of its parts is valid. Otherwise the valid parts
// are in force, and each of the others in the last good form that before contains of it, or not at all.
//
// The forms that Update returns are those of the parts in force. They are for the next Update, and for another one of
// the same text, which then returns the same set.
func Update(raw []byte, h Host, before Forms) (*Set, Forms, error) {
	if len(raw) > maxBytes {
		return nil, nil, errors.New("config: " + strconv.Itoa(len(raw)) +
			" bytes, want at most " + strconv.Itoa(maxBytes))
	}
	text := string(raw)
	if strings.TrimSpace(text) == "" {
		return nil, nil, errors.New("config: empty, want at least " + smallest(h))
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, nil, errors.New("config: " + err.Error())
	}
	if root.kind != kindObject {
		return nil, nil, errors.New("config: " + noObject(root))
	}
	src := &source{parser: &parser{host: h, base: defaults(h)}, text: text}
	set, forms := src.set(root, before)
	if set != nil {
		set.warnings = src.warnings
	}
	if src.count > 0 {
		return set, forms, src.err()
	}
	return set, forms, nil
}

// smallest is the shortest configuration that is valid on the gateway.
func smallest(h Host) string {
	policy := strconv.Quote(policy.All()[0].Name)
	if h == Envoy {
		return `{"lb_policy":` + policy + `,"lb_config":{"envoy":{"admin_cluster":"..."}}}`
	}
	return `{"lb_policy":` + policy + `}`
}

// parser decodes values of one configuration.
type parser struct {
	findings
	host Host
	base Config // the defaults
}

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

// config decodes the keys of one part, without the object's keys for which skip returns true.
func (p *parser) config(v value, id int, prefix string, skip func(name string) bool) Config {
	pt := &part{parser: p, Config: p.base, prefix: prefix, written: map[string]bool{}, invalid: map[string]bool{}}
	pt.ID = id
	if !pt.isUnsupported(v) {
		pt.object("", v, skip)
		pt.check()
	}
	return pt.Config
}

// object decodes the keys of the section at path, "" for the top of the part.
func (pt *part) object(path string, v value, skip func(name string) bool) {
	seen := make(map[string]bool, len(v.names))
	for i, name := range v.names {
		if skip != nil && skip(name) {
			continue
		}
		full := name
		if path != "" {
			full = path + "." + name
		}
		shown, _ := cutGlued(full)
		at := pt.prefix + clip(printable(shown))
		if seen[name] {
			pt.bad(at, "written twice")
			continue
		}
		seen[name] = true
		pt.member(path, full, at, v.items[i])
	}
}

func (pt *part) member(path, full, at string, v value) {
	if k := find(full); k != nil && k.decodes() {
		if pt.written[full] { // in its section, and with dots in its name
			pt.bad(at, "written twice")
			return
		}
		pt.written[full] = true
		if k.only == onEnvoy && pt.host != Envoy {
			pt.bad(at, "only valid on stock Envoy; "+insteadOf(full))
			return
		}
		before := pt.count
		k.decode(pt.parser, &pt.Config, at, v)
		pt.invalid[full] = pt.count > before
		if k.NoEffect != "" && pt.count == before {
			pt.warn(at, k.NoEffect)
		}
		return
	}
	if !isSection(full) {
		pt.unknown(path, full, at, v.single() && v.kind != kindBool)
		return
	}
	if v.kind != kindObject {
		if full == "lb_config" && pt.host == Higress && v.single() && (v.kind != kindString || v.text == "") {
			pt.warn(at, "is "+v.kind.String()+", taken as empty")
			return
		}
		pt.bad(at, noObject(v))
		return
	}
	pt.object(full, v, nil)
}

// check compares the keys of a part with each other, and completes the Config.
func (pt *part) check() {
	if !pt.Enabled {
		return
	}
	if !pt.written["lb_policy"] {
		pt.badKey("lb_policy", "missing, want "+anyPolicy())
	}
	if pt.written["lb_config.maxRequestCount"] {
		if pt.written[keyMaxInflight] && pt.MaxInflight != pt.maxRequestCount {
			pt.badKey(keyMaxInflight, "got "+strconv.Itoa(pt.MaxInflight)+" and maxRequestCount "+
				strconv.Itoa(pt.maxRequestCount)+", which is the same thing; want one of them")
		}
		pt.MaxInflight = pt.maxRequestCount
	}
	pt.checkPush()
	pt.checkQueue()
	pt.checkStore()
	pt.checkHashed()
	pt.checkSession()
	pt.Policy = cmp.Or(policy.Describe(pt.Policy).Name, pt.Policy) // not one of its aliases
	pt.warnUnused()
	pt.checkLevel()
	pt.checkMetrics()
	pt.checkModels()
	pt.checkRegions()
	pt.checkAPI()
	pt.checkPolicy()
	pt.checkTokenCap()
	pt.settleMetricsID(pt.host)
	if pt.Health.MaxEjectionTime < pt.Health.EjectionTime {
		pt.badKey("lb_config.health.max_ejection_time", "got "+brief(pt.Health.MaxEjectionTime)+
			", want at least ejection_time, "+brief(pt.Health.EjectionTime))
	}
	if pt.host == Envoy {
		admin, fixed := pt.written[keyAdmin], pt.written["lb_config.envoy.endpoints"]
		switch {
		case pt.AmongClusters():
		case !admin && !fixed:
			pt.badKey("lb_config.envoy",
				"missing, want admin_cluster or endpoints: stock Envoy does not list endpoints otherwise")
		case admin && fixed:
			pt.badKey("lb_config.envoy", "got both admin_cluster and endpoints, want one of them")
		case fixed:
			pt.idle([]string{keyZones}, "has no effect with envoy.endpoints: their zones are not known")
		}
	}
}

// anyPolicy lists the policies: "a", "b" or "c".
func anyPolicy() string {
	var list strings.Builder
	policies := policy.All()
	for i, d := range policies {
		switch i {
		case 0:
		case len(policies) - 1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(strconv.Quote(d.Name))
	}
	return list.String()
}

// insteadOf returns what Higress has in place of a key of stock Envoy.
func insteadOf(name string) string {
	switch name {
	case keyTunnel:
		return "in Higress serviceFQDN names the Redis service"
	case keyZones:
		return "Higress does not report the zones of endpoints"
	}
	return "Higress lists the endpoints for plugins"
}

func find(name string) *key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func isSection(name string) bool {
	for i := range keys {
		if strings.HasPrefix(keys[i].Name, name) && strings.HasPrefix(keys[i].Name[len(name):], ".") {
			return true
		}
	}
	return false
}
