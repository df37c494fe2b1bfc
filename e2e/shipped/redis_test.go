package shipped

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/redisclient"
)

const aclFile = "envoy-config/redis-user.acl"

// TestEnvoyAcceptsTheTunnel lets each Envoy validate both layouts with the tunnel, started as README.md describes.
func TestEnvoyAcceptsTheTunnel(t *testing.T) {
	envoyAccepts(t, "--config-yaml", string(harness.ReadT(t, "envoy-config/redis-tunnel.yaml")))
}

// TestRedisConfiguration compares warmgate-redis.yaml with warmgate.yaml, and checks that only that one counts in
// Redis.
func TestRedisConfiguration(t *testing.T) {
	for file, want := range map[string]bool{"warmgate.yaml": false, "warmgate-redis.yaml": true} {
		if c := samePlugin(t, file); c.UsesRedis() != want {
			t.Errorf("%s: counts in Redis: %v", file, c.UsesRedis())
		}
	}
}

// TestRedisUsers compares the user's rights with those that redisclient declares and tests. The user default, as whom
// Redis goes on with who is refused, is off.
func TestRedisUsers(t *testing.T) {
	if got, want := string(harness.ReadT(t, aclFile)), "user default off\nuser warmgate on >change-me "+
		redisclient.ACLRules+"\n"; got != want {
		t.Errorf("%s is\n%s, want\n%s", aclFile, got, want)
	}
}

// withUsers starts a server of the version with the shipped users.
func withUsers(t *testing.T, version string) *redisserver.Server {
	t.Helper()
	s := redisserver.StartT(t, redisserver.Options{Version: version})
	setUsers(t, s)
	return s
}

// setUsers gives a server the shipped users, with a password of their own.
func setUsers(t *testing.T, s *redisserver.Server) {
	t.Helper()
	for line := range strings.Lines(harness.Own(string(harness.ReadT(t, aclFile)))) {
		setUser := []any{"ACL", "SETUSER"}
		for _, rule := range strings.Fields(line)[1:] {
			setUser = append(setUser, rule)
		}
		mustDo(t, s, setUser...)
	}
}

func mustDo(t *testing.T, s *redisserver.Server, command ...any) {
	t.Helper()
	if _, err := s.Do(command...); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// TestRedisAsShipped starts both layouts with the shipped plugin configuration for Redis, against each server with the
// shipped user. The plugin uses every command that it has for Redis, also those that count lost leases again. Only the
// time that requests wait for Redis is longer: on a busy machine none may answer within the one that is shipped.
func TestRedisAsShipped(t *testing.T) {
	upstream := server(t)
	text := find[string](t, parse(t, "envoy-config/warmgate-redis.yaml"), pluginPath+".configuration.value")
	const shipped = `"reserve_timeout": "20ms"`
	if strings.Count(text, shipped) != 1 {
		t.Fatalf("the file has not one %s", shipped)
	}
	text = strings.Replace(text, shipped, `"reserve_timeout": "10s"`, 1)
	o := harness.Options{Config: text, Endpoints: []harness.Endpoint{upstream}}
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			var redis *redisserver.Server
			var g *harness.Gateway
			if version == redisserver.Default {
				o.Hardened = true
				kept := take(t, o)
				if g, redis = kept.Gateway, kept.redis; redis == nil {
					t.Skip("there is no Redis server")
				}
			} else {
				harness.LongT(t)
				redis = withUsers(t, version)
				o.Hardened, o.Redis = false, redis.Addr()
				g = harness.StartT(t, o)
			}
			page := func() string { return g.PrometheusT(t) }
			up := regexp.MustCompile(`(?m)^warmgate_redis_up\{\} 1$`)
			await(t, "the Prometheus page", up, func() string { send(t, g); return page() })
			k := redisclient.KeysOf("llm")
			counted := func(want string, keys ...any) {
				await(t, "Redis", regexp.MustCompile("^"+want+"$"), func() string {
					send(t, g)
					n, err := redis.Do(append([]any{"EXISTS"}, keys...)...)
					if err != nil {
						t.Fatal(err)
					}
					return n.String()
				})
			}
			counted("3", k.Table, k.Rows, k.Owners)
			if _, err := redis.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			counted("1", k.Table)
			if denied := regexp.MustCompile(`(?m)^warmgate_store_fallbacks_total\{cause="(denied|auth|error)"\}.*$`).FindString(page()); denied != "" {
				t.Errorf("the shipped user is not enough: %s", denied)
			}
			if log := g.Logs(); strings.Contains(log, harness.OwnSecret) {
				t.Error("the log shows the password")
			}
		})
	}
}

// TestRedisRefusesTheLogin starts the shipped files with a wrong password against a server whose user default may do
// everything, as without a file of users. Nothing is carried out as that user, the statistics and the log say why, and
// the gateway balances by counts of its own. A right that is taken away later is named, too.
func TestRedisRefusesTheLogin(t *testing.T) {
	harness.LongT(t)
	upstream := server(t)
	text := find[string](t, parse(t, "envoy-config/warmgate-redis.yaml"), pluginPath+".configuration.value")
	const password = `"` + harness.OwnSecret + `"`
	if strings.Count(text, password) != 1 {
		t.Fatal("the file has not one password")
	}
	text = strings.Replace(text, password, `"wrong"`, 1)
	text = strings.Replace(text, `"reserve_timeout": "20ms"`, `"reserve_timeout": "10s"`, 1)
	redis := withUsers(t, redisserver.Default)
	mustDo(t, redis, "ACL", "SETUSER", "default", "on", "nopass", "~*", "&*", "+@all")
	g := harness.StartT(t, harness.Options{Redis: redis.Addr(), Config: text, Endpoints: []harness.Endpoint{upstream}})
	page := func() string { send(t, g); return g.PrometheusT(t) }
	await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_redis_up\{\} 0$`), page)
	fallbacks := regexp.MustCompile(`(?m)^warmgate_store_fallbacks_total\{cause="auth"\} [1-9]`)
	await(t, "the Prometheus page", fallbacks, page)
	failures := regexp.MustCompile(`(?m)^warmgate_redis_failures_total\{cause="auth"\} [2-9]`)
	await(t, "the Prometheus page", failures, page)
	await(t, "the log", regexp.MustCompile(`unavailable \(auth: AUTH was answered with WRONGPASS\): using local counts`),
		func() string { return g.Logs() })
	if strings.Contains(g.Logs(), "using shared counts") {
		t.Error("the log says that Redis counts")
	}
	stats, err := redis.CommandStats()
	if err != nil {
		t.Fatal(err)
	}
	if n := stats["evalsha"].Calls + stats["script|load"].Calls; n > 0 {
		t.Errorf("%d commands were carried out as the user default", n)
	}
	mustDo(t, redis, "ACL", "SETUSER", "warmgate", ">wrong")
	await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_redis_up\{\} 1$`), page)
	mustDo(t, redis, "ACL", "SETUSER", "warmgate", "-evalsha")
	await(t, "the log", regexp.MustCompile(`unavailable \(denied: 'evalsha'\): using local counts`),
		func() string { return g.Logs() })
	await(t, "the Prometheus page", regexp.MustCompile(`(?m)^warmgate_redis_failures_total\{cause="denied"\} [1-9]`),
		func() string { return g.PrometheusT(t) })
}

// TestRedisNameOfMasterAndReplica has the shipped tunnel lead to a master and its replica in turn, as a name that
// resolves to both does: the log says so, and requests are counted in the master.
func TestRedisNameOfMasterAndReplica(t *testing.T) {
	harness.LongT(t)
	master := redisserver.StartT(t, redisserver.Options{})
	replica := redisserver.StartReplicaT(t, master)
	g := harness.StartT(t, harness.Options{
		Redis: master.Addr(), Endpoints: []harness.Endpoint{server(t)},
		Config: `{"lb_policy":"global_least_request","lb_config":{"reserve_timeout":"10s","envoy":{` +
			`"admin_cluster":"warmgate-admin","redis_cluster":"warmgate-redis"}}}`,
		Edit: harness.OfFile("redis-tunnel.yaml", func(doc *yaml.Node) error {
			list, err := harness.Find(doc, "static_resources.clusters[name=warmgate-redis-server].load_assignment."+
				"endpoints[0].lb_endpoints")
			if err != nil {
				return err
			}
			var both []any
			for _, s := range []*redisserver.Server{master, replica} {
				both = append(both, map[string]any{"endpoint": map[string]any{"address": map[string]any{
					"socket_address": map[string]any{"address": "127.0.0.1", "port_value": s.Port()},
				}}})
			}
			return list.Encode(both)
		}),
	})
	await(t, "the log", regexp.MustCompile(`read-only replica`), func() string { send(t, g); return g.Logs() })
	const fallbacks = "warmgate_store_fallbacks_total"
	harness.Await(t, func() error {
		before := g.SumT(t, fallbacks)
		for range 40 {
			send(t, g)
		}
		if n := g.SumT(t, fallbacks) - before; n > 0 {
			return fmt.Errorf("%v of 40 requests were not counted in Redis", n)
		}
		return nil
	})
}

// TestTunnelIsNotReachable sends what the tunnel understands to the gateway as a client: it goes to the model servers.
func TestTunnelIsNotReachable(t *testing.T) {
	harness.LongT(t)
	redis := redisserver.StartT(t, redisserver.Options{})
	upstream := server(t)
	g := harness.StartT(t, harness.Options{Redis: redis.Addr(), Endpoints: []harness.Endpoint{upstream}})
	await(t, "the access log", regexp.MustCompile(`POST /v1/x 418`), func() string { send(t, g); return g.AccessLog() })
	for _, host := range []string{"redis", "warmgate-redis", "warmgate-redis-tunnel"} {
		a := harness.Send(t, nil, http.MethodPost, g.URL(), "*3\r\n$3\r\nSET\r\n$6\r\nforged\r\n$1\r\n1\r\n",
			"host: "+host, "x-warmgate-redis-node: "+redis.Addr())
		if a.Status != http.StatusTeapot {
			t.Errorf("%s: answered %d, want the model server's answer", host, a.Status)
		}
	}
	if n, err := redis.Do("EXISTS", "forged"); err != nil || n.Integer() != 0 {
		t.Errorf("a client wrote to Redis: %v %v", n, err)
	}
	var tunnel struct {
		StaticResources struct {
			Listeners []map[string]any
		} `yaml:"static_resources"`
	}
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/redis-tunnel.yaml"), &tunnel); err != nil {
		t.Fatal(err)
	}
	for _, l := range tunnel.StaticResources.Listeners {
		if l["address"] != nil || l["internal_listener"] == nil {
			t.Errorf("listener %v has an address", l["name"])
		}
	}
}
