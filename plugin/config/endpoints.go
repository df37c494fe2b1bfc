package config

import "strconv"

// Bounds of a weight. They keep products of weight and load far from the limits of a float64.
const (
	minWeight = 0.001
	maxWeight = 1000
)

const (
	wantAddress = `, want "ip:port", IPv6 in brackets`
	wantWeight  = ", want a number from 0.001 to 1000"
)

func weight(p *parser, at string, v value) float64 {
	f, ok := v.float()
	if !ok || f < minWeight || f > maxWeight {
		p.bad(at, got(v)+wantWeight)
		return 1
	}
	return f
}

// setWeights reads {"ip:port": weight}.
func setWeights(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject {
		p.bad(at, got(v)+`, want an object like {"10.0.0.1:8000": 2}`)
		return
	}
	c.Weights = make(map[string]float64, len(v.names))
	for i, name := range v.names {
		place := at + "[" + quote(name) + "]"
		addr, ok := canonicalAddress(name)
		if !ok {
			p.bad(place, "not an address"+wantAddress)
			continue
		}
		if _, twice := c.Weights[addr]; twice {
			p.bad(place, "written twice")
			continue
		}
		c.Weights[addr] = weight(p, place, v.items[i])
	}
}

// setEndpoints reads ["ip:port", {"address": "ip:port", "weight": 2}].
func setEndpoints(p *parser, c *Config, at string, v value) {
	if v.kind != kindArray || len(v.items) == 0 {
		p.bad(at, got(v)+`, want a list like ["10.0.0.1:8000"]`)
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
			p.bad(place, "unknown key"+didYouMean(name, []string{"address", "weight"}))
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
		p.bad(at, got(v)+wantAddress)
	}
	e.Addr = addr
	return ok
}
