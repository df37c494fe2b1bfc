package doctest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// aboutResource matches a command about resources that it names: their kinds, their name, and what follows.
var aboutResource = regexp.MustCompile(`^kubectl (?:-n \S+ )?(?:delete|get|patch) ([a-z,]+) ([a-z][a-z0-9.-]*)(.*)`)

// builtIn is a resource that is none of ours: Higress's console makes it. e2e/shipped tests what the patch makes of it.
const builtIn = "wasmplugin ai-load-balancer-2.0.3"

// TestConsoleResources looks in deploy/ for the resources that commands name, and in these for what patches replace.
func TestConsoleResources(t *testing.T) {
	shipped, found := shippedResources(t), 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "console" {
				continue
			}
			for _, line := range lab.Commands(b.text) {
				m := aboutResource.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				for _, kind := range strings.Split(m[1], ",") {
					id := kind + " " + m[2]
					if found++; id == builtIn {
						continue
					}
					if r, ok := shipped[id]; !ok {
						t.Errorf("%s:%d: %s: deploy has no %s", d.name, b.line, line, id)
					} else if err := patchable(r, m[3]); err != nil {
						t.Errorf("%s:%d: %s: %v", d.name, b.line, line, err)
					}
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("%d resources in commands, want at least 8", found)
	}
}

// shippedResources returns the resources in deploy/ by kind and name.
func shippedResources(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "deploy", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	list := map[string]map[string]any{}
	for _, file := range files {
		name, err := filepath.Rel(root(t), file)
		if err != nil {
			t.Fatal(err)
		}
		for in := yaml.NewDecoder(bytes.NewReader(harness.ReadT(t, name))); ; {
			var r map[string]any
			if err := in.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kind, _ := r["kind"].(string)
			if metadata, ok := r["metadata"].(map[string]any); ok {
				list[fmt.Sprint(strings.ToLower(kind), " ", metadata["name"])] = r
			}
		}
	}
	return list
}

// patchable returns an error unless the resource has what a patch in the arguments of kubectl replaces.
func patchable(resource map[string]any, arguments string) error {
	m := regexp.MustCompile(`^ --type (json|merge) -p '(.*)'$`).FindStringSubmatch(arguments)
	if m == nil {
		return nil
	}
	if m[1] == "merge" {
		var patch map[string]any
		if err := json.Unmarshal([]byte(m[2]), &patch); err != nil {
			return err
		}
		return merges(resource, patch)
	}
	var patch []struct{ Op, Path string }
	if err := json.Unmarshal([]byte(m[2]), &patch); err != nil {
		return err
	}
	for _, step := range patch {
		var at any = resource
		for _, key := range strings.Split(strings.TrimPrefix(step.Path, "/"), "/") {
			if list, ok := at.([]any); ok && key == "0" && len(list) > 0 {
				at = list[0]
				continue
			}
			object, _ := at.(map[string]any)
			if at = object[key]; at == nil {
				return fmt.Errorf("%s: the resource has no %s there", step.Path, key)
			}
		}
	}
	return nil
}

// merges returns an error unless the resource has all keys of a merge patch.
func merges(resource, patch map[string]any) error {
	for key, value := range patch {
		if resource[key] == nil {
			return fmt.Errorf("the resource has no %s", key)
		}
		deeper, ok := value.(map[string]any)
		if !ok {
			continue
		}
		inner, _ := resource[key].(map[string]any)
		if err := merges(inner, deeper); err != nil {
			return err
		}
	}
	return nil
}
