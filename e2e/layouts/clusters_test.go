package layouts

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// clusterLayouts are types of clusters, ways to reach their endpoints, and native policies under the plugin's choice.
var clusterLayouts = []layout{
	{name: "STATIC"},
	{name: "EDS", cluster: func(*fleet) string {
		return "type: EDS\neds_cluster_config: {service_name: llm, eds_config: " +
			"{resource_api_version: V3, path_config_source: {path: ./endpoints.yaml}}}\n"
	}},
	{name: "STRICT_DNS", cluster: dns("STRICT_DNS", size)},
	{name: "LOGICAL_DNS", cluster: dns("LOGICAL_DNS", 1), check: oneEndpoint},
	{name: "IPv6", cluster: func(f *fleet) string { return static(f.six) }},
	{name: "TLS", cluster: func(f *fleet) string { return static(f.secure) + tls(f, "http/1.1") }},
	{name: "HTTP2 upstream", cluster: overHTTP2},
	{name: "TLS with HTTP2", cluster: func(f *fleet) string {
		return static(f.secure) + tls(f, "h2") + http2
	}},
	{name: "ORIGINAL_DST", cluster: func(*fleet) string {
		return "type: ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED\nload_balancing_policy: null\n" +
			"original_dst_lb_config: {use_http_header: true, http_header_name: x-to}\n"
	}, check: originalDst},
	{name: "Unix sockets", cluster: func(f *fleet) string {
		return "type: STATIC\nload_assignment: {endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: " +
			"{path: '" + f.socket + "'}}}}]}]}\n"
	}, check: unknownAddress},
	{name: "round_robin", cluster: fallback("round_robin", "RoundRobin")},
	{name: "least_request", cluster: fallback("least_request", "LeastRequest")},
	{name: "ring_hash", cluster: fallback("ring_hash", "RingHash")},
	{name: "maglev", cluster: fallback("maglev", "Maglev")},
	{name: "random", cluster: fallback("random", "Random")},
	{name: "stateful_session only", cluster: func(f *fleet) string {
		return static(f.plain) + "lb_policy: ROUND_ROBIN\nload_balancing_policy: null\n"
	}},
	{name: "circuit breaker", cluster: func(f *fleet) string {
		return static(f.plain) + "circuit_breakers: {thresholds: [{max_requests: 4}]}\n"
	}, check: overflows},
}

// http2 has Envoy speak HTTP/2 to the servers.
const http2 = "typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {'@type': " +
	types + "extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}\n"

func overHTTP2(f *fleet) string { return static(f.plain) + http2 }

// tls has Envoy speak TLS to the servers, and check what they show.
func tls(f *fleet, protocol string) string {
	return "transport_socket: {name: tls, typed_config: {'@type': " + types +
		"extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: example.com, common_tls_context: " +
		"{alpn_protocols: ['" +
		protocol + "'], validation_context: {trusted_ca: {inline_string: " + strconv.Quote(f.cert) + "}}}}}\n"
}

// dns names the first n servers by a host name.
func dns(kind string, n int) func(*fleet) string {
	return func(f *fleet) string {
		named := assignment("", f.plain[:n])
		return "type: " + kind + "\ndns_lookup_family: V4_ONLY\n" + strings.ReplaceAll(named, "127.0.0.1", "localhost")
	}
}

// fallback puts another native policy under the plugin's choice.
func fallback(name, message string) func(*fleet) string {
	return func(f *fleet) string {
		return static(f.plain) + "fallback: {typed_extension_config: {name: envoy.load_balancing_policies." +
			name + ", typed_config: {'@type': " + types + "extensions.load_balancing_policies." + name +
			".v3." + message + "}}}\n"
	}
}

// oneEndpoint checks that a cluster of type LOGICAL_DNS is one endpoint, as docs/envoy.md describes.
func oneEndpoint(t *testing.T, l *lab, name string) { l.balances(t, name, 1, query{}) }

// unknownAddress has an endpoint that has no IP address: the plugin leaves the cluster to Envoy.
func unknownAddress(t *testing.T, l *lab, name string) {
	for _, host := range []string{byRequests, byTokens} {
		if a := l.must(t, name, query{host: host}); a.status != http.StatusOK || a.reason() != "no_endpoints" {
			t.Errorf("%s: %d, reason %q", host, a.status, a.reason())
		}
		l.asNative(t, name, query{host: host})
	}
}

// overflows sends more requests at once than the cluster's circuit breaker lets through: those above its limit get
// Envoy's 503, and their leases come back like the others.
func overflows(t *testing.T, l *lab, name string) {
	const most, requests = 4, 12
	l.known(t, name, byRequests, query{})
	harness.Await(t, func() error { // once nothing of the probes is left
		answers, _ := l.crowd(t, name, requests, query{})
		good := 0
		for _, a := range answers {
			if a.status == http.StatusOK {
				good++
			} else if a.status != http.StatusServiceUnavailable {
				t.Errorf("%d, %q", a.status, a.body)
			}
			if a.reason() != "chosen" {
				t.Errorf("reason %q", a.reason())
			}
		}
		if good != most {
			return fmt.Errorf("%d of %d were served, want %d", good, requests, most)
		}
		return nil
	})
	settled(t, l, name)
}

// settled waits until nothing is counted at any endpoint: each of several requests, one after the other, finds load 1.
func settled(t *testing.T, l *lab, name string) {
	t.Helper()
	harness.Await(t, func() error {
		for range 2 * size {
			if a := l.must(t, name, query{}); a.load() != "1" {
				return fmt.Errorf("%d, reason %q, load %q where nothing is in flight", a.status, a.reason(), a.load())
			}
		}
		return nil
	})
}

// originalDst sends requests to the servers that they name. Envoy lists those that were named in the last seconds; they
// are not endpoints to choose from.
func originalDst(t *testing.T, l *lab, name string) {
	harness.Await(t, func() error { // all of them are in the list that the plugin reads
		for server, addr := range l.fleet.plain {
			id, e := l.fleet.begin(func(w http.ResponseWriter, _ *http.Request, _, _ int) {
				_, _ = io.WriteString(w, "hello")
			})
			a := l.must(t, name, query{exchange: id, header: []string{"x-to", addr}})
			if n := e.spread(); a.status != http.StatusOK || n[server] != 1 || a.reason() != "no_endpoints" {
				t.Fatalf("%d, reason %q, requests by server %v, want server %d", a.status, a.reason(), n, server)
			}
		}
		page, err := l.g.Clusters(t.Context())
		for _, addr := range l.fleet.plain {
			if err == nil && !strings.Contains(page, slugOf(name)+"::"+addr+"::health_flags::healthy") {
				err = fmt.Errorf("%s is not in the list", addr)
			}
		}
		return err
	})
}
