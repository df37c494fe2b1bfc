package envoygateway

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestInstall does what the document says: its commands push the images and hand resources to Envoy Gateway, which
// fetches the module and serves the configuration that it makes of them to a real Envoy, with requests.
func TestInstall(t *testing.T) {
	list, request := installed(t)
	set(t, configOf(t, list), "tokens", "lb_config", "unit") // as lab.Gateway.Check expects
	lab.OnVersions(t, func(t *testing.T, version string) {
		gateway := controlled(t, version, list)
		inOrder(t, gateway.Filters(t, listener), "envoy.filters.http.wasm", "envoy.filters.http.stateful_session")
		gateway.Check(t)
		gateway.Requested(t, request)
	})
}

// TestNoModule names an image that does not exist, one of another checksum, and one whose module is too large or cannot
// be loaded: as the document says, requests are balanced natively then.
func TestNoModule(t *testing.T) {
	for name, test := range map[string]struct {
		spoil  func(image any)
		reason string // in the log of Envoy Gateway or of Envoy
	}{
		"not there": {func(image any) {
			set(t, image, strings.Replace(at(t, image, "url").(string), ":0.1.0", ":0.0.0", 1), "url")
		}, "MANIFEST_UNKNOWN"},
		"of a wrong digest": {func(image any) { set(t, image, strings.Repeat("0", 64), "sha256") }, "does not match"},
		"too large":         {func(image any) { set(t, image, tooLarge(t), "url") }, "exceeds maximum size 268435456"},
		"no module":         {func(image any) { set(t, image, noModule(t), "url") }, "Failed to load Wasm code"},
	} {
		t.Run(name, func(t *testing.T) {
			list, _ := installed(t)
			test.spoil(imageOf(t, list))
			gateway := controlled(t, harness.DefaultVersion, list)
			gateway.Native(t)
			if !strings.Contains(gateway.plane.logged()+gateway.Log(), test.reason) {
				t.Errorf("no log has %q", test.reason)
			}
		})
	}
}

// TestMetrics does the same as TestInstall with another policy, which goes by the metrics of the model servers.
func TestMetrics(t *testing.T) {
	list, _ := installed(t)
	configOf(t, list)["lb_policy"] = "endpoint_metrics"
	lab.OnVersions(t, func(t *testing.T, version string) { controlled(t, version, list).Scraped(t) })
}

// configOf returns the plugin's configuration in a list of resources.
func configOf(t *testing.T, list []resource) map[string]any {
	t.Helper()
	return at(t, find(t, list, "EnvoyExtensionPolicy"), "spec", "wasm", 0, "config").(map[string]any)
}

// TestRedis does the same with the way to a Redis server, which is that of stock Envoy.
func TestRedis(t *testing.T) {
	tunnel := read(t, "redis.yaml")
	var have []any
	var server map[string]any
	for _, patch := range at(t, tunnel[0], "spec", "jsonPatches").([]any) {
		value := at(t, patch, "operation", "value").(map[string]any)
		if have = append(have, value); value["name"] == "warmgate-redis-server" {
			server = value
		}
	}
	lab.IsTunnel(t, "deploy/envoy-gateway/redis.yaml", have)
	list, _ := installed(t)
	lb := at(t, configOf(t, list), "lb_config").(map[string]any)
	set(t, lb, "warmgate-redis", "envoy", "redis_cluster")
	lb["unit"] = "tokens"
	lb["username"], lb["password"], lb["reserve_timeout"] = lab.User, lab.Password, "1s"
	list = append(list, tunnel...)
	lab.OnVersions(t, func(t *testing.T, version string) {
		redis := lab.Redis(t)
		set(t, server, map[string]any{"address": "127.0.0.1", "port_value": redis.Port()},
			"load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "socket_address")
		controlled(t, version, list).Shared(t, redis, "httproute/default/llm/rule/0")
	})
}

// inOrder checks that the filters around the plugin, the last ones in front of the router, are in order, and how the
// plugin is run.
func inOrder(t *testing.T, filters []map[string]any, plugin, session string) {
	t.Helper()
	last := filters[max(0, len(filters)-4):]
	for i, prefix := range []string{"warmgate-strip-client", plugin, session, "envoy.filters.http.router"} {
		if i >= len(last) || !strings.HasPrefix(last[i]["name"].(string), prefix) {
			t.Fatalf("the last filters are %v", last)
		}
	}
	config := at(t, last[1], "typed_config", "config").(map[string]any)
	limit := at(t, config, "vm_config", "environment_variables", "key_values", "GOMEMLIMIT")
	whole := plugin == "warmgate" // its module is a file, which is not fetched
	if config["failure_policy"] == "FAIL_RELOAD" != whole || config["fail_open"] == true == whole ||
		config["allow_on_headers_stop_iteration"] != true || limit != "48MiB" {
		t.Errorf("the plugin is run with %v", config)
	}
}
