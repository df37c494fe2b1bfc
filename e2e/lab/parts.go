package lab

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/freeport"
	"github.com/warmgate/warmgate/e2e/harness"
)

// Parts are a file of envoy-config by which a route takes its cluster from a header: sites.yaml or regions.yaml.
type Parts struct {
	Early    yaml.Node `yaml:"early_header_mutation_extensions"`
	Routes   yaml.Node
	Clusters []map[string]any
}

// ReadParts reads the file of that name.
func ReadParts(name string) *Parts {
	p := new(Parts)
	text := Must(os.ReadFile(filepath.Join(Must(harness.Root()), "envoy-config", name)))
	Check(yaml.Unmarshal(text, p))
	return p
}

// AddRoutes adds the route to envoy.yaml, and removes the header of clients before it is selected.
func (p *Parts) AddRoutes(doc *yaml.Node) error {
	if err := harness.Set(doc, harness.ManagerPath+".early_header_mutation_extensions", &p.Early); err != nil {
		return err
	}
	text, err := yaml.Marshal(&p.Routes)
	if err != nil {
		return err
	}
	return harness.Insert(doc, harness.RoutesPath, "", 0, string(text))
}

// Cluster returns a cluster of the addresses, in everything else like one of those that are shipped.
func (p *Parts) Cluster(like int, name string, addrs ...string) map[string]any {
	c := maps.Clone(p.Clusters[like])
	c["name"], c["load_assignment"] = name, Assignment(name, addrs...)
	return c
}

// Assignment has a cluster consist of the addresses.
func Assignment(name string, addrs ...string) map[string]any {
	var hosts []any
	for _, addr := range addrs {
		host, port, _ := net.SplitHostPort(addr) // Envoy refuses what is no address
		hosts = append(hosts, map[string]any{"endpoint": map[string]any{"address": map[string]any{
			"socket_address": map[string]any{"address": host, "port_value": port},
		}}})
	}
	return map[string]any{"cluster_name": name, "endpoints": []any{map[string]any{"lb_endpoints": hosts}}}
}

// AddClusters adds clusters to clusters.yaml, and more of them as text.
func AddClusters(doc *yaml.Node, all []map[string]any, more string) error {
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return harness.Insert(doc, "resources", "", 1, string(text)+more)
}

// FreeAddrs returns addresses for servers that come back at the same ones.
func FreeAddrs(n int) (addrs []string) {
	for range n {
		addrs = append(addrs, "127.0.0.1:"+strconv.Itoa(Must(freeport.Get())))
	}
	return addrs
}
