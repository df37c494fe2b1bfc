package config

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/price"
)

// setPricedTenant reads the name of the header that names tenants. Its values become labels and go into the access log:
// so no header will do that has what a client proves itself with.
func setPricedTenant(p *parser, c *Config, at string, v value) {
	switch v.text {
	case "authorization", "cookie", "proxy-authorization", "x-api-key":
		p.badValue(at, v, ", want a header with the name of a tenant: this one has credentials, which would be shown "+
			"in statistics and logs")
		return
	}
	headerName(func(c *Config) *string { return &c.Prices.Header })(p, c, at, v)
}

// TenantRates returns at which rates, of how many tokens, the tokens of a request for the model are charged to its
// tenant, nil if each counts as one.
func (c *Config) TenantRates(model string) (r *price.Rates, per int64) {
	b := c.Budget()
	switch {
	case b == nil:
		return nil, 0
	case b.Weights.By == policy.ByPrices:
		if r = c.Prices.Table.Lookup(model); r == nil {
			return nil, 0
		}
		return r, r.Input
	}
	return b.Weights.Rates(), price.Nano
}

const (
	maxPriced      = 256 // models
	maxPricedName  = 256 // bytes
	currencyLength = 3

	wantPrice  = ", want a number from 0 to 1000000000 with at most 9 decimals, as a number or a string"
	wantPrices = `, want an object with 1 to 256 models like {"gpt-4o-mini": {"input": 0.15, "output": 0.6}}`
)

// setCurrency reads three capital letters.
func setCurrency(p *parser, c *Config, at string, v value) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if v.kind != kindString || len(v.text) != currencyLength || !isWord(v.text, letters, currencyLength) {
		p.badValue(at, v, `, want three capital letters of ISO 4217, such as "USD"`)
		return
	}
	c.Prices.Currency = strings.Clone(v.text)
}

// setPrices reads {"model": {"input": 0.15, "output": 0.6}}.
func setPrices(p *parser, c *Config, at string, v value) {
	if v.kind != kindObject || len(v.names) == 0 || len(v.names) > maxPriced {
		what := got(v)
		if v.kind == kindObject {
			what += " with " + strconv.Itoa(len(v.names)) + " entries"
		}
		p.bad(at, what+wantPrices)
		return
	}
	var table price.Table
	for i, name := range v.names {
		place := at + "[" + quote(name) + "]"
		switch _, valid := price.IsPattern(name); {
		case name == "" || len(name) > maxPricedName:
			p.bad(place, "no name of a model, want one of 1 to "+strconv.Itoa(maxPricedName)+" bytes")
			continue
		case !valid:
			p.bad(place, `matches no model: "`+price.Any+`" stands for more at the end of a name only`)
			continue
		}
		if !table.Add(strings.Clone(name), p.rates(place, v.items[i])) {
			p.bad(place, "written twice")
		}
	}
	c.Prices.Table = table
}

// rates reads the prices of a model.
func (p *parser) rates(at string, v value) (r price.Rates) {
	if v.kind != kindObject {
		p.badValue(at, v, `, want an object like {"input": 0.15, "output": 0.6}`)
		return r
	}
	known := make([]string, len(pricedKeys))
	into := []*int64{&r.Input, &r.Cached, &r.Output, &r.Reasoning} // as pricedKeys
	for i := range pricedKeys {
		known[i] = pricedKeys[i].Name
	}
	seen := p.eachMember(at, v, func(name, place string, item value) {
		for i := range known {
			if known[i] == name {
				p.price(into[i], place, item)
				return
			}
		}
		p.unknownMember(name, place, known)
	})
	for i := range pricedKeys {
		if pricedKeys[i].Required && !seen[known[i]] {
			p.bad(at+"."+known[i], "missing"+wantPrice)
		}
	}
	if !seen["cached"] {
		r.Cached = r.Input
	}
	if !seen["reasoning"] {
		r.Reasoning = r.Output
	}
	if r.Cached > r.Input && seen["input"] {
		p.warn(at+".cached",
			"is more than input: a prompt that is found in a cache would cost more than one that is not")
	}
	return r
}

// price reads the price of a million tokens.
func (p *parser) price(into *int64, at string, v value) {
	nano, ok := price.Parse(v.text)
	if !ok || v.kind != kindNumber && v.kind != kindString {
		p.badValue(at, v, wantPrice)
		return
	}
	*into = nano
}

// checkPrices compares what tokens cost with what depends on it.
func checkPrices(pt *part) {
	priced := pt.Prices.Table.Len() > 0 || pt.invalid[keyPrices]
	switch {
	case !priced:
		pt.idle([]string{keyCurrency, keyPricedTenant}, "has no effect without prices.models")
		pt.Prices.Currency = ""
	case pt.Prices.Currency == "" && !pt.invalid[keyCurrency]:
		pt.badKey(keyCurrency, `missing, want that of prices.models, such as "USD"`)
	}
	b := pt.Budget()
	if priced && !pt.Telemetry.Enabled && (b == nil || b.Weights.By != policy.ByPrices) {
		pt.idle([]string{keyPrices}, "has no effect without telemetry.enabled: no request is measured")
	}
	if b == nil || b.Weights.By != policy.ByPrices || !b.Tenants.Limited() || pt.invalid[keyPrices] {
		return
	}
	if !priced {
		pt.badKey(keyWeighBy, `got "prices" without prices.models, want these, or tenants.weights in place of it`)
		return
	}
	if name := pt.Prices.Table.Free(); name != "" {
		pt.badKey(keyWeighBy, `got "prices", and input of `+quote(name)+
			" costs nothing, want a price above 0: tokens are weighed by how many of input cost the same")
	}
}
