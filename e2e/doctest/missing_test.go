package doctest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

const (
	wasmPath    = "resources[name=warmgate].typed_config.config"
	filtersPath = harness.ManagerPath + ".http_filters"
)

// without starts a gateway in front of two servers, with the shipped files changed by edit, and waits until it chooses.
func without(t *testing.T, config string, edit func(file string, doc *yaml.Node) error) *harness.Gateway {
	t.Helper()
	g := harness.StartT(t, harness.Options{Config: config, Edit: edit, Endpoints: harness.Models(t, 2)})
	harness.Await(t, func() error {
		if reason := send(t, g).Reason(); reason != "chosen" && reason != "body_late" {
			return fmt.Errorf("the reason is %s", reason)
		}
		return nil
	})
	return g
}

// send sends a chat request.
func send(t *testing.T, g *harness.Gateway) *harness.Answer {
	t.Helper()
	const body = `{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}`
	a := harness.Send(t, http.DefaultClient, http.MethodPost, g.URL()+"/v1/chat/completions", body)
	if a.Status != http.StatusOK && a.Status != http.StatusServiceUnavailable {
		t.Fatalf("%d: %s", a.Status, a.Body)
	}
	return a
}

func configured(unit string) string {
	return `{"lb_policy":"global_least_request","lb_config":{"unit":"` + unit +
		`","debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"}}}`
}

// TestMissingFlagAndLabels checks what docs/envoy.md and docs/metrics.md describe of an Envoy without
// allow_on_headers_stop_iteration and without stats_tags.
func TestMissingFlagAndLabels(t *testing.T) {
	harness.LongT(t)
	g := without(t, configured("tokens"), func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return harness.Remove(doc, "stats_config.stats_tags")
		case "warmgate.yaml":
			return harness.Remove(doc, wasmPath+".allow_on_headers_stop_iteration")
		}
		return nil
	})
	begun := time.Now()
	if reason := send(t, g).Reason(); reason != "body_late" {
		t.Errorf("unit tokens: reason %s, want body_late", reason)
	}
	if d := time.Since(begun); d < 200*time.Millisecond {
		t.Errorf("unit tokens: answered after %v, want at least most of body_timeout", d)
	}
	if err := g.PushPlugin(t.Context(), configured("requests")); err != nil {
		t.Fatal(err)
	}
	if reason := send(t, g).Reason(); reason != "chosen" {
		t.Errorf("unit requests: reason %s, want chosen", reason)
	}
	text := g.PrometheusT(t)
	if name := "policy___global_least_request___reason___chosen___warmgate_decisions_total"; !strings.Contains(text,
		"\n"+name+"{") {
		t.Errorf("no %s without stats_tags", name)
	}
	list := relabelings(t)
	for stat, want := range map[string]map[string]string{
		"warmgate_decisions_total":   {"policy": "global_least_request", "reason": "chosen"},
		"warmgate_inflight_requests": {"cluster": "llm", "endpoint": send(t, g).Header.Get("x-warmgate-host")},
	} {
		harness.Await(t, func() error { return relabeled(t, list, g.PrometheusT(t), stat, want) })
	}
}

// TestMissingSession checks what docs/envoy.md describes of an Envoy without stateful_session: the choice is lost, the
// second one serves, and the count follows.
func TestMissingSession(t *testing.T) {
	harness.LongT(t)
	g := without(t, configured("requests"), harness.OfFile("envoy.yaml", func(doc *yaml.Node) error {
		filters, err := harness.Find(doc, filtersPath)
		if err != nil {
			return err
		}
		var kept []*yaml.Node
		for _, f := range filters.Content {
			if name, err := harness.Find(f, "name"); err != nil || name.Value != "envoy.filters.http.stateful_session" {
				kept = append(kept, f)
			}
		}
		if len(kept) != len(filters.Content)-1 {
			t.Errorf("%d of %d filters left", len(kept), len(filters.Content))
		}
		filters.Content = kept
		return nil
	}))
	const moves = `^wasmcustom\.warmgate_lease_moves_total$`
	before := g.SumT(t, moves)
	const requests = 5
	for range requests {
		send(t, g)
	}
	if n := g.SumT(t, moves) - before; n != requests {
		t.Errorf("%v leases moved, want all %d", n, requests)
	}
}

// TestShadowBesideAPicker checks what docs/migration.md describes: in shadow mode another filter names the endpoint, as
// a picker behind ext_proc does, and what it names serves; Warmgate decides, and counts where requests are.
func TestShadowBesideAPicker(t *testing.T) {
	harness.LongT(t)
	models := harness.Models(t, 2)
	picked := models[1].Addr
	const header = "x-gateway-destination-endpoint"
	g := harness.StartT(t, harness.Options{
		Endpoints: models,
		Config:    strings.Replace(configured("requests"), `"debug_headers"`, `"shadow":true,"debug_headers"`, 1),
		Edit: func(file string, doc *yaml.Node) error {
			switch file {
			case "envoy.yaml":
				return harness.Set(doc, filtersPath+"[name=warmgate-take]", map[string]any{
					"name": "picker",
					"typed_config": map[string]any{
						"@type": "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
						"mutations": map[string]any{"request_mutations": []any{map[string]any{"append": map[string]any{
							"header":        map[string]any{"key": header, "value": picked},
							"append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
						}}}},
					},
				})
			case "clusters.yaml":
				return harness.Set(doc, "resources[name=llm].load_balancing_policy.policies[0].typed_extension_config."+
					"typed_config.override_host_sources", []any{map[string]any{"header": header}})
			}
			return nil
		},
	})
	harness.Await(t, func() error {
		if reason := send(t, g).Reason(); reason != "shadow" {
			return fmt.Errorf("the reason is %s", reason)
		}
		return nil
	})
	chosen := map[string]int{}
	const requests = 12
	before := g.DecidedT(t, "shadow")
	for range requests {
		a := send(t, g)
		chosen[a.Host()]++
		if id := a.Header.Get("x-sim-id"); id != "1" {
			t.Errorf("server %s has served, and the picker named 1", id)
		}
	}
	if n := g.DecidedT(t, "shadow") - before; n != requests || len(chosen) == 0 || chosen[""] > 0 {
		t.Errorf("%v of %d requests were decided in shadow mode, for %v", n, requests, chosen)
	}
	g.DrainedT(t)
}
