package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
)

// TestEveryKey makes each key of a configuration an unknown one, one after another: it is found where it is, in JSON in
// a string of YAML and in the YAML of resources.
func TestEveryKey(t *testing.T) {
	key := regexp.MustCompile(`("?)\b([a-z][A-Za-z_]*)"?: `)
	free := []string{"interactive", "batch", "weight"} // names that users give, and what a class may leave out
	whole := regexp.MustCompile(`#|targets|adopt`)     // remarks, names, and what is refused as a whole
	changed := 0
	for _, name := range []string{
		overload, "envoy-config/warmgate-clusters.yaml", "envoy-config/warmgate-regions.yaml",
		"envoy-config/higress-wasmplugin-overload.yaml", "envoy-config/higress-wasmplugin-cluster-metrics.yaml",
		"envoy-config/higress-wasmplugin-budget.yaml", "deploy/istio/traffic-extension.yaml",
		"deploy/envoy-gateway/backends.yaml",
	} {
		text := harness.Own(string(harness.ReadT(t, name)))
		begin := strings.LastIndexByte(text[:strings.Index(text, "lb_policy")], '\n')
		end := len(text)
		if next := strings.Index(text[begin:], "\n---\n"); next > 0 {
			end = begin + next
		}
		for _, m := range key.FindAllStringSubmatchIndex(text[begin:end], -1) {
			at, word := begin+m[0], text[begin+m[4]:begin+m[5]]
			line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
			if slices.Contains(free, word) || whole.MatchString(line) {
				continue
			}
			changed++
			f := source.NewFile(name, []byte(text[:begin+m[4]]+"zz_"+text[begin+m[4]:]))
			found := File(f, Auto, true).Findings
			if !slices.ContainsFunc(found, func(one Finding) bool {
				return one.At == at && (one.Kind == "unknown-key" || one.Kind == "no-effect")
			}) {
				t.Errorf("%s: zz_%s is not found at %+v: %+v", name, word, f.Position(at), found)
			}
		}
	}
	if changed < 60 {
		t.Errorf("%d keys", changed)
	}
}
