package main

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
)

// TestHigressLoadsImages pushes the images to a registry, fetches both forms by Higress's rules, as the url of the
// shipped WasmPlugin names them, and has Higress's test host run what came with the configuration of that resource.
func TestHigressLoadsImages(t *testing.T) {
	a := packedT(t)[1]
	registry := registryT(t) + "/warmgate"
	if err := push(t.Context(), registry, []*artifact{a}); err != nil {
		t.Fatal(err)
	}
	resource, err := wasmplugin.Parse(harness.ReadT(t, "deploy/higress/warmgate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := resource.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	shipped := path.Base(resource.Spec.URL)
	if want := a.name + ":" + a.version; shipped != want {
		t.Fatalf("the resource names %s, this is %s", shipped, want)
	}
	higress := slices.IndexFunc(fetchers, func(f fetcher) bool { return f.gateway == "Higress" })
	for i := range a.images {
		tag := a.images[i].tag
		t.Run(tag, func(t *testing.T) {
			url := "oci://" + registry + "/" + strings.Replace(shipped, a.version, tag, 1)
			module, err := fetchers[higress].fetch(t.Context(), url, "")
			if err != nil {
				t.Fatal(err)
			}
			balancesHeld(t, module, string(config))
		})
	}
}

// balancesHeld has Higress's host run the module, and fails unless a request whose body the plugin waits for goes to
// the endpoint that the plugin chooses. The module for stock Envoy refuses the configuration.
func balancesHeld(t *testing.T, module []byte, config string) {
	t.Helper()
	gw := higresshost.Start(t, higresshost.Options{Wasm: module, Config: config})
	const endpoint = "10.0.0.1:8000"
	gw.Cluster("llm").Add(endpoint)
	s := gw.Worker(0).NewStream().To("completions", "llm") // the resource's rule for this route has unit: tokens
	s.Send(http.MethodPost, "/v1/completions", `{"model":"m","prompt":"Hello"}`)
	if s.Upstream() != endpoint {
		t.Fatalf("the request went to %q", s.Upstream())
	}
	s.Respond(http.StatusOK, "{}")
	const chosen = "warmgate_decisions_total;policy=global_least_request;reason=chosen"
	if n := gw.Metrics().Counter(chosen); n != 1 {
		t.Errorf("%d requests chosen, %v", n, gw.Metrics().Names())
	}
}
