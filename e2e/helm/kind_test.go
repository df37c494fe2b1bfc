package helm

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kubectl-validate/pkg/openapiclient"
	"sigs.k8s.io/kubectl-validate/pkg/validator"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestKindExample compares the files of examples/kind with the schemas of Kubernetes and kind.
func TestKindExample(t *testing.T) {
	v, err := validator.New(openapiclient.NewHardcodedBuiltins("1.32"))
	if err != nil {
		t.Fatal(err)
	}
	resources := 0
	for _, file := range []string{"registry.yaml", "engines.yaml"} {
		for _, text := range bytes.Split(harness.ReadT(t, "examples/kind/"+file), []byte("\n---\n")) {
			resources++
			if _, object, err := v.Parse(text); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if err := v.Validate(object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if resources != 4 {
		t.Errorf("%d resources", resources)
	}
	var cluster v1alpha4.Cluster
	strict := yaml.NewDecoder(bytes.NewReader(harness.ReadT(t, "examples/kind/kind.yaml")))
	strict.KnownFields(true)
	if err := strict.Decode(&cluster); err != nil {
		t.Fatal(err)
	}
	if ports := cluster.Nodes[0].ExtraPortMappings; cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || len(ports) != 1 {
		t.Errorf("%+v", cluster)
	}
}

// TestKindGateway checks that Envoy Gateway's chart, with the value that the commands set, switches on what the
// resources need.
func TestKindGateway(t *testing.T) {
	folder, err := download(envoyGatewayModule, envoyGatewaySum)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(filepath.Join(folder, "charts/gateway-helm"))
	if err != nil {
		t.Fatal(err)
	}
	// The source has the defaults without a version of the image.
	defaults, err := os.ReadFile(filepath.Join(folder, "charts/gateway-helm/values.tmpl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.Values = given(t, string(defaults))
	document := string(harness.ReadT(t, "examples/kind/README.md"))
	value := regexp.MustCompile(`--set (\S+)`).FindStringSubmatch(document)
	values, err := strvals.Parse(value[1])
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "eg"}
	values, err = chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	on := func(text string) bool { return strings.Contains(text, "enableEnvoyPatchPolicy: true") }
	if !slices.ContainsFunc(slices.Collect(maps.Values(files)), on) {
		t.Errorf("%s switches nothing on", value[1])
	}
	if _, version, _ := strings.Cut(envoyGatewayModule, "@"); !strings.Contains(document, "--version "+version+" ") {
		t.Errorf("the document installs another version than %s", version)
	}
}
