package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/policy"
)

const (
	noService = "lb_config.serviceFQDN: missing, want the name of the Redis service"
	noCluster = "lb_config.envoy.redis_cluster: missing, want the name of the cluster that leads to Redis"
	notHere   = "lb_config.envoy.redis_cluster: only valid on stock Envoy; in Higress serviceFQDN names"
	theirs    = "lb_config.serviceFQDN: names a service of Higress; want lb_config.envoy.redis_cluster"
)

var storeCases = []struct {
	host             Host
	store            string
	service, cluster bool
	want             StoreKind
	problem          string
}{
	{host: Higress, want: StoreLocal},
	{host: Higress, service: true, want: StoreRedis},
	{host: Higress, store: "local", want: StoreLocal},
	{host: Higress, store: "local", service: true, want: StoreLocal},
	{host: Higress, store: "redis", service: true, want: StoreRedis},
	{host: Higress, store: "redis", problem: noService},
	{host: Higress, cluster: true, problem: notHere},
	{host: Higress, service: true, cluster: true, problem: notHere},

	{host: Envoy, want: StoreLocal},
	{host: Envoy, cluster: true, want: StoreRedis},
	{host: Envoy, service: true, cluster: true, want: StoreRedis},
	{host: Envoy, service: true, problem: theirs},
	{host: Envoy, store: "local", want: StoreLocal},
	{host: Envoy, store: "local", service: true, want: StoreLocal},
	{host: Envoy, store: "local", cluster: true, want: StoreLocal},
	{host: Envoy, store: "redis", cluster: true, want: StoreRedis},
	{host: Envoy, store: "redis", problem: noCluster},
	{host: Envoy, store: "redis", service: true, problem: noCluster},
}

// Where load is counted follows from the key store, and otherwise from whether a Redis is named in the way of the
// gateway.
func TestStoreMatrix(t *testing.T) {
	for _, c := range storeCases {
		list := []member{{"lb_policy", `"global_least_request"`}}
		if c.host == Envoy {
			list = append(list, member{"lb_config.envoy.admin_cluster", `"admin"`})
		}
		if c.store != "" {
			list = append(list, member{keyStore, `"` + c.store + `"`})
		}
		if c.service {
			list = append(list, member{keyService, `"redis.dns"`})
		}
		if c.cluster {
			list = append(list, member{keyTunnel, `"redis"`})
		}
		set, err := Parse([]byte(writeConfig(list...)), c.host)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), "\n  "+c.problem) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if got := set.Match("", "", ""); got.Store != c.want || got.UsesRedis() != (c.want == StoreRedis) {
			t.Errorf("%+v: store %v, uses Redis: %v", c, got.Store, got.UsesRedis())
		}
	}
}

// Each key of Redis that is written has a warning while load is counted locally, and none while Redis is used.
func TestRedisKeysWithoutRedis(t *testing.T) {
	for _, name := range redisKeys {
		k := find(name)
		if k.only == onEnvoy {
			continue
		}
		for _, store := range []string{"local", "redis"} {
			list := []member{{"lb_policy", `"global_least_request"`}, {keyStore, `"` + store + `"`}}
			if name != keyService {
				list = append(list, member{keyService, `"redis.dns"`})
			}
			text := []byte(writeConfig(append(list, member{name, sample(k)})...))
			set, err := Parse(text, Higress)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			warning := name + " has no effect with store local"
			if got := strings.Contains(strings.Join(set.Warnings(), "\n"), warning); got != (store == "local") {
				t.Errorf("%s: warnings %q", text, set.Warnings())
			}
		}
	}
}

// The names of stores are those of the configuration, and no other name is one.
func TestStoreNames(t *testing.T) {
	for _, kind := range []StoreKind{StoreLocal, StoreRedis} {
		var again StoreKind
		if err := again.UnmarshalText([]byte(kind.String())); err != nil || again != kind {
			t.Errorf("%v: %v, %v", kind, again, err)
		}
	}
	kind := StoreRedis
	if err := kind.UnmarshalText([]byte("memory")); err == nil || kind != StoreRedis {
		t.Errorf("memory is the store %v, %v", kind, err)
	}
}

// What is printed of a Redis names the server and what is counted together there, and never the login.
func TestRedisAsText(t *testing.T) {
	for want, r := range map[string]Redis{
		"none":                                 {},
		"redis cluster c database 0":           {Cluster: "c"},
		`redis cluster c database 3 scope "s"`: {Cluster: "c", Database: 3, Scope: "s", Username: "hidden"},
		"redis service r.dns:6379 database 0":  {ServiceFQDN: "r.dns", ServicePort: 6379, Password: "hidden"},
		`redis service r.dns:1 database 2 scope "a b"`: {
			ServiceFQDN: "r.dns", ServicePort: 1, Database: 2, Scope: "a b", Username: "hidden", Password: "hidden",
		},
	} {
		for _, got := range []string{r.String(), fmt.Sprint(r), fmt.Sprintf("%#v", r), fmt.Sprintf("%+v", r)} {
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

// With each policy, exactly the keys of other policies have a warning that they have no effect.
func TestKeysOfOtherPoliciesAreWarned(t *testing.T) {
	for _, name := range policiesFor(policy.Endpoints) {
		d := policy.Describe(name)
		for i := range keys {
			k := &keys[i]
			if !k.decodes() || k.only == onEnvoy || k.NoEffect != "" || k.Name == "lb_policy" || k.Name == "enabled" {
				continue
			}
			list := append(regionNeeds(k.Name), member{"lb_policy", `"` + d.Name + `"`})
			if k.Name == keyInspectPath || k.Name == keyPrices {
				list = append(list, beside[k.Name])
			}
			if k.Name != keyBudgetTargets {
				list = append(list, policyNeeds(d.Name)...)
			}
			value := sample(k)
			if k.Name == keyUnit && d.Needs.Tokens != "" {
				value = `"tokens"`
			}
			if k.Name == keyMaxInflightTokens {
				list = append(list, member{keyUnit, `"tokens"`})
			}
			text := []byte(writeConfig(append(list, member{k.Name, value})...))
			set, err := Parse(text, Higress)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			foreign := len(k.users) > 0
			for _, user := range k.users {
				foreign = foreign && user != d.Name
			}
			warning := k.Name + " has no effect without lb_policy " + strings.Join(k.users, " or ")
			if got := strings.Contains(strings.Join(set.Warnings(), "\n"), warning); got != foreign {
				t.Errorf("%s: warnings %q, of other policies: %v", text, set.Warnings(), foreign)
			}
		}
	}
}

// A part that is switched off needs no policy and no Redis, and its keys are not compared with each other; their values
// are checked nevertheless.
func TestSwitchedOff(t *testing.T) {
	for _, h := range []Host{Higress, Envoy} {
		for _, text := range []string{
			`{"enabled":false}`,
			`{"enabled":false,"lb_config":{"store":"redis"}}`,
			`{"enabled":false,"lb_policy":"prefix_cache","lb_config":{"unit":"requests"}}`,
			`{"lb_config":{"health":{"ejection_time":"2s","max_ejection_time":"1s"}},"enabled":false}`,
			`{"enabled":false,"lb_policy":"endpoint_metrics"}`,
		} {
			if c := mustParse(t, []byte(text), h); c.Enabled || c.UsesRedis() || c.Scrapes(h) {
				t.Errorf("%s: %+v", text, *c)
			}
		}
		if what := refused(t, []byte(`{"enabled":false,"lb_config":{"max_inflight":-1}}`), h,
			"lb_config.max_inflight"); what != "got -1, want a whole number from 0 to 1000000" {
			t.Errorf("%q", what)
		}
	}
}
