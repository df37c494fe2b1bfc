package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/setting"
)

// entries reads the entries of an object, each an object with the members of the key: {"name": {"weight": 3}}.
func (p *parser) entries(k *setting.Key, into setting.EntryMap, at string, v value) {
	like := `{"` + k.Of[0].Name + `": 1}`
	if v.kind != kindObject || len(v.names) == 0 || len(v.names) > k.Entries {
		what := got(v)
		if v.kind == kindObject {
			what += " with " + strconv.Itoa(len(v.names)) + " entries"
		}
		p.bad(at, what+", want an object with 1 to "+strconv.Itoa(k.Entries)+` like {"name": `+like+"}")
		return
	}
	seen := map[string]bool{}
	for i, name := range v.names {
		place, addr := at+"["+quote(name)+"]", name
		if a, ok := canonicalAddress(name); ok {
			addr = a
		}
		switch item := v.items[i]; {
		case seen[addr]:
			p.bad(place, "written twice")
		case item.kind != kindObject:
			p.bad(place, got(item)+", want an object like "+like)
		default:
			p.members(k.Of, into.Entry(strings.Clone(addr)), place, item)
		}
		seen[addr] = true
	}
}

// members reads an object whose members are described by keys into the settings.
func (p *parser) members(keys []setting.Key, settings any, at string, v value) {
	find := func(name string) int {
		return slices.IndexFunc(keys, func(k setting.Key) bool { return k.Name == name })
	}
	seen := p.eachMember(at, v, func(name, place string, item value) {
		if k := find(name); k >= 0 {
			p.decode(&keys[k], settings, place, item)
			return
		}
		names := make([]string, len(keys))
		for i := range keys {
			names[i] = keys[i].Name
		}
		p.unknownMember(name, place, names)
	})
	for i := range keys {
		switch k := &keys[i]; {
		case seen[k.Name]:
		case k.Required:
			p.bad(at+"."+k.Name, "missing, want "+wanted(k))
		default:
			p.setDefault(k, settings, at)
		}
	}
}

// eachMember has each member of an object read at its place, but what is written twice only once. It returns the names.
func (p *parser) eachMember(at string, v value, read func(name, place string, item value)) (seen map[string]bool) {
	seen = make(map[string]bool, len(v.names))
	for i, name := range v.names {
		place := at + "." + clip(printable(name))
		if seen[name] {
			p.bad(place, "written twice")
			continue
		}
		seen[name] = true
		read(name, place, v.items[i])
	}
	return seen
}

// unknownMember reports a member that is none of the known ones.
func (p *parser) unknownMember(name, place string, known []string) {
	p.bad(place, "unknown key, want "+oneOf(known)+DidYouMean(name, known))
}
