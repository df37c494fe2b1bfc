package layouts

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// layout is one way to put the plugin into a gateway: what it changes in the shipped files, and what shows that it
// works. Changes are YAML.
type layout struct {
	name    string
	cluster func(f *fleet) string // keys of the cluster over the shipped ones, or fallback; nil: STATIC, plain servers
	route   string                // keys of the route's action over the shipped ones
	front   string                // filter in front of the plugin, and of the one that strips headers
	behind  string                // filter right behind the plugin
	onRoute string                // the filter's configuration on the route, "" where it has none
	check   func(t *testing.T, l *lab, name string)
}

// prefixOf returns the beginning of the paths that lead to a layout.
func prefixOf(name string) string { return "/" + slugOf(name) }

// slugOf is the layout's name as a cluster has it.
func slugOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '.' || r == '/' {
			return '-'
		}
		return r
	}, name)
}

const (
	listener = "static_resources.listeners[name=main]"
	manager  = listener + ".filter_chains[0].filters[0].typed_config"
	hosts    = manager + ".route_config.virtual_hosts"
	filters  = manager + ".http_filters"
	types    = "type.googleapis.com/envoy."
)

type object = map[string]any

// parse reads YAML.
func parse(text string) (o object, err error) {
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("%w:\n%s", err, text)
	}
	return o, nil
}

// find returns a copy of the value at a path of a document.
func find(doc *yaml.Node, path string) (o object, err error) {
	node, err := harness.Find(doc, path)
	if err == nil {
		err = node.Decode(&o)
	}
	return o, err
}

// static is a cluster with a fixed list of endpoints.
func static(addrs []string) string { return "type: STATIC\n" + assignment("", addrs) }

// assignment is the list of endpoints of a cluster. clusterOf sets the name where it is empty.
func assignment(cluster string, addrs []string) string {
	var b strings.Builder
	b.WriteString("load_assignment: {cluster_name: '" + cluster + "', endpoints: [{lb_endpoints: [")
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "{endpoint: {address: {socket_address: {address: '%s', port_value: %s}}}},", host, port)
	}
	return b.String() + "]}]}\n"
}

// render returns the change of the shipped files that adds the layouts. More clusters, in YAML, are added as they are.
func render(list []layout, f *fleet, port int, more []string) func(file string, doc *yaml.Node) error {
	return func(file string, doc *yaml.Node) error {
		switch file {
		case "clusters.yaml":
			return addClusters(doc, list, f, more)
		case "envoy.yaml":
			return errors.Join(
				// in which the counts of the first process reach the second
				harness.Set(doc, "stats_flush_interval", "0.2s"),
				harness.Set(doc, listener+".address.socket_address.port_value", port),
				harness.Set(doc, manager+".upgrade_configs",
					[]object{{"upgrade_type": "websocket"}, {"upgrade_type": "CONNECT"}}),
				addTunnel(doc),
				addRoutes(doc, list),
				addFilters(doc, list),
			)
		}
		return nil
	}
}

func addClusters(doc *yaml.Node, list []layout, f *fleet, more []string) error {
	resources, err := harness.Find(doc, "resources")
	if err != nil {
		return err
	}
	add := func(o object) error {
		node := new(yaml.Node)
		resources.Content = append(resources.Content, node)
		return node.Encode(o)
	}
	for _, l := range list {
		o, err := clusterOf(doc, l, f)
		if err == nil {
			err = add(o)
		}
		if err != nil {
			return err
		}
	}
	for _, text := range more {
		o, err := parse(text)
		if err == nil {
			err = add(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clusterOf returns the layout's cluster: the shipped one with the layout's changes.
func clusterOf(doc *yaml.Node, l layout, f *fleet) (object, error) {
	const policies = "load_balancing_policy.policies[0].typed_extension_config.typed_config.fallback_policy.policies"
	text := static(f.plain)
	if l.cluster != nil {
		text = l.cluster(f)
	}
	own, err := parse(text)
	if err != nil {
		return nil, err
	}
	cluster, err := find(doc, "resources[name=llm]")
	if err != nil {
		return nil, err
	}
	if native, ok := own["fallback"]; ok {
		delete(own, "fallback")
		changed := new(yaml.Node)
		if err := errors.Join(changed.Encode(cluster), harness.Set(changed, policies, []any{native})); err != nil {
			return nil, err
		}
		cluster = nil
		if err := changed.Decode(&cluster); err != nil {
			return nil, err
		}
	}
	// Endpoints are assumed to be healthy from the start, which spares the wait for the first checks.
	delete(cluster, "health_checks")
	delete(cluster, "eds_cluster_config")
	cluster["connect_timeout"] = "60s" // the machine may be busy
	maps.Copy(cluster, own)
	cluster["name"] = slugOf(l.name)
	if a, ok := cluster["load_assignment"].(object); ok {
		a["cluster_name"] = slugOf(l.name)
	}
	if cluster["load_balancing_policy"] == nil {
		delete(cluster, "load_balancing_policy")
	}
	return cluster, nil
}

// addRoutes puts a route to each layout before the shipped one, and adds a virtual host with the same routes where the
// plugin is not in the chain.
func addRoutes(doc *yaml.Node, list []layout) error {
	var routes []object
	for _, l := range list {
		route, err := find(doc, hosts+"[name=llm].routes[0]")
		if err != nil {
			return err
		}
		own, err := parse(l.route)
		if err != nil {
			return err
		}
		route["name"], route["match"] = slugOf(l.name), object{"prefix": prefixOf(l.name)}
		action := route["route"].(object)
		action["cluster"] = slugOf(l.name)
		maps.Copy(action, own)
		if l.front != "" || l.behind != "" {
			on := object{"@type": types + "config.route.v3.FilterConfig", "config": object{}}
			if l.onRoute != "" {
				if on, err = parse(l.onRoute); err != nil {
					return err
				}
			}
			route["typed_per_filter_config"] = object{slugOf(l.name): on}
		}
		routes = append(routes, route)
	}
	shipped, err := find(doc, hosts+"[name=llm].routes[0]")
	if err != nil {
		return err
	}
	tunnel := object{
		"match": object{"connect_matcher": object{}}, "name": "connect",
		"route": object{
			"cluster":         slugOf(tunnelled),
			"upgrade_configs": []object{{"upgrade_type": "CONNECT", "connect_config": object{}}},
		},
	}
	return harness.Set(doc, hosts, []object{
		{"name": "llm", "domains": []string{"*"}, "routes": append(slices.Clone(routes), shipped)},
		{"name": "connect", "domains": []string{tunnelHost}, "routes": []object{tunnel}},
		{"name": "native", "domains": []string{native}, "routes": routes, "typed_per_filter_config": object{
			"warmgate": object{"@type": types + "config.route.v3.FilterConfig", "disabled": true},
		}},
	})
}

// addFilters puts the layouts' filters around the plugin. They are off but on the layout's own route.
func addFilters(doc *yaml.Node, list []layout) error {
	chain, err := harness.Find(doc, filters)
	if err != nil {
		return err
	}
	var front, behind []*yaml.Node
	for _, l := range list {
		for _, place := range []struct {
			text string
			to   *[]*yaml.Node
		}{{l.front, &front}, {l.behind, &behind}} {
			if place.text == "" {
				continue
			}
			typed, err := parse(place.text)
			if err != nil {
				return err
			}
			node := new(yaml.Node)
			if err := node.Encode(object{"name": slugOf(l.name), "disabled": true, "typed_config": typed}); err != nil {
				return err
			}
			*place.to = append(*place.to, node)
		}
	}
	place := func(name string) int {
		return slices.IndexFunc(chain.Content, func(n *yaml.Node) bool {
			have, err := harness.Find(n, "name")
			return err == nil && have.Value == name
		})
	}
	strip, plugin := place("warmgate-strip-client"), place("warmgate")
	if strip < 0 || plugin < strip {
		return errors.New("the shipped chain has changed")
	}
	chain.Content = slices.Insert(chain.Content, plugin+1, behind...)
	chain.Content = slices.Insert(chain.Content, strip, front...)
	return nil
}
