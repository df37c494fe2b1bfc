package discovery_test

import (
	"fmt"

	"github.com/warmgate/warmgate/plugin/discovery"
)

// The text of Envoy's admin interface has several lines for each endpoint, of which a few are needed.
func ExampleParseClusters() {
	clusters, breakers := discovery.ParseClusters([]byte(`llm::observability_name::llm
llm::default_priority::max_connections::1024
llm::default_priority::max_requests::8
llm::10.0.0.1:8000::cx_active::3
llm::10.0.0.1:8000::rq_active::5
llm::10.0.0.1:8000::health_flags::healthy
llm::10.0.0.1:8000::weight::2
llm::10.0.0.1:8000::zone::a
llm::10.0.0.2:8000::health_flags::/failed_active_hc
llm::10.0.0.2:8000::weight::1
`))
	fmt.Println(breakers["llm"].Active, "of", breakers["llm"].MaxRequests, "requests")
	for _, e := range clusters["llm"] {
		fmt.Println(e.Addr, e.Weight, e.State, e.Zone.Name)
	}
	// Output:
	// 5 of 8 requests
	// 10.0.0.1:8000 2 healthy a
	// 10.0.0.2:8000 1 unhealthy
}

// In Higress the object of a host contains its health.
func ExampleHostState() {
	fmt.Println(discovery.HostState([]byte(`{"health_status": "Healthy", "weight": 1}`)))
	fmt.Println(discovery.HostState([]byte(`{"weight": 1}`)))
	// Output:
	// healthy
	// unhealthy
}

// One VM polls the admin interface and writes a digest to shared memory, which the others read.
func ExampleAppendDigest() {
	clusters, _ := discovery.ParseClusters([]byte("llm::10.0.0.1:8000::health_flags::healthy\n"))
	digest := discovery.AppendDigest(nil, clusters)
	again, err := discovery.ParseDigest(digest)
	fmt.Println(again["llm"][0].Addr, err)
	_, err = discovery.ParseDigest(digest[:len(digest)-1])
	fmt.Println(err)
	// Output:
	// 10.0.0.1:8000 <nil>
	// discovery: not a digest of this version
}
