package config

import "strconv"

const wantAddress = `, want "ip:port", IPv6 in brackets`

// setEndpoints reads ["ip:port", {"address": "ip:port", "weight": 2}].
func setEndpoints(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray || len(v.items) == 0 {
		p.badValue(at, v, `, want a list like ["10.0.0.1:8000"]`)
		return
	}
	seen := make(map[string]bool, len(v.items))
	for i, item := range v.items {
		place := at + "[" + strconv.Itoa(i) + "]"
		e, ok := endpoint(p, place, item)
		if !ok {
			continue
		}
		if seen[e.Addr] {
			p.bad(place, "got "+e.Addr+" twice")
			continue
		}
		seen[e.Addr] = true
		c.EnvoyCfg.Endpoints = append(c.EnvoyCfg.Endpoints, e)
	}
}

func endpoint(p *parser, at string, v value) (StaticEndpoint, bool) {
	e := StaticEndpoint{Weight: 1}
	if v.kind != kindObject {
		return e, address(p, at, v, &e)
	}
	ok, seen := false, make(map[string]bool, len(v.names))
	for i, name := range v.names {
		place := at + "." + clip(printable(name))
		switch {
		case seen[name]:
			p.bad(place, "written twice")
		case name == "address":
			ok = address(p, place, v.items[i], &e)
		case name == "weight":
			e.Weight = weight(p, place, v.items[i])
		default:
			p.bad(place, "unknown key"+DidYouMean(name, []string{"address", "weight"}))
		}
		seen[name] = true
	}
	if !seen["address"] {
		p.bad(at+".address", "missing"+wantAddress)
	}
	return e, ok
}

func address(p *parser, at string, v value, e *StaticEndpoint) bool {
	addr, ok := "", false
	if v.kind == kindString {
		addr, ok = canonicalAddress(v.text)
	}
	if !ok {
		p.badValue(at, v, wantAddress)
	}
	e.Addr = addr
	return ok
}
