package config

import "strings"

// Bounds of a weight. They keep products of weight and load far from the limits of a float64.
const (
	minWeight = 0.001
	maxWeight = 1000
)

const wantWeight = ", want a number from 0.001 to 1000"

func weight(p *parser, at string, v value) float64 {
	f, ok := v.float()
	if !ok || f < minWeight || f > maxWeight {
		p.badValue(at, v, wantWeight)
		return 1
	}
	return f
}

// setWeights reads {"ip:port": weight}, or {"cluster": weight}: which of them it must be is checked later.
func setWeights(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject {
		p.badValue(at, v, `, want an object like {"10.0.0.1:8000": 2}`)
		return
	}
	c.Weights = make(map[string]float64, len(v.names))
	for i, name := range v.names {
		place := at + "[" + quote(name) + "]"
		addr, ok := canonicalAddress(name)
		if !ok {
			addr = strings.Clone(name)
			c.named = append(c.named, addr)
		}
		if _, twice := c.Weights[addr]; twice {
			p.bad(place, "written twice")
			continue
		}
		c.Weights[addr] = weight(p, place, v.items[i])
	}
}
