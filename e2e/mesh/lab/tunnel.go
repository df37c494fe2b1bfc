package lab

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// RedisHost is where the files in deploy/ look for Redis, in the place of stock Envoy's 127.0.0.1.
const RedisHost = "redis.default.svc.cluster.local"

// IsTunnel compares the listener and the clusters of a file in deploy/, in order, with those of redis-tunnel.yaml.
func IsTunnel(t testing.TB, file string, have []any) {
	t.Helper()
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/redis-tunnel.yaml"), doc); err != nil {
		t.Fatal(err)
	}
	const address = "static_resources.clusters[name=warmgate-redis-server].load_assignment.endpoints[0]." +
		"lb_endpoints[0].endpoint.address.socket_address.address"
	if err := harness.Set(doc, address, RedisHost); err != nil {
		t.Fatal(err)
	}
	var want struct {
		Static struct{ Listeners, Clusters []any } `yaml:"static_resources"`
	}
	if err := doc.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, append(want.Static.Listeners, want.Static.Clusters...)) {
		t.Errorf("%s differs from redis-tunnel.yaml", file)
	}
}
