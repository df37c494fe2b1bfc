package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
)

// Forms are the texts of the valid parts of a configuration, by a hash of the requests that they are for. With those of
// the previous configuration, a part that is refused stays in force in its last good form.
type Forms map[uint64]string

// maxKept is the maximum size of the forms of refused parts, in bytes. The other forms are in the configuration itself.
const maxKept = maxBytes

// Append appends the forms to dst, in the order of their hashes: the hash u64, the length of the text u32, the text.
func (f Forms) Append(dst []byte) []byte {
	w := wire.Writer(dst)
	for _, id := range order.Keys(f) {
		w = w.Uint64(id).Uint32(uint32(len(f[id]))).Raw(f[id])
	}
	return w
}

// ParseForms reads what Append has written. What cannot be read is left out.
func ParseForms(raw []byte) Forms {
	f := Forms{}
	for r := wire.NewReader(raw); r.Len() > 0; {
		id, text := r.Uint64(), r.Take(int(r.Uint32()))
		if r.OK() {
			f[id] = string(text)
		}
	}
	return f
}

// draft is a part that is being read.
type draft struct {
	rule         // its config, and for a rule its conditions
	at    string // "" for the global part, or "_rules_[0]"
	id    uint64 // hash of its conditions, at any place in the list; 0 for a rule that no request can reach
	form  string // its text
	bad   bool
	kept  bool // the config is that of an earlier form
	fixed bool // it has not changed since it was last good
}

func (d *draft) prefix() string {
	if d.at == "" {
		return ""
	}
	return d.at + "."
}

// source is the text of a configuration, whose parts are being read.
type source struct {
	*parser
	text  string
	first map[string]string // the first rule for a name, by the kind of condition and the name
}

// set reads the parts of a configuration. It returns nil when none of them is good.
func (src *source) set(root value, before Forms) (*Set, Forms) {
	drafts, ok := src.drafts(root)
	if !ok {
		return nil, nil
	}
	for i := range drafts {
		d := &drafts[i]
		d.fixed = before[d.id] == d.form
	}
	seen := &agreed{host: src.host, logins: map[Redis]Redis{}, regions: map[string]*Regions{}}
	for _, fixed := range [2]bool{true, false} { // so that no new part can push out one that works
		for i := range drafts {
			if d := &drafts[i]; !d.bad && d.fixed == fixed {
				d.bad = !seen.admit(src.parser, d)
			}
		}
	}
	if !slices.ContainsFunc(drafts, func(d draft) bool { return !d.bad }) {
		return nil, nil
	}
	apis := refusedAPIs(drafts)
	src.keep(drafts, before, seen)
	s, forms := src.assemble(&root, drafts)
	s.refusedAPIs = apis
	return s, forms
}

func refusedAPIs(drafts []draft) (paths APIPaths) {
	for i := range drafts {
		if d := &drafts[i]; d.bad {
			paths = append(paths, findAPIs(d.form)...)
		}
	}
	return paths
}

// keep replaces refused parts by their last good forms.
func (src *source) keep(drafts []draft, before Forms, seen *agreed) {
	room := maxKept
	for i := range drafts {
		d := &drafts[i]
		form, known := before[d.id]
		if !d.bad || d.id == 0 || !known || len(form) > room {
			continue
		}
		v, err := parseJSON(form)
		if err != nil || v.kind != kindObject {
			continue
		}
		silent := &parser{host: src.host, base: src.base}
		earlier := *d
		earlier.config = silent.config(v, d.config.ID, d.prefix(), func(name string) bool {
			return src.isForeign(name) || isCondition(name)
		})
		if silent.count == 0 && seen.admit(silent, &earlier) {
			room -= len(form)
			d.config, d.form, d.kept = earlier.config, form, true
		}
	}
}

// assemble makes the set of the parts that are valid, kept or refused.
func (src *source) assemble(root *value, drafts []draft) (*Set, Forms) {
	s, forms := &Set{host: src.host, byRoute: map[string]int{}}, Forms{}
	for i := range drafts {
		d := &drafts[i]
		if d.bad {
			s.refusals = append(s.refusals, Refusal{d.name(), d.kept})
		}
		if d.bad && !d.kept {
			d.config = Config{ID: d.config.ID, Refused: true}
		} else if d.id != 0 {
			forms[d.id] = d.form
		}
		if d.at == "" {
			global := d.config
			s.global = &global
			continue
		}
		s.add(d.rule)
	}
	s.claim(root)
	return s, forms
}

// name returns the place of a part and its conditions.
func (d *draft) name() string {
	if d.at == "" {
		return "the global part"
	}
	if d.keys() == "" {
		return d.at + ", which matches nothing"
	}
	return d.at + " for " + clip(printable(d.keys()))
}

// keys returns the conditions of a rule as text: the same for the same names in any order, "" if it matches nothing.
func (r *rule) keys() string {
	switch {
	case r.routes != nil && (len(r.routes) == 0 || r.services != nil && len(r.services) == 0):
		return ""
	case r.routes == nil && r.domains != nil && len(r.domains) == 0:
		return ""
	}
	var domains, services []string
	for _, d := range r.domains {
		domains = append(domains, d.String())
	}
	for _, s := range r.services {
		services = append(services, s.whole)
	}
	text := ""
	for _, list := range []struct {
		kind  string
		names []string
	}{{"route", r.routes}, {"route prefix", r.prefixes}, {"domain", domains}, {"service", services}} {
		names := slices.Clone(list.names)
		order.Up(names)
		names = slices.Compact(names)
		if len(names) == 0 {
			continue
		}
		if text != "" {
			text += " and "
		}
		text += list.kind + " " + strings.Join(names, ", ")
	}
	return text
}

// isForeign reports whether a key of the whole configuration is Higress's, and so none of the global part.
func (src *source) isForeign(name string) bool {
	return name == rulesKey || src.host == Higress && name == pluginIDKey
}

// drafts decodes the global part, if there is one, and the rules. It returns false if the parts cannot be separated.
func (src *source) drafts(root value) ([]draft, bool) {
	var rules *value
	own := 0 // keys of the global part
	for i, name := range root.names {
		switch {
		case !src.isForeign(name):
			own++
		case name == pluginIDKey:
		case rules != nil:
			src.bad(rulesKey, "written twice")
			return nil, false
		default:
			rules = &root.items[i]
		}
	}
	var list []draft
	if own > 0 || rules == nil || rules.kind == kindArray && len(rules.items) == 0 {
		d := draft{id: xxhash.Sum64String("global"), form: src.text[root.from:root.to]}
		if rules != nil { // which are no part of it
			d.form = src.text[root.from:rules.from] + "[]" + src.text[rules.to:root.to]
		}
		src.try(&d, func() { d.config = src.config(root, 0, "", src.isForeign) })
		list = append(list, d)
	}
	if rules == nil {
		return list, true
	}
	more, ok := src.rules(*rules)
	src.warnEmpty(own > 0 && !isPicker(root, false, src.isForeign), more, rules.items)
	return append(list, more...), ok
}

// warnEmpty warns of rules without keys beside parts that have keys of this plugin: a rule that stands for the best
// default may as well be one whose lb_policy was forgotten. own: the global part has such keys.
func (src *source) warnEmpty(own bool, rules []draft, items []value) {
	own = own || slices.ContainsFunc(items, func(v value) bool { return !isPicker(v, true, isCondition) })
	for i := range rules {
		isEmpty := !slices.ContainsFunc(items[i].names, func(name string) bool { return !isCondition(name) })
		if d := &rules[i]; own && isEmpty && !d.bad {
			src.warn(d.prefix()+"lb_policy", `is missing, taken as "prefix_cache" with push "pending", as for an `+
				"InferencePool, though other parts have keys of this plugin")
		}
	}
}

// try decodes a part and records whether it is valid. A refused part has no warnings.
func (src *source) try(d *draft, read func()) {
	problems, warnings := src.count, len(src.warnings)
	read()
	if d.bad = src.count > problems; d.bad {
		src.warnings = src.warnings[:warnings]
	}
}

func (src *source) rules(v value) ([]draft, bool) {
	if v.kind != kindArray {
		src.bad(rulesKey, got(v)+", want an array of objects")
		return nil, false
	}
	if len(v.items) > maxRules {
		src.bad(rulesKey, "got "+strconv.Itoa(len(v.items))+" rules, want at most "+strconv.Itoa(maxRules))
		return nil, false
	}
	list, met := make([]draft, len(v.items)), map[uint64]bool{}
	src.first = map[string]string{}
	for i, item := range v.items {
		d := &list[i]
		d.at, d.form, d.config.ID = rulesKey+"["+strconv.Itoa(i)+"]", src.text[item.from:item.to], i+1
		src.try(d, func() {
			if item.kind != kindObject {
				src.bad(d.at, noObject(item))
				return
			}
			d.rule = src.conditions(d.at, item)
			d.config = src.config(item, i+1, d.prefix(), isCondition)
			src.outranked(d)
		})
		// Of rules for the same, only the first is ever reached.
		if id := xxhash.Sum64String("rule " + d.keys()); d.keys() != "" && !met[id] {
			d.id, met[id] = id, true
		}
	}
	return list, true
}

// agreed is what the parts of a configuration must have in common.
type agreed struct {
	host   Host
	admin  string // an Envoy has one admin interface
	logins map[Redis]Redis
	// regions are known by their names to all workers, and what is known of their peers as well.
	regions map[string]*Regions
	apis    []string // paths of admission APIs
	inspect *Inspect // where the gateway shows what it knows: it is one
}

// admit adds a part, or reports how it contradicts those that were added.
func (a *agreed) admit(p *parser, d *draft) bool {
	c, before := &d.config, p.count
	if name := c.EnvoyCfg.AdminCluster; name != "" && a.admin != "" && name != a.admin {
		p.bad(d.prefix()+"lb_config.envoy.admin_cluster", "got "+quote(name)+", want "+quote(a.admin)+
			" as elsewhere: Envoy has one admin interface")
	}
	where, how := login(a.host, c.Redis)
	if other, used := a.logins[where]; used && c.UsesRedis() {
		if what := differs(other, how); what != "" {
			p.badLogin(d.prefix(), how, what)
		}
	}
	regions := c.Enabled && c.Regions.Enabled()
	if other := a.regions[c.Regions.Name]; regions && other != nil && !other.SameBoard(&c.Regions) {
		p.bad(d.prefix()+"lb_config.regions", "got another "+other.differs(&c.Regions)+" for "+quote(other.Name)+
			" than elsewhere, want the same: all rules share what is known of other regions")
	}
	hasAPI := c.Enabled && c.API.Path != ""
	apis := a.apis
	if a.inspect != nil {
		apis = append(slices.Clip(apis), a.inspect.Path)
	}
	if other := overlap(c.API.Path, apis); hasAPI && other != "" {
		p.bad(d.prefix()+keyAPIPath, "got "+quote(c.API.Path)+" beside "+quote(other)+
			" elsewhere, want paths of which none begins with another one")
	}
	a.admitInspect(p, d)
	if p.count > before {
		return false
	}
	if c.Enabled && c.Inspect.Path != "" {
		a.inspect = &c.Inspect
	}
	if hasAPI {
		a.apis = append(a.apis, c.API.Path)
	}
	if regions {
		a.regions[c.Regions.Name] = &c.Regions
	}
	if a.admin == "" {
		a.admin = c.EnvoyCfg.AdminCluster
	}
	if c.UsesRedis() {
		a.logins[where] = how
	}
	return true
}

// admitInspect reports how where a part has the gateway show what it knows contradicts others.
func (a *agreed) admitInspect(p *parser, d *draft) {
	in, paths := &d.config.Inspect, a.apis
	if !d.config.Enabled || in.Path == "" {
		return
	}
	if path := d.config.API.Path; path != "" {
		paths = append(slices.Clip(paths), path)
	}
	if other := overlap(in.Path, paths); other != "" {
		p.bad(d.prefix()+keyInspectPath, "got "+quote(in.Path)+" beside "+quote(other)+
			" of the admission API, want paths of which none begins with the other one")
	}
	if a.inspect != nil && *in != *a.inspect {
		p.bad(d.prefix()+"lb_config.inspect", "got another path or token than elsewhere, want the same: "+
			"a gateway has one")
	}
}
