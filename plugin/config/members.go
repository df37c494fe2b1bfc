package config

// config decodes the keys of one part, without the object's keys for which skip returns true.
func (p *parser) config(v value, id int, prefix string, skip func(name string) bool) Config {
	pt := &part{parser: p, Config: p.base, prefix: prefix, written: map[string]bool{}, invalid: map[string]bool{}}
	pt.ID = id
	switch {
	case pt.isUnsupported(v):
		return pt.Config
	case p.host == Higress && isPicker(v, prefix != "", skip):
		own, ok := readPicker(p, prefix, v, skip)
		if !ok {
			return pt.Config
		}
		pt.object("", own, nil)
	default:
		pt.object("", v, skip)
	}
	pt.check()
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
