package placement

import (
	"testing"

	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
)

// counters are statistics by name.
type counters struct {
	names  []string
	values map[string]int64
}

func (c *counters) define(name string) uint32 {
	c.names = append(c.names, name)
	return uint32(len(c.names) - 1)
}
func (c *counters) Counter(name string) uint32   { return c.define(name) }
func (c *counters) Gauge(name string) uint32     { return c.define(name) }
func (c *counters) Histogram(name string) uint32 { return c.define(name) }
func (c *counters) Add(id uint32, n int64)       { c.values[c.names[id]] += n }
func (c *counters) Set(uint32, uint64)           {}

// What a request cost, and whose it was, whatever its model is.
func TestBill(t *testing.T) {
	const prices = `"prices":{"currency":"USD","tenant_header":"x-team","models":{` +
		`"gpt-*":{"input":0.15,"cached":0.075,"output":0.6,"reasoning":1},"free":{"input":0,"output":0}}}`
	used := measured.Tokens{Input: 1000, Cached: 3000, Output: 500, Reasoning: 200}
	for _, c := range []struct {
		config, model, currency string
		cost, unpriced          int64
	}{
		{prices, "gpt-4", "USD", 150_000 + 225_000 + 300_000 + 200_000, 0},
		{prices, "free", "USD", 0, 0},
		{prices, "llama", "", 0, 4700},
		{prices, "", "", 0, 4700}, // not known
		{`"max_inflight":1`, "gpt-4", "", 0, 0},
	} {
		set, err := config.Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+c.config+`}}`), config.Higress)
		if err != nil {
			t.Fatal(err)
		}
		statistics := &counters{values: map[string]int64{}}
		pl := &Placement{}
		pl.Shared = &Shared{Env: &host.Env{Stats: stats.New(statistics)}}
		pl.Config = set.Match("", "", "")
		pl.Request = &request.Request{Traits: request.Traits{Headers: [][2]string{{"x-team", "red"}}}}
		m := measured.Request{Model: c.model, Tokens: used}
		(&Serving{pl}).Bill(&m)
		if m.Cost != c.cost || m.Currency != c.currency || statistics.values[stats.Unpriced] != c.unpriced {
			t.Errorf("%s: %d %s, %d tokens without a price; want %+v", c.model, m.Cost, m.Currency,
				statistics.values[stats.Unpriced], c)
		}
		if (m.Tenant == "red") != (c.config == prices) {
			t.Errorf("%s: the tenant is %q", c.config, m.Tenant)
		}
	}
}
