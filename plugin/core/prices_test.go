package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// Where models differ in what they cost, the body is read for the model, under a policy that does not need it, and for
// no more: what has no body, or does not say it, goes on without.
func TestBodiesAreReadForPrices(t *testing.T) {
	const by = `{"lb_policy":"global_least_request","lb_config":{"prices":{"currency":"USD","models":{`
	for name, c := range map[string]struct {
		config, path, body string
		held               bool
	}{
		"by model":       {by + `"a*":{"input":1,"output":2}}}}}`, "", `{"model":"a1","prompt":"x"}`, true},
		"all alike":      {by + `"*":{"input":1,"output":2}}}}}`, "", `{"model":"a1","prompt":"x"}`, false},
		"without prices": {`{"lb_policy":"global_least_request"}`, "", `{"model":"a1","prompt":"x"}`, false},
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
