package helm

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestHelm4 renders the chart with the code of Helm 4: its resources are those of Helm 3, and it refuses mistakes, too.
func TestHelm4(t *testing.T) {
	c, err := loader.Load(harness.PathT(t, "deploy/helm"))
	if err != nil {
		t.Fatal(err)
	}
	render := func(values string) (string, error) {
		release := common.ReleaseOptions{Name: "warmgate", Namespace: "default", IsInstall: true}
		all, err := util.ToRenderValues(c, complete(given(t, values)), release, nil)
		if err != nil {
			return "", err
		}
		files, err := engine.Engine{Strict: true}.Render(c, all)
		var texts []string
		for name, text := range files {
			if !strings.HasSuffix(name, "NOTES.txt") && strings.TrimSpace(text) != "" {
				texts = append(texts, text)
			}
		}
		slices.Sort(texts)
		return strings.Join(texts, "\n---\n"), err
	}
	const ways = "\nredis: {enabled: true}\n" + image + policy
	for _, values := range []string{
		"gateway: istio", "gateway: envoy-gateway", "gateway: istio" + ways, "gateway: envoy-gateway" + ways,
		"gateway: higress\n" + image + policy,
		"gateway: higress\nhigress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache}}]}",
	} {
		got, err := render(values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		same(t, values, withoutKeep(t, read(t, []byte(got))), rendered(t, values))
	}
	for values, message := range map[string]string{
		"gateway: nginx":                              "'/gateway': value must be one of",
		"gateway: istio\nconfig: {lb_polcy: a}":       "'lb_polcy' not allowed",
		"gateway: istio\nconfig: {lb_type: endpoint}": "config has no lb_policy",
		"gateway: istio\nistio: {services: null}":     "'/istio",
		"gateway: istio\nistio: {selector: null}":     "'/istio",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s\ngot %v\nwant %s", values, err, message)
		}
	}
}
