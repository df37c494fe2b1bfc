package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The shipped files, by the names they keep in the run folder, and what else the harness has to know by name.
const (
	bootstrapFile = "envoy.yaml"
	clustersFile  = "clusters.yaml"
	endpointsFile = "endpoints.yaml"
	pluginFile    = "warmgate.yaml"
	tunnelFile    = "redis-tunnel.yaml"
	adminSocket   = "admin.sock"
	listenersPage = "/listeners?format=json"
)

// Paths inside the shipped files. The names are part of what is shipped: plugin, listener and cluster.
const (
	listenerPath = "static_resources.listeners[name=main]"
	filtersPath  = ManagerPath + ".http_filters"
	wasmPath     = "resources[name=warmgate].typed_config.config"
	clusterPath  = "resources[name=llm]"
	policyPath   = clusterPath + ".load_balancing_policy.policies"
	fallbackPath = policyPath + "[0].typed_extension_config.typed_config.fallback_policy.policies"
)

// Endpoint is one model server in the cluster.
type Endpoint struct {
	Addr     string // ip:port
	Weight   int    // 0 means 1
	Health   string // HEALTHY, DRAINING, UNHEALTHY, ... as in Envoy's API; "" means UNKNOWN, which is usable
	Priority int    // 0 is the first
	Zone     string // "" for none
}

// Policy is the way the cluster is balanced.
type Policy string

// Policies for PushCluster. Warmgate is the shipped one; the others take the plugin's choice out of the cluster, so
// that Envoy's native balancing can be compared.
const (
	Warmgate     Policy = "warmgate"
	RoundRobin   Policy = "round_robin"
	LeastRequest Policy = "least_request"
)

// shipped reads a file of envoy-config.
func (o *Options) shipped(name string) (*yaml.Node, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	source := name
	if o.Hardened {
		source = hardened[name]
	}
	text, err := os.ReadFile(filepath.Join(root, "envoy-config", source))
	if err != nil {
		return nil, err
	}
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("harness: %s: %w", source, err)
	}
	return doc, nil
}

// hardened names the source of each file in the hardened layout. The model servers are the same in both layouts, and
// the run folder has the same names in both.
var hardened = map[string]string{
	bootstrapFile: "envoy-hardened.yaml",
	clustersFile:  clustersFile,
	endpointsFile: endpointsFile,
	pluginFile:    "warmgate-hardened.yaml",
	tunnelFile:    tunnelFile,
}

// render reads a shipped file, applies the given change and then the caller's own, and returns the text for the run
// folder.
func (o *Options) render(name string, change func(doc *yaml.Node) error) ([]byte, error) {
	doc, err := o.shipped(name)
	if err != nil {
		return nil, err
	}
	if err := change(doc); err != nil {
		return nil, err
	}
	if o.Edit != nil {
		if err := o.Edit(name, doc); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(doc)
}

// bootstrap moves the listener to a free port of the kernel's choice and drops what the Envoy in use does not know yet.
func (o *Options) bootstrap(doc *yaml.Node) error {
	if err := Set(doc, listenerPath+".address.socket_address.port_value", 0); err != nil {
		return err
	}
	if !o.Hardened {
		return nil
	}
	if err := Set(doc, filtersPath+"[name=warmgate].config_discovery.config_source.path_config_source.path",
		"./"+pluginFile); err != nil {
		return err
	}
	if o.Version == OldestVersion {
		return Remove(doc, "admin.allow_paths")
	}
	// The harness reads the listener's port, which the kernel chose.
	paths, err := Find(doc, "admin.allow_paths")
	if err != nil {
		return err
	}
	return paths.Encode(append(paths.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Value: "exact"}, {Kind: yaml.ScalarNode, Value: listenersPage},
	}}))
}

// tunnel leads the tunnel to the Redis server.
func (o *Options) tunnel(doc *yaml.Node) error {
	host, port, err := net.SplitHostPort(o.Redis)
	if err != nil {
		return fmt.Errorf("harness: Redis: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("harness: Redis: %w", err)
	}
	return Set(doc,
		"static_resources.clusters[name=warmgate-redis-server].load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address",
		map[string]any{"address": host, "port_value": number})
}

// plugin sets the module and, unless it is empty, the configuration. A configuration is passed as it is, so that a test
// can push text that is not even JSON.
func (o *Options) plugin(doc *yaml.Node, version int, module, config string) error {
	if err := Set(doc, "version_info", strconv.Itoa(version)); err != nil {
		return err
	}
	if err := Set(doc, wasmPath+".vm_config.code.local.filename", module); err != nil {
		return err
	}
	if o.Hardened && o.Version == OldestVersion {
		if err := moveUp(doc, wasmPath+".vm_config", "capability_restriction_config"); err != nil {
			return err
		}
	}
	if config == "" {
		return nil
	}
	return Set(doc, wasmPath+".configuration", map[string]string{
		"@type": "type.googleapis.com/google.protobuf.StringValue",
		"value": config,
	})
}

// moveUp moves a key of the mapping at path to the mapping around it.
func moveUp(doc *yaml.Node, path, key string) error {
	node, err := Find(doc, path+"."+key)
	if err != nil {
		return err
	}
	around := path[:strings.LastIndexByte(path, '.')]
	return errors.Join(Set(doc, around+"."+key, node), Remove(doc, path+"."+key))
}

// passThrough puts the filter that envoy.yaml names as default in the plugin's place.
func (o *Options) passThrough(doc *yaml.Node, version int) error {
	bootstrap, err := o.shipped(bootstrapFile)
	if err != nil {
		return err
	}
	idle, err := Find(bootstrap, filtersPath+"[name=warmgate].config_discovery.default_config")
	if err != nil {
		return err
	}
	if err := Set(doc, "version_info", strconv.Itoa(version)); err != nil {
		return err
	}
	return Set(doc, "resources[name=warmgate].typed_config", idle)
}

// endpoints writes the list of model servers.
func (o *Options) endpoints(doc *yaml.Node, version int, list []Endpoint) error {
	if err := Set(doc, "version_info", strconv.Itoa(version)); err != nil {
		return err
	}
	var places []place
	hosts := map[place][]any{{}: {}}
	for _, e := range list {
		host, err := e.host()
		if err != nil {
			return err
		}
		at := place{e.Priority, e.Zone}
		if !slices.Contains(places, at) {
			places = append(places, at)
		}
		hosts[at] = append(hosts[at], host)
	}
	if len(places) == 0 {
		places = append(places, place{})
	}
	var groups []any
	for _, at := range places {
		group := map[string]any{"lb_endpoints": hosts[at], "priority": at.priority}
		if at.zone != "" {
			group["locality"] = map[string]any{"zone": at.zone}
		}
		groups = append(groups, group)
	}
	return Set(doc, "resources[cluster_name=llm].endpoints", groups)
}

// place is what endpoints that are listed together have in common.
type place struct {
	priority int
	zone     string
}

// host returns the endpoint as it is listed.
func (e *Endpoint) host() (map[string]any, error) {
	ip, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		return nil, fmt.Errorf("harness: endpoint: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("harness: endpoint %s: %w", e.Addr, err)
	}
	host := map[string]any{
		"endpoint": map[string]any{
			"address": map[string]any{"socket_address": map[string]any{"address": ip, "port_value": n}},
		},
		"load_balancing_weight": max(e.Weight, 1),
	}
	if e.Health != "" {
		host["health_status"] = e.Health
	}
	return host, nil
}

// cluster sets the policy. The native ones keep everything else of the shipped cluster as it is.
func (o *Options) cluster(doc *yaml.Node, version int, policy Policy) error {
	if err := Set(doc, "version_info", strconv.Itoa(version)); err != nil {
		return err
	}
	switch policy {
	case Warmgate, "":
		return nil
	case LeastRequest:
		fallback, err := Find(doc, fallbackPath)
		if err != nil {
			return err
		}
		return Set(doc, policyPath, fallback)
	case RoundRobin:
		return Set(doc, policyPath, []any{map[string]any{"typed_extension_config": map[string]any{
			"name": "envoy.load_balancing_policies.round_robin",
			"typed_config": map[string]any{
				"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
			},
		}}})
	}
	return fmt.Errorf("harness: no policy %q", policy)
}
