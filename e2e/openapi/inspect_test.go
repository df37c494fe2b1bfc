package openapi

import (
	"errors"
	"net/http"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// What a gateway shows of itself is as docs/inspect.yaml has it.
func TestInspect(t *testing.T) {
	const plugin = `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":4,"queue":{"max_wait":"1s"},
		"envoy":{"admin_cluster":"warmgate-admin","metrics_cluster":"warmgate-metrics"},
		"inspect":{"path":"/warmgate/inspect","token":"` + token + `"}}}`
	const path, body = "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"To be, or not to be."}]}`
	gw := harness.StartT(t, harness.Options{Config: plugin, Endpoints: harness.Models(t, 2)})
	doc, v := document(t, "docs/inspect.yaml", gw.URL())
	if ok, errs := v.ValidateDocument(); !ok || doc.GetVersion() != "3.1.0" {
		t.Fatalf("OpenAPI %s%s", doc.GetVersion(), list(errs))
	}
	c := &checker{t, v, gw.URL(), "/warmgate/inspect", map[string]bool{}}
	c.call("/state", "", http.StatusOK) // from now on somebody watches
	harness.Send(t, nil, http.MethodPost, gw.URL()+path, body)
	harness.Await(t, func() error {
		answer := c.call("/state?since=0", "", http.StatusOK)
		if list, _ := answer["decisions"].([]any); len(list) == 0 {
			return errors.New("no decision is shown")
		}
		return nil
	})
	c.call("/explain"+path, body, http.StatusOK)
	c.send("GET", "/state", "", "", false)
	c.send("GET", "/state?since=x", "Bearer "+token, "", false)
	for _, of := range []string{
		"GET /state 200", "POST /explain/v1/chat/completions 200", "GET /state 401", "GET /state?since=x 400",
	} {
		if !c.met[of] {
			t.Errorf("not met: %s in %v", of, c.met)
		}
	}
}
