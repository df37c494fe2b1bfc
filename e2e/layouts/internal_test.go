package layouts

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// inside is the internal listener through which servers are reached, and the cluster behind it.
const inside = "to-servers"

// internalLayouts have servers behind an internal listener, as those of an ambient mesh have for a gateway of Istio.
var internalLayouts = []layout{
	{name: "internal listener", cluster: func(f *fleet) string { return behind(f.plain, f.plain) }, check: tunnels},
	{name: "internal address without an id", cluster: func(f *fleet) string {
		return behind(f.plain[:1], []string{""})
	}, check: unknownAddress},
}

// behind is a cluster whose servers are reached through the tunnel. Their addresses have an id each.
func behind(addrs, ids []string) string {
	var b strings.Builder
	b.WriteString("type: STATIC\nload_assignment: {cluster_name: '', endpoints: [{lb_endpoints: [")
	for i, addr := range addrs {
		fmt.Fprintf(&b, "{endpoint: {address: {envoy_internal_address: {server_listener_name: %s, "+
			"endpoint_id: '%s'}}}, metadata: {filter_metadata: {envoy.filters.listener.original_dst: "+
			"{local: '%s'}}}},", inside, ids[i], addr)
	}
	const extensions = types + "extensions.transport_sockets."
	b.WriteString("]}]}\ntransport_socket: {name: internal, typed_config: {'@type': " + extensions +
		"internal_upstream.v3.InternalUpstreamTransport, passthrough_metadata: " +
		"[{name: envoy.filters.listener.original_dst, kind: {host: {}}}], " +
		"transport_socket: {name: raw, typed_config: {'@type': " + extensions + "raw_buffer.v3.RawBuffer}}}}\n")
	return b.String()
}

// tunnelCluster is the cluster behind the tunnel: it connects to the address in the metadata of the endpoint.
func tunnelCluster() string {
	return "'@type': " + types + "config.cluster.v3.Cluster\nname: " + inside + "\ntype: ORIGINAL_DST\n" +
		"lb_policy: CLUSTER_PROVIDED\nconnect_timeout: 60s\n"
}

// addTunnel adds the internal listener.
func addTunnel(doc *yaml.Node) error {
	return harness.Insert(doc, "static_resources.listeners", "main", 1, `
- name: `+inside+`
  internal_listener: {}
  listener_filters:
  - name: envoy.filters.listener.original_dst
    typed_config: {"@type": `+types+`extensions.filters.listener.original_dst.v3.OriginalDst}
  filter_chains:
  - filters:
    - name: envoy.filters.network.tcp_proxy
      typed_config:
        "@type": `+types+`extensions.filters.network.tcp_proxy.v3.TcpProxy
        stat_prefix: `+inside+`
        cluster: `+inside+`
`)
}

// tunnels checks that endpoints behind the internal listener are balanced and retried like others.
func tunnels(t *testing.T, l *lab, name string) {
	l.balances(t, name, size, query{})
	l.retries(t, name, failing)
	host := l.must(t, name, query{}).header.Get("x-warmgate-host")
	if !strings.HasPrefix(host, "envoy://"+inside+"/127.0.0.1:") {
		t.Errorf("the endpoint is called %q", host)
	}
}
