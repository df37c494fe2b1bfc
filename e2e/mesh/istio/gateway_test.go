package istio

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// Parts of the plugin's configuration in warmgate.yaml.
const (
	policy = `"lb_policy": "global_least_request"`
	config = `"lb_config": {`
	admin  = `"admin_cluster": "prometheus_stats"`

	inTokens = config + `"unit": "tokens", ` // as lab.Gateway.Check expects
)

// host is the host name of route.yaml.
const host = "llm.example.com"

// TestInstall does what the document says: its commands push the images and hand resources to Istio, and what that
// makes of them runs in a real Envoy, with requests.
func TestInstall(t *testing.T) {
	applied, request := installed(t)
	lab.OnVersions(t, func(t *testing.T, version string) {
		gateway := controlled(t, version, with(t, applied, config, inTokens))
		var names []string
		for _, f := range gateway.Filters(t, gateway.name) {
			names = append(names, f["name"].(string))
		}
		const want = "warmgate-strip-client warmgate envoy.filters.http.stateful_session warmgate-take " +
			"envoy.filters.http.router"
		if got := strings.Join(names, " "); !strings.HasSuffix(got, want) {
			t.Errorf("the filters are %s, want %s at the end", got, want)
		}
		gateway.Check(t)
		gateway.Requested(t, request)
	})
}

// TestNoModule names an image that does not exist, and one of another checksum: as the document says, requests are
// balanced natively then.
func TestNoModule(t *testing.T) {
	applied, _ := installed(t)
	for name, text := range map[string]string{
		"not there": with(t, applied, ":0.1.0", ":0.0.0"),
		"of a wrong digest": with(t, applied, "remote:\n", "remote:\n"+strings.Repeat(" ", 18)+"sha256: "+
			strings.Repeat("a", 64)+"\n"),
	} {
		t.Run(name, func(t *testing.T) {
			lab.OnVersions(t, func(t *testing.T, version string) {
				controlled(t, version, text).Native(t)
			})
		})
	}
}

// TestUnnamed sends requests to a service that nobody has named: the plugin counts no more of them than their number.
func TestUnnamed(t *testing.T) {
	applied, request := installed(t)
	gateway := controlled(t, harness.DefaultVersion, with(t, applied, `["vllm.default.svc.cluster.local:8000"]`,
		`["other.default.svc.cluster.local:8000"]`))
	gateway.Requested(t, request)
	gateway.AwaitPrometheus(t, `warmgate_decisions_total\{policy="none",reason="no_rule"\} \d+`)
	if n := gateway.Sum(t, `^wasmcustom\.warmgate_decisions_total.*(chosen|body)`); n != 0 {
		t.Errorf("%v requests were decided", n)
	}
}

// TestMetrics does what TestInstall does, with another policy, which goes by the metrics of the model servers.
func TestMetrics(t *testing.T) {
	applied, _ := installed(t)
	applied = with(t, applied, policy, `"lb_policy": "endpoint_metrics"`)
	lab.OnVersions(t, func(t *testing.T, version string) { controlled(t, version, applied).Scraped(t) })
}

// TestRedis does it with the way to a Redis server, which is that of stock Envoy.
func TestRedis(t *testing.T) {
	var tunnel struct {
		Spec struct {
			Patches []struct{ Patch struct{ Value any } } `yaml:"configPatches"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "redis.yaml")), &tunnel); err != nil {
		t.Fatal(err)
	}
	var have []any
	for _, p := range tunnel.Spec.Patches {
		have = append(have, p.Patch.Value)
	}
	lab.IsTunnel(t, folder+"redis.yaml", have)
	applied, _ := installed(t)
	applied = with(t, applied, admin, admin+`, "redis_cluster": "warmgate-redis"`, config, inTokens+
		`"username": "`+lab.User+`", "password": "`+lab.Password+`", "reserve_timeout": "1s", `)
	lab.OnVersions(t, func(t *testing.T, version string) {
		redis := lab.Redis(t)
		server := fmt.Sprintf("address: 127.0.0.1, port_value: %d", redis.Port())
		gateway := controlled(t, version, applied,
			with(t, read(t, "redis.yaml"), "address: "+lab.RedisHost+", port_value: 6379", server))
		gateway.Shared(t, redis, "outbound|8000||vllm.default.svc.cluster.local")
	})
}
