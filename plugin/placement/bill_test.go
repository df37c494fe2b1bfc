package placement

import (
	"testing"

	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/request"
)

// What a request cost, and whose it was, whatever its model is.
func TestBill(t *testing.T) {
	const prices = `"prices":{"currency":"USD","tenant_header":"x-team","models":{` +
		`"gpt-*":{"input":0.15,"cached":0.075,"output":0.6,"reasoning":1},"free":{"input":0,"output":0}}}`
	used := price.Tokens{Input: 1000, Cached: 3000, Output: 500, Reasoning: 200}
	for _, c := range []struct {
		config, model, currency string
		cost                    int64
		unpriced                bool
	}{
		{prices, "gpt-4", "USD", 150_000 + 225_000 + 300_000 + 200_000, false},
		{prices, "free", "USD", 0, false},
		{prices, "llama", "", 0, true},
		{prices, "", "", 0, true}, // not known
		{`"max_inflight":1`, "gpt-4", "", 0, false},
	} {
		set, err := config.Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+c.config+`}}`), config.Higress)
		if err != nil {
			t.Fatal(err)
		}
		pl := &Placement{}
		pl.Config = set.Match("", "", "")
		pl.Request = &request.Request{Traits: request.Traits{Headers: [][2]string{{"x-team", "red"}}}}
		m := measured.Request{Model: c.model, Tokens: used}
		Bill(pl, &m)
		asked := measured.Request{Asked: c.model, Tokens: used} // no endpoint has answered for the name
		if Bill(pl, &asked); asked.Cost != m.Cost || asked.Unpriced != m.Unpriced {
			t.Errorf("%s that was asked for: %d, without a price: %v", c.model, asked.Cost, asked.Unpriced)
		}
		if m.Cost != c.cost || m.Currency != c.currency || m.Unpriced != c.unpriced {
			t.Errorf("%s: %d %s, without a price: %v; want %+v", c.model, m.Cost, m.Currency, m.Unpriced, c)
		}
		if (m.Tenant == "red") != (c.config == prices) {
			t.Errorf("%s: the tenant is %q", c.config, m.Tenant)
		}
	}
}
