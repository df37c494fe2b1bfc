package envoygateway

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestValidate has Envoy Gateway compare each file with the schemas of its resources; TestBackends has it judge the one
// for a newer release.
func TestValidate(t *testing.T) {
	files, err := filepath.Glob(harness.PathT(t, "deploy/envoy-gateway/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "backends.yaml" {
			continue
		}
		if out := egctl(t, "x", "validate", "-f", file); !strings.Contains(out, "OK") {
			t.Errorf("%s: %s", filepath.Base(file), out)
		}
	}
	// What a mistake looks like, so that "OK" means something.
	mistake := read(t, "warmgate.yaml")
	set(t, find(t, mistake, "BackendTrafficPolicy"), "Fewest", "spec", "loadBalancer", "type")
	file := filepath.Join(t.TempDir(), "mistake.yaml")
	write(t, file, mistake)
	if out := egctl(t, "x", "validate", "-f", file); !strings.Contains(out, "loadBalancer.type") {
		t.Errorf("a mistake is not found: %s", out)
	}
}

// service stands for the model servers, as egctl knows only their service.
const service = `
apiVersion: v1
kind: Service
metadata: {name: vllm, namespace: default}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 8000, protocol: TCP}]
`

// TestAccepted has Envoy Gateway judge all resources together: it accepts each but the EnvoyExtensionPolicy, whose
// module only a running control plane can fetch.
func TestAccepted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.yaml")
	all := append(append(read(t, "gateway.yaml"), read(t, "route.yaml")...), read(t, "warmgate.yaml")...)
	write(t, file, append(all, parse(t, service)...))
	out := egctl(t, "x", "translate", "--from", "gateway-api", "--to", "gateway-api", "-o", "json", "-f", file)
	var result map[string]any
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	for kind, path := range map[string][]any{
		"gatewayClass":           {"gatewayClass", "status", "conditions"},
		"gateways":               {"gateways", 0, "status", "listeners", 0, "conditions"},
		"httpRoutes":             {"httpRoutes", 0, "status", "parents", 0, "conditions"},
		"clientTrafficPolicies":  {"clientTrafficPolicies", 0, "status", "ancestors", 0, "conditions"},
		"backendTrafficPolicies": {"backendTrafficPolicies", 0, "status", "ancestors", 0, "conditions"},
		"envoyPatchPolicies":     {"envoyPatchPolicies", 0, "status", "ancestors", 0, "conditions"},
		"envoyExtensionPolicies": {"envoyExtensionPolicies", 0, "status", "ancestors", 0, "conditions"},
	} {
		for _, c := range at(t, result, path...).([]any) {
			c := c.(map[string]any)
			good := c["status"] == "True"
			if kind == "envoyExtensionPolicies" {
				good = strings.Contains(c["message"].(string), "wasm cache is not initialized")
			}
			if !good {
				t.Errorf("%s: %v", kind, c)
			}
		}
	}
}
