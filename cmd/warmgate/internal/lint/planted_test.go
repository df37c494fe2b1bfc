package lint

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
)

// planted is a mistake in a file: an edit of a shipped one, or a small one of its own. The mark § is where it has to be
// found, and no part of the file.
type planted struct {
	file     string // shipped, or only a name if old is ""
	old, new string // new is in place of old, or is the whole file
	kind     string
	words    string // in the message
	more     int    // how many other findings follow from the mistake
}

// TestPlanted checks that each mistake is found at its place, as what it is. Nothing else is found but what follows
// from it, and the examples of registries and secrets.
func TestPlanted(t *testing.T) {
	all := append(plantedFiles(t), plantedEdits...)
	if len(all) < 60 {
		t.Errorf("%d mistakes", len(all))
	}
	for _, p := range all {
		before, after, ok := strings.Cut(p.marked(t), "§")
		if !ok || strings.Contains(after, "§") {
			t.Errorf("%s: %q has no mark", p.file, p.new)
			continue
		}
		lines := strings.Split(before, "\n")
		want := source.Position{Line: len(lines), Column: len([]rune(lines[len(lines)-1])) + 1}
		f := source.NewFile(p.file, []byte(before+after))
		if strings.Contains(fmt.Sprint(File(f, Auto, true)), "hunter2") {
			t.Errorf("%s repeats a secret", p.new)
		}
		found, others := 0, ""
		for _, one := range File(f, Auto, true).Findings {
			message := one.Path + ": " + one.Text
			switch at := f.Position(one.At); {
			case at == want && one.Kind == p.kind && strings.Contains(message, p.words):
				found++
			case one.Kind != "placeholder" && (one.Kind != "secret" || !one.Warning):
				others += fmt.Sprintf("\n%+v %s: %s", at, one.Kind, message)
			}
		}
		if found != 1 || strings.Count(others, "\n") != p.more {
			t.Errorf("%s: %s\n%d times %+v %s: %s, and %d others, want %d:%s", p.file, p.new, found, want, p.kind,
				p.words, strings.Count(others, "\n"), p.more, others)
		}
	}
}

// marked returns the file with its mark.
func (p *planted) marked(t *testing.T) string {
	t.Helper()
	if p.old == "" {
		return p.new
	}
	text := harness.Own(string(harness.ReadT(t, p.file)))
	if n := strings.Count(text, p.old); n != 1 {
		t.Errorf("%s has %q %d times", p.file, p.old, n)
	}
	return strings.Replace(text, p.old, p.new, 1)
}

//go:embed testdata/planted.txt
var plantedTexts string

// plantedFiles returns the mistakes in files of their own.
func plantedFiles(t testing.TB) (list []planted) {
	t.Helper()
	for _, block := range strings.Split(plantedTexts, "\n== ")[1:] {
		head, text, _ := strings.Cut(block, "\n")
		what, words, ok := strings.Cut(head, ": ")
		p := planted{new: strings.TrimSuffix(text, "\n"), words: words}
		if _, err := fmt.Sscanf(what, "%s %s %d", &p.file, &p.kind, &p.more); err != nil || !ok {
			t.Fatalf("%q: %v", head, err)
		}
		list = append(list, p)
	}
	return list
}

// The shipped files that most mistakes are planted in.
const (
	overload = "envoy-config/warmgate-overload.yaml"
	plain    = "envoy-config/warmgate.yaml"
	higress  = "deploy/higress/warmgate.yaml"
)

// plantedEdits are mistakes in shipped files.
var plantedEdits = []planted{
	// In JSON in a string of YAML.
	{overload, `"max_inflight"`, `§"max_infligth"`, "unknown-key", "did you mean max_inflight?", 0},
	{overload, `"max_wait": "20s"`, `"max_wait": §20`, "seconds", `in seconds it is "20s"`, 0},
	{overload, `"max_wait": "20s"`, `"max_wait": §"20 s"`, "value", "want a duration from", 0},
	{overload, `"max_bytes": "64MiB"`, `"max_bytes": §"64Mib"`, "value", "want a size from", 0},
	{overload, `"status": 429`, `"status": §42`, "value", "want a whole number from", 0},
	{overload, `"weighted"`, `§"wieghted"`, "value", `did you mean "weighted"?`, 0},
	{overload, `"reserved": 0.1`, `§"reserve": 0.1`, "unknown-key", `did you mean "reserved"?`, 0},
	{overload, `"default_class": "batch"`, `"default_class": §"bach"`, "value", "queue.classes", 0},
	{overload, `"retry_budget": 10`, `§"max_length": 10`, "duplicate", "written twice", 0},
	{overload, "\"endpoint\",\n            ", "\"endpoint\"\n            §", "syntax", "a comma", 0},
	{overload, `"debug_headers": false,`, "§// what I tried", "syntax", "a key in double quotes", 0},
	{overload, `"queue": {`, `§"queues": {`, "unknown-key", "did you mean queue?", 0},
	{plain, `"debug_headers": false`, `"debug_headers": §"false"`, "value", "want true or false", 0},
	{plain, `"global_least_request"`, `§"least_request"`, "value", "want one of", 0},
	{plain, `"admin_cluster"`, `§"admin-cluster"`, "unknown-key", "did you mean", 1},
	{"envoy-config/warmgate-metrics.yaml", `"lb_policy"`, `§"lbPolicy"`, "unknown-key", "lb_policy", 1},
	{"envoy-config/warmgate-clusters.yaml", `"service_list"`, `§"services_list"`, "unknown-key", "service_list", 1},
	{"envoy-config/warmgate-clusters.yaml", `"prefix_cache"`, `§"prefixcache"`, "value", "did you mean", 0},
	{"envoy-config/warmgate-regions.yaml", `"rtt": "80ms"`, `"rtt": §"80 ms"`, "value", "want a duration", 0},
	{"envoy-config/warmgate-redis.yaml", `"redis_cluster"`, `§"redis-cluster"`, "unknown-key", "redis_cluster", 0},
	{"deploy/istio/warmgate.yaml", `"_match_service_"`, `§"_match_services_"`, "unknown-key", "_match_service_", 1},
	{
		"deploy/envoy-gateway/whole-filter.yaml", `["httproute/default/llm/"]`, `["httproute/default/llm/", §7]`, "value",
		"want a name", 0,
	},
	// In Envoy's own fields.
	{plain, "failure_policy: FAIL_RELOAD", "failure_policy: §FAIL_CLOSED", "fail-closed", "503", 0},
	{plain, "../build/out/warmgate-envoy", "§../build/out/warmgate-higress", "wrong-artifact", "cannot load", 0},
	{plain, "_stop_iteration: true", "_stop_iteration: §false", "late-body", "body_timeout", 0},
	{
		plain, `"@type": type.googleapis.com/google.protobuf.StringValue`,
		`§"@type": type.googleapis.com/google.protobuf.Struct`, "binary", "StringValue", 0,
	},
	// In a WasmPlugin.
	{higress, "max_inflight: 64", `max_inflight: §"64"`, "value", "want a whole number", 0},
	{higress, "{max_wait: 20s}", "{§max_wiat: 20s}", "unknown-key", "did you mean max_wait?", 0},
	{higress, "queue: {max_wait: 20s}", "queue: {max_wait: §20}", "seconds", `in seconds it is "20s"`, 0},
	{
		higress, "        max_inflight: 64\n        queue: {max_wait: 20s}\n", "        §max_inflight: 64\n",
		"cap-without-queue", "429 at once", 0,
	},
	{higress, "        unit: tokens\n", "        unit: §token\n", "value", `did you mean "tokens"?`, 0},
	{higress, "failStrategy: FAIL_OPEN", "failStrategy: §FAIL_CLOSE", "fail-closed", "503", 0},
	{higress, "  matchRules:", "  §matchRule:", "unknown-key", `did you mean "matchRules"?`, 0},
	{higress, "- ingress: [completions]", "- §ingres: [completions]", "unknown-key", `did you mean "ingress"?`, 1},
	{higress, "[staging.example.com]", "[§https://staging.test]", "match", "one host without a port", 0},
	{higress, "[embeddings.dns]", "[§embeddings]", "match", ".dns", 0},
	{higress, "shadow: true", "§shadow_mode: true", "unknown-key", "did you mean shadow?", 0},
	{higress, "url: oci://registry.example.com/warmgate/warmgate-higress", "url: §oci://registry.llm.internal/" +
		"warmgate-envoy", "wrong-artifact", "config_invalid", 0},
	{
		"envoy-config/higress-wasmplugin-cluster-metrics.yaml", "phase: AUTHN", "§phase: STATS", "place", "AUTHN", 0,
	},
	{
		"envoy-config/higress-wasmplugin-prefix-cache.yaml", "lb_policy: prefix_cache", "lb_policy: §prefix_cach",
		"value", "did you mean", 0,
	},
	{
		"envoy-config/higress-wasmplugin-regions.yaml", "          secret: ", "          secret: §too short # ",
		"value", "16", 0,
	},
	// In the resources of Envoy Gateway and Istio.
	{"deploy/envoy-gateway/warmgate.yaml", "    failOpen: true\n", "    §failOpen: false\n", "fail-closed", "500", 0},
	{
		"deploy/envoy-gateway/warmgate.yaml", "lb_policy: global_least_request", "§lb_polcy: global_least_request",
		"unknown-key", "did you mean lb_policy?", 1,
	},
}
