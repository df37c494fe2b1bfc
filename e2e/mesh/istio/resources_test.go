package istio

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	schemas "istio.io/istio/pkg/config/crd"
	"istio.io/istio/pkg/config/schema/collections"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

const folder = "deploy/istio/"

// files are those of deploy/istio, in the order in which they are applied.
var files = []string{
	"warmgate.yaml", "service.yaml", "route.yaml", "metrics.yaml", "redis.yaml", "traffic-extension.yaml",
	"access-log.yaml", "tracing.yaml",
}

// read returns the text of a file of deploy/istio.
func read(t *testing.T, name string) string {
	t.Helper()
	return string(harness.ReadT(t, folder+name))
}

// with replaces in a text the first of each pair, which is there once, by the second.
func with(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			t.Fatalf("%q is there %d times", pairs[i], n)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// TestResources compares each resource with its schema, and has Istio validate it as its webhook does.
func TestResources(t *testing.T) {
	found, err := filepath.Glob(harness.PathT(t, folder+"*"))
	if err != nil || len(found) != len(files) {
		t.Errorf("%q, %v, want %q", found, err, files)
	}
	for _, name := range files {
		judge(t, name, read(t, name))
	}
	mistake := with(t, read(t, "warmgate.yaml"), "failure_policy: FAIL_RELOAD", "failure_policy: FAIL_RELOADED")
	if problems := problemsOf(t, mistake); len(problems) == 0 {
		t.Error("a mistake is not found")
	}
}

// validator compares resources with the schemas of Istio. It takes seconds to make.
var validator = func() func(t *testing.T) *schemas.Validator {
	var once sync.Once
	var v *schemas.Validator
	return func(t *testing.T) *schemas.Validator {
		once.Do(func() { v = schemas.NewIstioValidator(t) })
		return v
	}
}()

// judge reports what is wrong with resources.
func judge(t *testing.T, name, text string) {
	t.Helper()
	if err := validator(t).ValidateCustomResourceYAML(text, nil); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for _, problem := range problemsOf(t, text) {
		t.Errorf("%s: %s", name, problem)
	}
}

// always begins the warning that each EnvoyFilter gets.
const always = "EnvoyFilter exposes internal implementation details"

// problemsOf returns the errors and warnings of Istio's validation.
func problemsOf(t *testing.T, text string) (problems []string) {
	t.Helper()
	configs, other, err := crd.ParseInputs(text)
	if err != nil {
		return []string{err.Error()}
	}
	if len(configs) == 0 || len(other) > 0 {
		t.Fatalf("%d resources, unknown ones %v", len(configs), other)
	}
	for _, c := range configs {
		schema, ok := collections.All.FindByGroupVersionKind(c.GroupVersionKind)
		if !ok {
			t.Fatalf("no schema of %v", c.GroupVersionKind)
		}
		warning, err := schema.ValidateConfig(c)
		for _, problem := range []error{warning, err} {
			if problem == nil {
				continue
			}
			for _, line := range strings.Split(problem.Error(), "\n") {
				line = strings.Trim(line, "\t *")
				if line != "" && !strings.HasSuffix(line, " occurred:") && !strings.HasPrefix(line, always) {
					problems = append(problems, line)
				}
			}
		}
	}
	return problems
}

// TestDocument has Istio validate the resources in the document.
func TestDocument(t *testing.T) {
	for _, block := range lab.Blocks(t, document, "yaml") {
		if strings.Contains(block, "apiVersion: networking.istio.io") {
			judge(t, document, block)
		}
	}
}
