package routes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// The values of x-model, by which these tests find their route, and the hosts by which the plugin finds its rule.
const (
	toB      = "x-model: llm-b"
	toBare   = "x-model: bare"   // a subset of which there is none
	toV2     = "x-model: v2"     // a subset of a cluster
	toMirror = "x-model: mirror" // to llm, and as a copy to another cluster
	toEither = "x-model: either" // to an aggregate cluster of llm and llm-b
	toDrawn  = "x-model: drawn"  // to llm or llm-b, by chance
	toPacked = "x-model: packed" // to llm, with a compressor in front of the plugin
	toSealed = "x-model: sealed" // to llm, with a compressor behind it
	toMoved  = "x-model: moved"  // to llm, whose redirects are followed by the gateway

	capped  = "host: capped.test"  // 5 requests at a time for each endpoint
	prompts = "host: prompts.test" // by prompts
	half    = "host: half.test"    // the rule names every other endpoint of llm
	second  = "host: second.test"  // the rule names the endpoints of the subset v2
	hinted  = "host: hinted.test"  // the request's metadata names every other endpoint of llm
)

// layout is a gateway of many routes.
type layout struct {
	*stage
	llm, b, versions, copies []*server
}

func newLayout(t *testing.T, version string) *layout {
	t.Helper()
	l := &layout{llm: newServers(t, 6), b: newServers(t, 1), versions: newServers(t, 4), copies: newServers(t, 2)}
	config := fmt.Sprintf(`{%s,"_rules_":[{"_match_domain_":["capped.test"],%s},{"_match_domain_":["half.test"],%s},`+
		`{"_match_domain_":["second.test"],%s},{"_match_domain_":["hinted.test"],%s},`+
		`{"_match_domain_":["prompts.test"],%s}]}`,
		rule(fromAdmin), rule(fromAdmin, `"max_inflight":5`), rule(only(every(l.llm, 0))),
		rule(only(every(l.versions, 1))), rule(fromAdmin, `"subset_hint":"metadata"`),
		strings.Replace(rule(fromAdmin), "global_least_request", "prefix_cache", 1))
	o := harness.Options{Version: version, Endpoints: endpoints(l.llm), Config: config}
	l.stage = start(t, o, l.clusters, l.routes, l.filters)
	l.awaitReason("chosen")
	l.awaitReason("chosen", toB)
	return l
}

// every returns every other server, from the first with from = 0, from the second with from = 1.
func every(list []*server, from int) []*server {
	var out []*server
	for i := from; i < len(list); i += 2 {
		out = append(out, list[i])
	}
	return out
}

func (l *layout) clusters(doc *yaml.Node) error {
	both := hosts(append(slices.Clone(l.llm), l.copies...))
	return harness.Insert(doc, clustersPath, "", 0, `
- name: llm-b
  type: STATIC
  load_assignment: {cluster_name: llm-b, endpoints: [{lb_endpoints: `+hosts(l.b)+`}]}
- name: versions
  type: STATIC
  lb_subset_config: {fallback_policy: ANY_ENDPOINT, subset_selectors: [{keys: [version]}]}
  load_assignment: {cluster_name: versions, endpoints: [{lb_endpoints: `+hosts(l.versions)+`}]}
- name: bare
  type: STATIC
  lb_subset_config: {fallback_policy: ANY_ENDPOINT, subset_selectors: [{keys: [stage]}]}
  load_assignment: {cluster_name: bare, endpoints: [{lb_endpoints: `+hosts(l.versions)+`}]}
- name: copies
  type: STATIC
  load_assignment: {cluster_name: copies, endpoints: [{lb_endpoints: `+both+`}]}
  load_balancing_policy:
    policies:
    - typed_extension_config:
        name: envoy.load_balancing_policies.override_host
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost
          override_host_sources: [{header: x-gateway-destination-endpoint}]
          fallback_policy:
            policies:
            - typed_extension_config:
                name: envoy.load_balancing_policies.round_robin
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin
- name: either
  lb_policy: CLUSTER_PROVIDED
  cluster_type:
    name: envoy.clusters.aggregate
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
      clusters: [llm, llm-b]
`)
}

func (l *layout) routes(doc *yaml.Node) error {
	const when = "{prefix: /, headers: [{name: x-model, string_match: {exact: %s}}]}"
	text := "- {match: {prefix: /b}, name: b, route: {cluster: llm-b}}\n"
	for model, other := range map[string]string{"packed": "behind", "sealed": "front"} {
		text += fmt.Sprintf("- match: "+when+"\n  name: %s\n  route: {cluster: llm}\n"+
			"  typed_per_filter_config:\n    compressor-%s: "+
			`{"@type": %sCompressorPerRoute, disabled: true}`+"\n", model, model, other, compressorType)
	}
	for model, action := range map[string]string{
		"llm-b":  "{cluster: llm-b}",
		"v2":     "{cluster: versions, metadata_match: {filter_metadata: {envoy.lb: {version: v2}}}}",
		"bare":   "{cluster: bare, metadata_match: {filter_metadata: {envoy.lb: {stage: canary}}}}",
		"mirror": "{cluster: llm, request_mirror_policies: [{cluster: copies}]}",
		"either": "{cluster: either}",
		"drawn":  "{weighted_clusters: {clusters: [{name: llm, weight: 1}, {name: llm-b, weight: 1}]}}",
		"moved":  "{cluster: llm, internal_redirect_policy: {}}",
	} {
		text += fmt.Sprintf("- {match: "+when+", name: %s, route: %s}\n", model, model, action)
	}
	return errors.Join(harness.Insert(doc, harness.RoutesPath, "", 0, text),
		harness.Set(doc, hostPath+".include_request_attempt_count", true))
}

// filters are a limit of bodies, a subset hint, a compressor and a model router in front, where they belong, and a
// compressor and a router behind the plugin, where they do not.
func (l *layout) filters(doc *yaml.Node) error {
	const limit = `
- name: buffer
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer
    max_request_bytes: 1048576
`
	hint := `
- name: hint
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
    metadata:
    - metadata_namespace: envoy.lb.subset_hint
      value: {x-gateway-destination-endpoint-subset: ["` + strings.Join(addrs(every(l.llm, 1)), `", "`) + `"]}
`
	front := limit + hint + compressor("front") + modelRouter("model-router", "x-want")
	behind := compressor("behind") + modelRouter("late-router", "x-late")
	return errors.Join(harness.Insert(doc, filtersPath, "warmgate-strip-client", 0, front),
		harness.Insert(doc, filtersPath, "envoy.filters.http.router", 0, behind))
}

const compressorType = "type.googleapis.com/envoy.extensions.filters.http.compressor.v3."

// compressor is a filter that compresses answers.
func compressor(place string) string {
	return `
- name: compressor-` + place + `
  typed_config:
    "@type": ` + compressorType + `Compressor
    compressor_library:
      name: gzip
      typed_config: {"@type": type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip}
`
}
