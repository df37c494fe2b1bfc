package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tetratelabs/wazero"

	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
)

// maxArtifactBytes is the largest Wasm module that is shipped.
const maxArtifactBytes = 6 << 20

// Host calls that only Higress has. A module that merely refers to one does not load in stock Envoy, not even under
// FAIL_OPEN.
var higressOnly = []string{
	"proxy_get_upstream_hosts", "proxy_set_upstream_override_host", "proxy_redis_init", "proxy_redis_call",
}

// The export by which each host learns the ABI. Higress takes the first one it finds, and as 0.2.1 no request body
// would ever reach the plugin there: its artifact must not have that export.
const (
	envoyABI   = "proxy_abi_version_0_2_1"
	higressABI = "proxy_abi_version_0_2_100"
)

// artifacts returns what is wrong with the two modules in dir.
func artifacts(dir string) ([]string, error) {
	var problems []string
	for _, host := range []string{"envoy", "higress"} {
		name := filepath.Join(dir, "warmgate-"+host+".wasm")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w (run make wasm)", err)
		}
		if len(text) > maxArtifactBytes {
			problems = append(problems, fmt.Sprintf("%s: %d bytes, limit %d", name, len(text), maxArtifactBytes))
		}
		imports, exports, err := symbols(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		problems = append(problems, artifact(host, name, imports, exports)...)
		problems = append(problems, documented(name, text)...)
	}
	return problems, nil
}

// artifact returns what is wrong with the symbols of the module for host.
func artifact(host, name string, imports, exports []string) []string {
	var problems []string
	switch host {
	case "envoy":
		for _, call := range imports {
			if slices.Contains(higressOnly, call) {
				problems = append(problems, fmt.Sprintf("%s: imports %s, which stock Envoy lacks", name, call))
			}
		}
		if !slices.Contains(exports, envoyABI) {
			problems = append(problems, fmt.Sprintf("%s: no export %s, which stock Envoy asks for", name, envoyABI))
		}
	case "higress":
		if slices.Contains(exports, envoyABI) {
			problems = append(problems, fmt.Sprintf("%s: exports %s, with which Higress never delivers a body",
				name, envoyABI))
		}
		if !slices.Contains(exports, higressABI) {
			problems = append(problems, fmt.Sprintf("%s: no export %s, which Higress asks for", name, higressABI))
		}
	}
	return problems
}

// documented returns which texts of the documentation are in the module. The compiler drops them as long as it can
// inline setting.Doc.
func documented(name string, text []byte) []string {
	var problems []string
	find := func(what, meaning string) {
		if bytes.Contains(text, []byte(meaning)) {
			problems = append(problems, fmt.Sprintf("%s: contains the meaning of %s", name, what))
		}
	}
	for _, k := range config.Keys() {
		find(k.Name, k.Chinese.Meaning)
	}
	for _, d := range policy.All() {
		find(d.Name, d.Meaning.ZH)
	}
	return problems
}

// symbols returns the functions that a module imports and exports.
func symbols(text []byte) (imports, exports []string, err error) {
	ctx := context.Background()
	// The interpreter reads a module without generating code for it.
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	compiled, err := runtime.CompileModule(ctx, text)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range compiled.ImportedFunctions() {
		_, name, _ := f.Import()
		imports = append(imports, name)
	}
	for name := range compiled.ExportedFunctions() {
		exports = append(exports, name)
	}
	slices.Sort(imports)
	slices.Sort(exports)
	return imports, exports, nil
}
