package compare

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// Policy is one way to balance the cluster, and how to make a running gateway use it.
type Policy struct {
	Name    string         // as shown to people
	About   string         // what Describe returns; "" = made of the other fields
	Cluster harness.Policy // balancing of the cluster
	Plugin  string         // configuration of the plugin, JSON; "" = no plugin at all
	// further changes, YAML: file of the run folder -> path in it -> value, see [harness.Set]
	Edits string
}

// The three policies that every comparison shows. The native ones run without the plugin, so that they pay none of its
// cost.
var (
	RoundRobin   = Policy{Name: "round_robin", Cluster: harness.RoundRobin}
	LeastRequest = Policy{Name: "least_request", Cluster: harness.LeastRequest}
	Warmgate     = Plugin("Warmgate", "global_least_request", `"unit":"requests",`, "")
)

// PrefixCache is Warmgate's prefix_cache with its defaults.
var PrefixCache = Plugin("prefix_cache", "prefix_cache", "", "")

// InRedis and ByMetrics are further members of a configuration's part envoy: where counts are, and whence the engines'
// own figures come.
const (
	InRedis   = `,"redis_cluster":"warmgate-redis"`
	ByMetrics = `,"metrics_cluster":"warmgate-metrics"`
)

// Shared is Warmgate with the counts of all gateways in one Redis: see [Options].Redis.
var Shared = Plugin("Warmgate, shared", "global_least_request", `"unit":"requests",`, InRedis)

// Patient is Shared with more time to reserve than the default: for a herd that keeps this machine's few cores busy for
// longer than that.
var Patient = Plugin("Warmgate, shared, reserve_timeout 2s", "global_least_request",
	`"unit":"requests","reserve_timeout":"2s",`, InRedis)

// Two more, for a closer comparison of their parts.
var (
	FullScan = Policy{
		Name: "full_scan", About: "Envoy's least_request over all endpoints (selection_method: FULL_SCAN), no plugin",
		Cluster: harness.LeastRequest,
		Edits:   `clusters.yaml: {"resources[name=llm].load_balancing_policy.policies[0].typed_extension_config.typed_config.selection_method": FULL_SCAN}`,
	}
	WarmgateTokens = Plugin("Warmgate, tokens", "global_least_request", `"unit":"tokens",`, "")
)

// RingHash is Envoy's ring_hash by the header that names the session.
func RingHash(header string) Policy {
	return ringHash("ring_hash", "Envoy's ring_hash by the session header, no plugin", header, "")
}

// BoundedRingHash is the same with bounded loads: a server that has half as many requests again as the mean of all gets
// no more.
func BoundedRingHash(header string) Policy {
	return ringHash("bounded ring_hash", "Envoy's ring_hash by the session header, hash_balance_factor 150, no plugin",
		header, "hash_balance_factor: 150, ")
}

func ringHash(name, about, header, more string) Policy {
	return Policy{
		Name: name, About: about, Cluster: harness.RoundRobin,
		Edits: `clusters.yaml: {"resources[name=llm].load_balancing_policy.policies": [{typed_extension_config: {
  name: envoy.load_balancing_policies.ring_hash,
  typed_config: {
    "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash,
    consistent_hashing_lb_config: {` + more + `hash_policy: [{header: {header_name: ` + header + `}}]}}}}]}`,
	}
}

// Plugin is a policy of Warmgate's, under a name, with further members of lb_config and of its part envoy.
func Plugin(name, policy, members, envoy string) Policy {
	return Policy{
		Name: name, Cluster: harness.Warmgate,
		Plugin: `{"lb_type":"endpoint","lb_policy":"` + policy + `","lb_config":{` + members +
			`"envoy":{"admin_cluster":"warmgate-admin"` + envoy + `},"debug_headers":true}}`,
	}
}

// VariantFlag declares a flag that names one more configuration of Warmgate to play, and may be repeated.
func VariantFlag(add func(Policy)) {
	flag.Func("variant", "NAME=JSON: also play this plugin configuration; may be repeated", func(text string) error {
		p, err := Variant(text)
		add(p)
		return err
	})
}

// Variant reads NAME=JSON, a policy of Warmgate with this plugin configuration.
func Variant(text string) (Policy, error) {
	name, config, ok := strings.Cut(text, "=")
	if !ok || name == "" || !json.Valid([]byte(config)) {
		return Policy{}, fmt.Errorf("compare: %q is not NAME=JSON", text)
	}
	return Policy{Name: name, Cluster: harness.Warmgate, Plugin: config}, nil
}

// Describe returns in one line what the policy is, with the settings that matter.
func (p Policy) Describe() string {
	switch {
	case p.About != "":
		return p.About
	case p.Cluster == harness.RoundRobin:
		return "Envoy's round_robin, no plugin"
	case p.Cluster == harness.LeastRequest:
		return "Envoy's least_request with its defaults (two random choices), no plugin"
	}
	return "Warmgate " + p.Plugin
}

// Switch makes the running gateways use the policy, by replacing the watched files. Streams that are open stay open.
func (s *Stage) Switch(ctx context.Context, p Policy) error {
	if err := s.prepare(p); err != nil {
		return err
	}
	for _, g := range s.Gateways {
		var err error
		if p.Plugin == "" {
			err = g.PushNoPlugin(ctx)
		} else {
			err = g.PushModule(ctx, s.module, p.Plugin)
		}
		if err == nil {
			err = g.PushCluster(ctx, p.Cluster)
		}
		if err != nil {
			return fmt.Errorf("compare: switch to %s: %w", p.Name, err)
		}
	}
	return nil
}

// edits are the parsed Policy.Edits.
type edits map[string]map[string]any

// prepare makes edit apply the policy to the files that are written from now on.
func (s *Stage) prepare(p Policy) error {
	var parsed edits
	if err := yaml.Unmarshal([]byte(p.Edits), &parsed); err != nil {
		return fmt.Errorf("compare: edits of %s: %w", p.Name, err)
	}
	s.edits.Store(&parsed)
	return nil
}

// edit changes a file for the stage, and for the policy in use. The gateway calls it for every file that it writes.
func (s *Stage) edit(file string, doc *yaml.Node) error {
	if s.further != nil {
		if err := s.further(file, doc); err != nil {
			return err
		}
	}
	changes := (*s.edits.Load())[file]
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		if err := harness.Set(doc, path, changes[path]); err != nil {
			return err
		}
	}
	return nil
}

// hostHeader has the endpoint that Warmgate chose, reasonHeader the reason for the choice or for none.
const (
	hostHeader   = "x-warmgate-host"
	reasonHeader = "x-warmgate-reason"
)

// mostUnsteered is the share of answers that Warmgate need not have chosen the endpoint of: while it learns the
// endpoints, or is too slow.
const mostUnsteered = 0.1

// Steered returns an error if the policy is one of Warmgate's, and the answers, with their [DebugHeaders], show that
// Warmgate did not choose who gave them: because it refused its configuration, for example, and requests fell back to
// native balancing.
func (p Policy) Steered(samples []loadgen.Sample) error {
	if p.Plugin == "" {
		return nil
	}
	answered, unsteered := 0, 0
	reasons := map[string]int{}
	for i := range samples {
		s := &samples[i]
		if !s.OK() {
			continue
		}
		answered++
		if s.Header.Get(hostHeader) == "" && s.Header.Get(RegionHeader) == "" {
			unsteered++
			reasons[s.Header.Get(reasonHeader)]++
		}
	}
	if float64(unsteered) > mostUnsteered*float64(answered) {
		return fmt.Errorf("compare: %s did not choose the endpoints of %d of %d answers, reasons %v", p.Name, unsteered,
			answered, reasons)
	}
	return nil
}
