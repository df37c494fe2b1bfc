package helm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/kubectl-validate/pkg/openapiclient"
	"sigs.k8s.io/kubectl-validate/pkg/validator"

	"github.com/warmgate/warmgate/e2e/wasmplugin"
)

// The modules that have schemas, with their checksums as go.sum has them.
const (
	// Those of Envoy Gateway and of the Gateway API, as the chart that installs them.
	envoyGatewayModule = "github.com/envoyproxy/gateway@v1.9.1"
	envoyGatewaySum    = "h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY="
	// Those of Istio.
	istioModule = "istio.io/api@v1.31.1"
	istioSum    = "h1:5Yb5ihcz4YQsCkciusK7DnFpBMwRB6EFWeUKH1Atuyk="
	// Those of Prometheus's operator.
	operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorSum    = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
	// Those of KEDA.
	kedaModule = "github.com/kedacore/keda/v2@v2.17.2"
	kedaSum    = "h1:xlrcK5TKABJF9PebK79sgL07s/csGjL3H4m72OkZXxk="
)

// download returns the folder of a module, with the content that it has to have.
func download(module, sum string) (folder string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("helm: %s: %w", module, err)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		return "", fmt.Errorf("helm: %s: %w", module, err)
	}
	if got.Sum != sum {
		return "", fmt.Errorf("helm: %s has the checksum %s, want %s", module, got.Sum, sum)
	}
	return got.Dir, nil
}

// schemas returns the validator of the resources of Higress, of Istio, of Envoy Gateway, of the Gateway API, of
// Prometheus's operator and of KEDA.
var schemas = sync.OnceValues(func() (*validator.Validator, error) {
	folder, err := download(envoyGatewayModule, envoyGatewaySum)
	if err != nil {
		return nil, err
	}
	c, err := loader.Load(filepath.Join(folder, "charts/gateway-crds-helm"))
	if err != nil {
		return nil, err
	}
	on := map[string]any{"enabled": true}
	forGateways, _, err := template(c, map[string]any{"crds": map[string]any{
		"gatewayAPI": map[string]any{"enabled": true, "channel": "experimental"}, "envoyGateway": on,
	}})
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{"gateways.yaml": &fstest.MapFile{Data: []byte(forGateways)}}
	if folder, err = download(istioModule, istioSum); err != nil {
		return nil, err
	}
	operator, err := download(operatorModule, operatorSum)
	if err != nil {
		return nil, err
	}
	keda, err := download(kedaModule, kedaSum)
	if err != nil {
		return nil, err
	}
	crds := filepath.Join(operator, "example/prometheus-operator-crd")
	for name, path := range map[string]string{
		"podmonitors.yaml":     filepath.Join(crds, "monitoring.coreos.com_podmonitors.yaml"),
		"servicemonitors.yaml": filepath.Join(crds, "monitoring.coreos.com_servicemonitors.yaml"),
		"rules.yaml":           filepath.Join(crds, "monitoring.coreos.com_prometheusrules.yaml"),
		"scaledobjects.yaml":   filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml"),

		"istio.yaml": filepath.Join(folder, "kubernetes/customresourcedefinitions.gen.yaml"),
		// Of another origin than what e2e/wasmplugin knows of the resource.
		"higress.yaml": "testdata/higress.yaml",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return validator.New(openapiclient.NewLocalCRDFiles(files))
})

// invalid returns what the schema of a resource does not allow.
func invalid(t *testing.T, text []byte) error {
	t.Helper()
	s, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	_, object, err := s.Parse(text)
	if err != nil {
		return err
	}
	return s.Validate(object)
}

// validate compares a resource with its schema. Higress's are also read as Higress's controller and console do.
func validate(t *testing.T, r resource) {
	t.Helper()
	if err := invalid(t, text(t, r)); err != nil {
		t.Errorf("%s: %v\n%s", r["kind"], err, text(t, r))
	}
	if r["kind"] != "WasmPlugin" {
		return
	}
	w, err := wasmplugin.Parse(text(t, r))
	if err == nil {
		err = w.Shown()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestSchemas checks that a mistake is found in each kind of resource, and that all have a schema.
func TestSchemas(t *testing.T) {
	known := map[string]resource{}
	for _, r := range shipped(t, slices.Concat(forIstio, forEnvoyGateway, forHigress, forObservability)) {
		validate(t, r)
		known[r["kind"].(string)+" "+strings.Split(r["apiVersion"].(string), "/")[0]] = r
	}
	if len(known) != 17 {
		t.Errorf("%d kinds of resources", len(known))
	}
	for kind, r := range known {
		at(t, r, "spec").(map[string]any)["specialField"] = true
		if err := invalid(t, text(t, r)); err == nil || !strings.Contains(err.Error(), "specialField") {
			t.Errorf("%s: an unknown field is found as: %v", kind, err)
		}
	}
	for _, c := range [][2]string{
		{"higress/warmgate.yaml", "UNSPECIFIED_PHASE"},
		{"istio/warmgate.yaml", "EXTENSION_CONFIG"},
		{"envoy-gateway/warmgate.yaml", "LeastRequest"},
	} {
		found := 0
		for _, r := range shipped(t, []string{c[0]}, c[1], "MISTAKE") {
			if err := invalid(t, text(t, r)); err != nil && strings.Contains(err.Error(), "MISTAKE") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %d mistakes are found in place of %s, want 1", c[0], found, c[1])
		}
	}
}
