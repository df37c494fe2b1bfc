package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

// With `only` requests are left to the gateway, however many there are and whatever tasks run: none is counted at a
// target, charged or refused. Without it they take what tasks need.
func TestOnlyTheAPI(t *testing.T) {
	for only, want := range map[bool]string{true: "disabled", false: "chosen"} {
		config := apiConfig("")
		if only {
			config = strings.Replace(config, `"api":{`, `"api":{"only":true,`, 1)
		}
		d := startSites(t, 2, config)
		d.anyCluster = true
		for range 3 {
			body := d.call(0, "/schedule", `{"estimated_tokens":180000}`).Result().Body
			if !strings.Contains(body, "task_id") {
				t.Fatalf("only %v: %s", only, body)
			}
		}
		refused := 0
		var requests []*fakeStream
		for i := range 40 {
			c := d.client(i%2, streamtest.Request{Method: "POST", Path: "/v1/chat/completions", Frames: []string{`{}`}})
			requests = append(requests, c)
			if c.Result().Status != 0 {
				refused++
			}
		}
		if (refused == 0) != only {
			t.Errorf("only %v: %d requests are refused", only, refused)
		}
		if n := d.Counter("warmgate_decisions_total;policy=token_budget;reason=" + want); (n == 40) != only || n == 0 {
			t.Errorf("only %v: %d are counted as %s", only, n, want)
		}
		after := d.call(1, "/schedule", `{"estimated_tokens":1}`).Result().Body
		if strings.Contains(after, "task_id") != only {
			t.Errorf("only %v: with 40 requests in flight a task is answered %s", only, after)
		}
		for _, c := range requests {
			if c.Result().Status == 0 {
				c.Finish()
			}
		}
	}
}

// A rule without `api` has the requests of its route shared out, beside a global part that is for tasks alone.
func TestOnlyTheAPIBesideARule(t *testing.T) {
	const targets = `"lb_type":"cluster","lb_policy":"token_budget","lb_config":{"targets":{"a":{"weight":1}}`
	rule := `{"_match_route_":["` + fakeRoute + `"],` + targets + `}}`
	for rules, want := range map[string]string{"": "disabled", `,"_rules_":[` + rule + `]`: "chosen"} {
		d := startSites(t, 1, `{`+targets+`,"api":{"only":true,"path":"`+apiPath+`","token":"`+apiToken+`"}}`+rules+`}`)
		d.anyCluster = true
		c := d.client(0, streamtest.Request{Method: "POST", Path: "/v1/chat/completions", Frames: []string{`{}`}})
		c.Finish()
		if n := d.Counter("warmgate_decisions_total;policy=token_budget;reason=" + want); n != 1 {
			t.Errorf("with rules %q: %d requests are counted as %s", rules, n, want)
		}
	}
}
