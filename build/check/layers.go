package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	module = "github.com/warmgate/warmgate"
	sdk    = "github.com/higress-group/proxy-wasm-go-sdk"

	// wasmGo is the library of Higress's plugins. The tests of e2e/wasmgo, a module of its own, compare Warmgate with
	// it; nothing else may need it.
	wasmGo = "github.com/higress-group/wasm-go"
)

// pure lists the folders, with all below them, that hold decisions only: they run the same natively and inside a VM,
// and the same input gives the same output.
var pure = []string{
	"internal/enginesim", "internal/explain", "internal/simulate",
	"internal/jsontext", "internal/order", "internal/recent", "internal/statname", "internal/topnames", "internal/wire",
	"lb", "metrics",
	"plugin/admission", "plugin/apicall", "plugin/clusters", "plugin/config", "plugin/core", "plugin/discovery",
	"plugin/endpoints", "plugin/inspect",
	"plugin/engines", "plugin/forward", "plugin/gains", "plugin/gauges", "plugin/host", "plugin/learned",
	"plugin/measured",
	"plugin/placement", "plugin/process", "plugin/ratelimit", "plugin/regions", "plugin/request", "plugin/response",
	"plugin/stats", "plugin/stores", "plugin/views", "plugin/vm", "plugin/waiters", "redisclient",
}

// sdkFolders lists the only folders that may import the Proxy-Wasm SDK: the plugin, and the one that it is measured
// against.
var sdkFolders = []string{"plugin", "e2e/bench/probe"}

// untagged lists the folders whose files are the same in every build, so that native tests show what an artifact does.
var untagged = []string{
	"plugin/admission", "plugin/apicall", "plugin/clusters", "plugin/core", "plugin/engines", "plugin/forward",
	"plugin/gains", "plugin/gauges", "plugin/inspect",
	"plugin/host", "plugin/learned", "plugin/measured", "plugin/placement", "plugin/regions", "plugin/request",
	"plugin/response", "plugin/stats", "plugin/stores", "plugin/views", "plugin/vm", "plugin/waiters",
}

// impure lists what a pure folder's own code may not import: a way to the outside world.
var impure = []string{"net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// product lists the folders, with all below them, that hold the packages of the product; each has a row in mayImport.
var product = []string{"cmd", "internal", "lb", "metrics", "plugin", "redisclient"}

const (
	rapid   = "pgregory.net/rapid"
	siphash = "github.com/dchest/siphash"
	xxhash  = "github.com/cespare/xxhash/v2"
	blake2s = "golang.org/x/crypto/blake2s"
	cobra   = "github.com/spf13/cobra"
	yamlV3  = "go.yaml.in/yaml/v3"

	// bubbletea's first version asks the terminal for its colors whenever a program begins that has it linked.
	bubbletea  = "charm.land/bubbletea/v2"
	jsonschema = "github.com/santhosh-tekuri/jsonschema/v6"
)

// mayImport lists what each package of the product may import beside the standard library: packages of the module by
// their folders, and libraries. ARCHITECTURE.md says what is in each folder. The SDK is in sdkFolders instead; tests
// may import more.
var mayImport = map[string][]string{
	"cmd/warmgate": {
		"cmd/warmgate/internal/explanation", "cmd/warmgate/internal/gateways", "cmd/warmgate/internal/lint",
		"cmd/warmgate/internal/outcome", "cmd/warmgate/internal/report", "cmd/warmgate/internal/screen",
		"cmd/warmgate/internal/source", "internal/accesslog", "internal/explain", "internal/live", "internal/live/page",
		"internal/mooncake", "internal/simulate", "internal/simulate/calibrate", "internal/snapshot", "internal/state",
		"internal/vllmsim", "lb/region", "plugin/config", bubbletea, cobra, cobra + "/doc",
	},
	"cmd/warmgate/internal/gateways":    {"internal/snapshot", cobra, yamlV3},
	"cmd/warmgate/internal/explanation": {"internal/state", "lb/prompt"},
	"cmd/warmgate/internal/lint": {
		"cmd/warmgate/internal/source", "deploy", "lb", "lb/policy", "lb/push", "plugin/config",
		jsonschema, jsonschema + "/kind", "golang.org/x/text/language", "golang.org/x/text/message",
	},
	"cmd/warmgate/internal/outcome": {"internal/simulate"},
	"cmd/warmgate/internal/report":  {"cmd/warmgate/internal/lint", "cmd/warmgate/internal/source"},
	"cmd/warmgate/internal/screen":  {"internal/live", bubbletea, "github.com/charmbracelet/x/ansi"},
	"cmd/warmgate/internal/source":  {yamlV3},
	"internal/simulate": {
		"internal/accesslog", "internal/enginesim", "internal/mooncake", "internal/simulate/engine", "lb", "lb/answer",
		"lb/engines", "lb/memstore", "lb/prompt", "lb/push", "lb/region", "metrics", "plugin/clusters", "plugin/config",
		"plugin/learned", "plugin/process", "plugin/stores",
	},
	"internal/vllmsim/vllmsimtest": {"internal/vllmsim"},
	"internal/simulate/calibrate": {
		"internal/accesslog", "internal/enginesim", "internal/simulate", "internal/simulate/engine",
	},
	"internal/simulate/engine": {"internal/enginesim"},

	"internal/accesslog": {"lb/prompt"},
	"internal/enginesim": {xxhash},
	"internal/explain": {
		"internal/simulate", "internal/state", "lb", "lb/memstore", "lb/prompt", "plugin/config", "plugin/core",
		"plugin/discovery", "plugin/endpoints", "plugin/host", "plugin/measured", "plugin/stats", "plugin/stores",
		"plugin/vm",
		"redisclient",
	},
	"internal/fieldtest":     nil,
	"internal/golden":        nil,
	"internal/jsontext":      nil,
	"internal/live":          {"internal/snapshot", "internal/state", "lb"},
	"internal/live/page":     {"internal/live", "internal/state"},
	"internal/mooncake":      nil,
	"internal/order":         nil,
	"internal/recent":        nil,
	"internal/snapshot":      {"internal/state", "internal/statname", "lb/setting", "plugin/config", "redisclient"},
	"internal/state":         nil,
	"internal/statname":      nil,
	"internal/topnames":      nil,
	"internal/vllmsim":       {"internal/enginesim", xxhash, "github.com/tidwall/gjson"},
	"internal/wire":          nil,
	"lb":                     {"internal/order", "internal/recent", "internal/wire", "lb/budget", "lb/prompt", xxhash},
	"lb/answer":              {"internal/jsontext"},
	"lb/budget":              nil,
	"lb/cache":               {"internal/order", "internal/wire", "lb", "lb/prefixindex", "lb/prompt"},
	"lb/engines":             {"internal/order", "internal/recent", "lb", "metrics"},
	"lb/engines/enginestest": {"metrics"},
	"lb/gains":               {"internal/order", "internal/wire"},
	"lb/health":              {"internal/order", "internal/recent", "internal/wire", "lb"},
	"lb/health/healthtest":   {"lb", "lb/health", "lb/storetest"},
	"lb/memstore": {
		"internal/order", "internal/wire", "lb", "lb/budget", "lb/prefixindex", "lb/prompt", "lb/queue", xxhash,
	},
	"lb/memstore/memstoretest": {"lb", "lb/memstore", "lb/storetest"},
	"lb/models":                {"internal/order", "internal/wire", "lb", xxhash},
	"lb/policy": {
		"internal/order", "internal/recent", "internal/wire", "lb", "lb/budget", "lb/cache", "lb/engines", "lb/health",
		"lb/models", "lb/price", "lb/push", "lb/setting", "metrics",
	},
	"lb/prefixindex":       nil,
	"lb/price":             nil,
	"lb/prompt":            {"internal/jsontext", siphash},
	"lb/prompt/prompttest": nil,
	"lb/queue":             {"internal/order", "internal/wire", "lb", "lb/budget"},
	"lb/region":            {"internal/wire", "lb", "lb/memstore", xxhash, blake2s},
	"lb/push":              {"internal/order", "internal/recent", "internal/wire", "lb", "lb/engines", "metrics"},
	"lb/setting":           nil,
	"lb/storetest":         {"e2e/queuecheck", "lb", "lb/budget", "lb/prompt", rapid},
	"metrics":              {"internal/wire"},
	"plugin": {
		"lb", "plugin/config", "plugin/core", "plugin/discovery", "plugin/endpoints", "plugin/engines", "plugin/host",
		"plugin/measured", "plugin/process", "plugin/stats", "plugin/vm", "redisclient",
	},
	"plugin/admission": {
		"internal/wire", "lb", "lb/answer", "lb/budget", "lb/policy", "plugin/apicall", "plugin/config",
		"plugin/endpoints", "plugin/host", "plugin/process", "plugin/ratelimit", xxhash,
	},
	"plugin/apicall": {"internal/statname", "plugin/config", "plugin/host", "plugin/stats"},
	"plugin/clusters": {
		"internal/order", "internal/recent", "internal/wire", "lb", "lb/cache", "lb/engines", "lb/gains", "lb/health",
		"lb/memstore", "lb/models", "lb/policy", "lb/push", "plugin/admission", "plugin/config", "plugin/endpoints",
		"plugin/engines", "plugin/learned", "plugin/process", "plugin/stats", "redisclient", xxhash,
	},
	"plugin/config": {
		"internal/jsontext", "internal/order", "internal/wire", "lb", "lb/answer", "lb/engines", "lb/health",
		"lb/policy", "lb/price", "lb/push", "lb/region", "lb/setting", "metrics", xxhash,
	},
	"plugin/config/configtest": nil,
	"plugin/core": {
		"internal/state", "lb", "plugin/apicall", "plugin/config", "plugin/forward", "plugin/host",
		"plugin/inspect", "plugin/measured", "plugin/placement",
		"plugin/regions", "plugin/request", "plugin/views", "plugin/vm",
	},
	"plugin/discovery": {"internal/jsontext", "internal/order", "internal/wire", "lb", "lb/engines"},
	"plugin/endpoints": {
		"internal/recent", "internal/wire", "lb", "plugin/config", "plugin/discovery", "plugin/process", xxhash,
	},
	"plugin/engines": {
		"internal/order", "internal/statname", "internal/wire", "lb", "lb/engines", "lb/models", "lb/prompt",
		"lb/push", "metrics", "plugin/config", "plugin/discovery", "plugin/endpoints", "plugin/host", "plugin/process",
		"plugin/stats", xxhash,
	},
	"plugin/forward": {
		"internal/statname", "lb", "lb/region", "plugin/config", "plugin/placement", "plugin/regions",
		"plugin/response", "plugin/stats",
	},
	"plugin/gains": {
		"internal/statname", "internal/wire", "lb", "lb/gains", "plugin/clusters", "plugin/config", "plugin/host",
		"plugin/measured", "plugin/process", "plugin/stats",
	},
	"plugin/gauges": {
		"lb", "lb/policy", "plugin/clusters", "plugin/config", "plugin/host", "plugin/stats", "plugin/stores",
		"plugin/views",
	},
	"plugin/host": {
		"lb", "plugin/config", "plugin/discovery", "plugin/endpoints", "plugin/measured", "plugin/stats", "redisclient",
	},
	"plugin/inspect": {
		"internal/order", "internal/state", "internal/wire", "lb", "lb/engines", "lb/region", "metrics",
		"plugin/apicall", "plugin/clusters", "plugin/config", "plugin/discovery", "plugin/host", "plugin/process",
		"plugin/regions", "plugin/stores", "plugin/views",
	},
	"plugin/measured": {"lb/price"},
	"plugin/learned": {
		"internal/order", "lb/answer", "lb/prompt", "plugin/endpoints", "plugin/process", xxhash,
	},
	"plugin/placement": {
		"internal/order", "internal/state", "internal/statname", "lb", "lb/answer", "lb/budget", "lb/gains",
		"lb/memstore", "lb/price", "lb/prompt", "lb/push", "plugin/clusters", "plugin/config", "plugin/engines",
		"plugin/host",
		"plugin/learned", "plugin/measured", "plugin/ratelimit", "plugin/request", "plugin/response",
		"plugin/stats", "plugin/stores", "plugin/views", "plugin/waiters", xxhash,
	},
	"plugin/process":             {"internal/wire", "lb", "lb/memstore"},
	"plugin/process/processtest": {"lb"},
	"plugin/ratelimit":           {"lb/answer", "lb/budget"},
	"plugin/regions": {
		"internal/statname", "lb", "lb/region", "plugin/clusters", "plugin/config", "plugin/endpoints",
		"plugin/engines", "plugin/host", "plugin/process", "plugin/stats", "plugin/stores", "plugin/views",
	},
	"plugin/request": {
		"internal/state", "internal/statname", "internal/wire", "lb", "lb/answer", "lb/price", "lb/prompt", "metrics",
		"plugin/clusters", "plugin/config", "plugin/engines", "plugin/host", "plugin/learned", "plugin/stats", xxhash,
	},
	"plugin/response": {
		"lb", "lb/answer", "plugin/clusters", "plugin/host", "plugin/learned", "plugin/measured", "plugin/process",
		"plugin/request", "plugin/stats",
	},
	"plugin/stats": {
		"internal/statname", "internal/topnames", "lb", "lb/budget", "lb/memstore", "lb/price", "plugin/measured",
	},
	"plugin/stores": {
		"internal/statname", "lb", "lb/memstore", "plugin/config", "plugin/endpoints", "plugin/host", "plugin/process",
		"plugin/stats", "redisclient",
	},
	"plugin/views": {
		"internal/recent", "lb", "plugin/clusters", "plugin/config", "plugin/endpoints", "plugin/host",
		"plugin/process", "plugin/stores", xxhash,
	},
	"plugin/vm": {
		"internal/statname", "internal/wire", "lb", "lb/budget", "plugin/admission", "plugin/clusters", "plugin/config",
		"plugin/endpoints", "plugin/engines", "plugin/gains", "plugin/gauges", "plugin/host", "plugin/inspect",
		"plugin/measured",
		"plugin/placement", "plugin/process", "plugin/regions", "plugin/request", "plugin/stats",
		"plugin/stores", "plugin/views",
		"plugin/waiters", xxhash,
	},
	"plugin/waiters": {
		"internal/order", "internal/wire", "lb", "plugin/clusters", "plugin/config", "plugin/host", "plugin/learned",
		"plugin/process", "plugin/stores", "plugin/views",
	},
	"redisclient": {
		"internal/order", "internal/wire", "lb", "lb/budget", "lb/prefixindex", "lb/prompt", "lb/queue",
		"redisclient/lua", xxhash,
	},
	"redisclient/lua": nil,
}

// packed lists the folders in which only internal/wire reads and writes packed values.
var packed = []string{
	"lb", "lb/health", "lb/memstore", "lb/models", "lb/policy", "lb/push", "lb/queue", "lb/region", "metrics",
	"plugin/admission", "plugin/apicall", "plugin/clusters", "plugin/config", "plugin/core", "plugin/discovery",
	"plugin/endpoints", "plugin/inspect",
	"plugin/engines", "plugin/forward", "plugin/gains", "plugin/gauges", "plugin/placement", "plugin/process",
	"plugin/regions", "plugin/request", "plugin/response", "plugin/stores", "plugin/views", "plugin/vm",
	"plugin/waiters", "redisclient",
}

// heavy lists what no package of an artifact may import: each adds 0.2 MB or more to what every VM loads. The SDK and
// runtime/debug import some, but nothing of theirs is linked that needs them.
var heavy = []string{"crypto/sha1", "encoding/json", "fmt", "regexp"}

// clock lists the functions of package time that read the clock or wait. Time is an argument instead.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// layers returns the imports that the rules above forbid.
func layers(packages []pkg) []string {
	var problems []string
	linked := artifactPackages(packages)
	for _, p := range packages {
		folder := folderOf(p.ImportPath)
		problems = append(problems, outsideTable(folder, p.Imports)...)
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, sdk) && !slices.Contains(sdkFolders, folder) {
				problems = append(problems,
					fmt.Sprintf("%s imports %s: only %s may", folder, imported, strings.Join(sdkFolders, ", ")))
			}
			if linked[p.ImportPath] && slices.Contains(heavy, imported) {
				problems = append(problems, fmt.Sprintf("%s imports %s: too big for the artifacts", folder, imported))
			}
			if slices.Contains(packed, folder) && imported == "encoding/binary" {
				problems = append(problems,
					fmt.Sprintf("%s imports %s: internal/wire packs its values", folder, imported))
			}
		}
		for _, dep := range p.Deps {
			if dep == wasmGo || strings.HasPrefix(dep, wasmGo+"/") {
				problems = append(problems, fmt.Sprintf("%s depends on %s: only tests in e2e/wasmgo may", folder, dep))
			}
		}
		if below(folder, pure) {
			problems = append(problems, notPure(folder, p)...)
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// folderOf returns the folder of a package of the module, relative to the module's root. Other paths are unchanged.
func folderOf(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// outsideTable returns the imports of a folder that mayImport does not list.
func outsideTable(folder string, imports []string) []string {
	if !below(folder, product) {
		return nil
	}
	allowed, ok := mayImport[folder]
	if !ok {
		return []string{folder + " has no row in mayImport of build/check/layers.go"}
	}
	may := "the standard library alone"
	if len(allowed) > 0 {
		may = "the standard library, " + strings.Join(allowed, ", ")
	}
	var problems []string
	for _, imported := range imports {
		domain, _, _ := strings.Cut(imported, "/")
		standard := !strings.Contains(domain, ".")
		if !standard && !strings.HasPrefix(imported, sdk) && !slices.Contains(allowed, folderOf(imported)) {
			problems = append(problems, fmt.Sprintf("%s imports %s: it may import %s", folder, folderOf(imported), may))
		}
	}
	return problems
}

// notPure returns the imports and dependencies that a pure folder may not have.
func notPure(folder string, p pkg) []string {
	var problems []string
	for _, imported := range p.Imports {
		if slices.Contains(impure, imported) {
			problems = append(problems, fmt.Sprintf("%s imports %s: it must do no I/O", folder, imported))
		}
	}
	for _, dep := range p.Deps {
		if strings.HasPrefix(dep, sdk) && !slices.Contains(p.Imports, dep) {
			problems = append(problems, fmt.Sprintf("%s depends on %s", folder, dep))
		}
	}
	return problems
}

// artifactPackages returns the packages of the module that the plugin is made of.
func artifactPackages(packages []pkg) map[string]bool {
	linked := map[string]bool{}
	for _, p := range packages {
		if p.ImportPath != module+"/plugin" {
			continue
		}
		linked[p.ImportPath] = true
		for _, dep := range p.Deps {
			linked[dep] = strings.HasPrefix(dep, module+"/")
		}
	}
	return linked
}

// below reports whether a folder or file is one of the folders or below one.
func below(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(name+"/", folder+"/") })
}
