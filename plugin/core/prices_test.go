package core

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Where models differ in what they cost, the body is read for the model, under a policy that does not need it, and for
// no more: what has no body, or does not say it, goes on without.
func TestBodiesAreReadForPrices(t *testing.T) {
	const unread = `{"lb_policy":"global_least_request","lb_config":{"telemetry":{"read_answers":false}`
	const by = unread + `,"prices":{"currency":"USD","models":{`
	for name, c := range map[string]struct {
		config, path, body string
		held               bool
	}{
		"by model":       {by + `"a*":{"input":1,"output":2}}}}}`, "", `{"model":"a1","prompt":"x"}`, true},
		"all alike":      {by + `"*":{"input":1,"output":2}}}}}`, "", `{"model":"a1","prompt":"x"}`, false},
		"without prices": {unread + `}}`, "", `{"model":"a1","prompt":"x"}`, false},
		"a list":         {by + `"a*":{"input":1,"output":2}}}}}`, "/v1/models", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := startFake(t, 1, 1, c.config)
			r := streamtest.Request{Path: c.path}
			if c.body != "" {
				r.Frames = []string{c.body}
			}
			s := d.client(0, r)
			if s.Upstream() < 0 {
				t.Fatalf("%+v", s.Result())
			}
			s.Head(200)
			s.Data(`{"choices":[{"text":"y"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
			s.Finish()
			if got := strings.Contains(d.access[0], " model=a1"); got != c.held {
				t.Errorf("the access log has %q, want a model in it: %v", d.access[0], c.held)
			}
			d.drained()
		})
	}
}

// Models that have prices by name have labels of their own before they are used, as long as a configuration has them.
func TestPricedModelsHaveLabels(t *testing.T) {
	const config = `{"lb_policy":"global_least_request","lb_config":{"prices":{"currency":"USD","models":` +
		`{"a":{"input":1,"output":2},"b*":{"input":1,"output":2}}}}}`
	d := startFake(t, 1, 1, config)
	label := func(model string) string { return d.workers[0].vm.Stats.ModelLabel(model) }
	if label("a") != "a" || label("b*") != "other" || label("b1") != "other" {
		t.Errorf("labels %q, %q and %q", label("a"), label("b*"), label("b1"))
	}
	if !d.configure(`{"lb_policy":"global_least_request"}`) {
		t.Fatal("refused")
	}
	d.advance(3 * time.Second)
	if label("a") != "other" {
		t.Errorf("the label is %q without a price", label("a"))
	}
}

// What requests cost is in the statistics, by model and tenant: by usage, by what has gone by when a client leaves, of
// its prompt alone if that was before the answer, and not at all for what was refused. Tokens of a model without a price
// are counted apart.
func TestCostsAreCounted(t *testing.T) {
	const config = `{"lb_policy":"global_least_request","lb_config":{"max_inflight":2,"prices":{"currency":"EUR",` +
		`"tenant_header":"x-tenant","models":{"a*":{"input":1,"cached":0.1,"output":4,"reasoning":8}}}}}`
	d := startFake(t, 1, 1, config)
	cost := func(model, tenant string) uint64 {
		d.advance(2 * time.Second)
		return d.Counter(stats.Cost + ";model=" + model + ";tenant=" + tenant + ";currency=EUR")
	}
	s := d.ofTenant("red", "a1")
	s.streams(30, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":30,"+
		"\"prompt_tokens_details\":{\"cached_tokens\":60},\"completion_tokens_details\":{\"reasoning_tokens\":10}}}\n\n")
	s.Finish()
	if got := cost("a1", "red"); got != 1000*(40+6+4*20+8*10) {
		t.Errorf("a stream with usage costs %d", got)
	}
	before := cost("a1", "red")
	first, second := d.ofTenant("red", "a1"), d.ofTenant("red", "a1")
	if refused := d.ofTenant("red", "a1"); refused.Result().Status != 429 {
		t.Fatalf("%+v", refused.Result())
	}
	first.leave()
	if got := cost("a1", "red") - before; got != 1000*100 { // as long a prompt as that of the one before
		t.Errorf("a refused request, and one whose client left before its answer, cost %d", got)
	}
	for name, n := range d.metrics.values {
		if strings.HasPrefix(name, stats.Unpriced) && n > 0 {
			t.Errorf("%s: %d tokens of a model that has a price", name, n)
		}
	}
	before = cost("a1", "red")
	second.streams(50, "")
	second.leave()
	if got := cost("a1", "red") - before; got < 1000*4*45 || got > 1000*(8*55+100) {
		t.Errorf("a stream of 50 tokens whose client left costs %d", got)
	}
	s = d.ofTenant("red", "b")
	s.streams(1, usageOf(100, 0, 30))
	s.Finish()
	if got := cost("b", "red"); got != 0 || d.Counter(stats.Unpriced+";model=b") != 130 {
		t.Errorf("a model without a price costs %d, %d tokens of it", got, d.Counter(stats.Unpriced+";model=b"))
	}
	d.drained()
}
