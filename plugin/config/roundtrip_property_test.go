package config

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

// drawn is a key with a valid value, as JSON text and as it is stored.
type drawn struct {
	*key
	text string
	want any // nil if the value is completed or merged with that of another key
}

// drawConfig draws a policy, a gateway and values of some of the keys that are valid with them.
func drawConfig(rt *rapid.T) (members []drawn, name string, h Host) {
	h = rapid.SampledFrom([]Host{Higress, Envoy}).Draw(rt, "gateway")
	name = rapid.SampledFrom(policiesFor(policy.Endpoints)).Draw(rt, "policy")
	chosen, redis := map[string]bool{}, rapid.Bool().Draw(rt, "redis")
	regions := rapid.Bool().Draw(rt, "regions")
	prices := rapid.Bool().Draw(rt, "prices")
	for i := range keys {
		k := &keys[i]
		switch {
		case !k.decodes() || k.Name == "lb_policy" || k.Name == "enabled" || k.only == onEnvoy && h != Envoy:
			continue
		case k.Name == "lb_config.envoy.admin_cluster" || k.Name == "lb_config.envoy.endpoints":
			continue
		case k.Name == keyMaxInflightTokens && policy.Describe(name).Needs.Tokens == "": // the unit is drawn
			continue
		case k.Name == "lb_config.maxRequestCount" && chosen["lb_config.max_inflight"],
			k.Name == keyMetricsEngine && chosen[keyEngine],
			k.Name == keyHashHeader && chosen[keySession]: // another name of the same key
			continue
		case k.Name == keyMetricsCluster && slices.Contains(metricsPolicies(), name):
		case k.Name == keyBudgetTargets && name == "token_budget":
		case k.Name == keyStore || k.Name == keyTunnel || k.Name == keyService && h == Envoy:
			if !redis {
				continue
			}
		case regionValues[k.Name] != "", k.Name == keyAllowed, k.Name == keyInspectPath, k.Name == keyInspectToken:
			if !regions {
				continue
			}
		case k.Name == keyPrices, k.Name == keyCurrency: // one needs the other
			if !prices {
				continue
			}
		case k.Name == keyService && redis:
		case rapid.IntRange(0, 3).Draw(rt, "left out") > 0:
			continue
		}
		chosen[k.Name] = true
		members = append(members, drawMember(rt, k, name))
	}
	if h == Envoy {
		members = append(members, drawSource(rt))
	}
	return members, name, h
}

// drawSource draws where the endpoints of stock Envoy come from.
func drawSource(rt *rapid.T) drawn {
	if rapid.Bool().Draw(rt, "admin cluster") {
		return drawn{find("lb_config.envoy.admin_cluster"), `"admin"`, "admin"}
	}
	return drawn{find("lb_config.envoy.endpoints"), `["10.0.0.1:80",{"address":"[::1]:80","weight":2}]`, nil}
}

// amongValues are values of keys that have no effect on a choice of endpoints.
var amongValues = map[string]string{
	keyClusters: `"x-a"`, keyClusterHeader: `"x-a"`, keyHashClusters: `[{"cluster":"a","weight":100}]`,
	keyFirst: `{}`, keyNested: `{}`, "lb_config.mode": `"LeastBusy"`,
}

// onlyValues are those of keys that have one here.
var onlyValues = map[string]string{
	"lb_type": "endpoint", keyDefaultClass: "default", keyFirstTurn: "default", keyLaterTurn: "default",
	keyService: "redis.dns",
}

// drawMember draws a value of the key that is valid whatever the values of the other keys are.
func drawMember(rt *rapid.T, k *key, name string) drawn {
	whole := func(lo, hi int) string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(rt, k.Name)) }
	ms := func(lo, hi int) drawn {
		n := rapid.IntRange(lo, hi).Draw(rt, k.Name)
		return drawn{k, strconv.Itoa(n), time.Duration(n) * time.Millisecond}
	}
	if text := onlyValues[k.Name]; text != "" {
		return drawn{k, strconv.Quote(text), text}
	}
	switch k.Name {
	case keyClusters, keyClusterHeader, keyHashClusters, keyFirst, keyNested, "lb_config.mode":
		return drawn{k, amongValues[k.Name], nil} // without effect
	case keyBudgetTargets:
		return drawn{k, `{"10.0.0.1:80":{"weight":` + whole(1, 1000) + `}}`, nil}
	case "lb_config.weights":
		return drawn{k, `{"10.0.0.1:80":` + whole(1, 1000) + `}`, nil}
	case keyPush:
		kind := rapid.SampledFrom([]push.Kind{push.Blind, push.Pending}).Draw(rt, k.Name)
		return drawn{k, strconv.Quote(kind.String()), kind}
	case keyClasses:
		return drawn{k, `{"default":` + whole(1, 1000) + `,"high":{"weight":` + whole(1, 1000) + `}}`, nil}
	case keySession, keyPriority, keyOutputFrom:
		return drawn{k, `["header:x-id","body:a.` + whole(1, 9) + `"]`, nil}
	case keyRegionName, keyRegionCluster, keyRegionSecret, keyRegionBefore:
		return drawn{k, regionValues[k.Name], strings.Trim(regionValues[k.Name], `"`)}
	case keyAPIPath, keyAPIToken, keyAPIOnly, keyCallers: // without effect
		return drawn{k, sample(k), nil}
	case keyInspectPath, keyInspectToken:
		return drawn{k, sample(k), strings.Trim(sample(k), `"`)} // one needs the other
	case keyPeers:
		return drawn{k, `[{"name":"eu","cluster":"peer-1","rtt":` + whole(0, 1000) + `},{"name":"ap","cluster":"peer-2"}]`, nil}
	case keyAllowed:
		return drawn{k, rapid.SampledFrom([]string{`[]`, `["eu"]`, `["ap","eu"]`}).Draw(rt, k.Name), nil}
	case keyStore:
		return drawn{k, `"redis"`, StoreRedis}
	case keyUnit:
		if policy.Describe(name).Needs.Tokens != "" {
			return drawn{k, `"tokens"`, lb.Tokens}
		}
	case "lb_config.metrics.path", keyModelsPath:
		return drawn{k, `"/m"`, "/m"}
	case "lb_config.health.ejection_time":
		return ms(100, 1000)
	case "lb_config.health.max_ejection_time":
		return ms(10_000, 20_000)
	case "lb_config.metrics.interval":
		return ms(200, 399)
	case keyStaleAfter:
		return ms(2000, 600_000)
	case "lb_config.metrics.orca":
		return drawn{k, strconv.FormatBool(rapid.Bool().Draw(rt, k.Name)), nil} // false without metrics
	}
	if k.Loose {
		return drawLoose(rt, k)
	}
	return drawStrict(rt, k)
}

// drawPriced draws a value of a key that has to do with prices.
func drawPriced(rt *rapid.T, k *key) drawn {
	switch k.Name {
	case keyCurrency:
		return drawn{k, `"EUR"`, "EUR"}
	case keyWeighBy:
		return drawn{k, `"weights"`, "weights"} // prices may be left out
	}
	n := rapid.IntRange(0, 1000).Draw(rt, k.Name)
	return drawn{k, fmt.Sprintf(`{"m-*":{"input":%d.25,"output":"%d"}}`, n, n), nil}
}

// drawLoose draws a value of a key of Higress's that means what it looks like.
func drawLoose(rt *rapid.T, k *key) drawn {
	switch k.Type {
	case setting.Boolean:
		b := rapid.Bool().Draw(rt, k.Name)
		return drawn{k, strconv.FormatBool(b), b}
	case setting.Text:
		if k.Name == keyEngine {
			return drawn{k, `"vllm"`, nil}
		}
		return drawn{k, `"name"`, "name"}
	case setting.Choice:
		return drawn{k, strconv.Quote(rapid.SampledFrom(k.Choices).Draw(rt, k.Name)), nil}
	case setting.Number:
		f := rapid.Float64Range(0.1, 1).Draw(rt, k.Name)
		return drawn{k, fmt.Sprint(f), f}
	}
	return drawn{k, strconv.Itoa(rapid.IntRange(100, 60_000).Draw(rt, k.Name)), nil}
}

func drawStrict(rt *rapid.T, k *key) drawn {
	if k.Name == keyPrices || k.Name == keyCurrency || k.Name == keyWeighBy {
		return drawPriced(rt, k)
	}
	switch k.Type {
	case setting.Boolean:
		b := rapid.Bool().Draw(rt, k.Name)
		return drawn{k, strconv.FormatBool(b), b}
	case setting.Text, setting.Secret:
		s := rapid.StringMatching("[a-z]{3,9}").Draw(rt, k.Name)
		return drawn{k, strconv.Quote(s), s}
	case setting.Choice:
		return drawn{k, strconv.Quote(rapid.SampledFrom(k.Choices).Draw(rt, k.Name)), nil}
	}
	text, want := drawWithin(rt, k)
	return drawn{k, text, want}
}

// configOf writes the members in their order.
func configOf(policy string, members []drawn) []byte {
	list := []member{{"lb_policy", strconv.Quote(policy)}}
	for _, m := range members {
		list = append(list, member{m.Name, m.text})
	}
	return []byte(writeConfig(list...))
}

// Any combination of valid values is accepted and stored, and keys that are not written have their defaults.
func TestCombinationsOfKeys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members, policy, h := drawConfig(rt)
		c := mustParse(rt, configOf(policy, members), h)
		written := map[string]bool{}
		for _, m := range members {
			written[m.Name] = true
			if effective := m.users == nil || slices.Contains(m.users, policy); !effective {
				continue
			}
			if m.want != nil && m.stored(c) != m.want {
				rt.Fatalf("%s %s: stored %v, want %v", m.Name, m.text, m.stored(c), m.want)
			}
		}
		base := defaults(h)
		for _, k := range strictKeys() {
			merged := k.Name == keyUnit || k.Name == "lb_config.max_inflight" && written["lb_config.maxRequestCount"] ||
				k.Name == keyMetricsEngine || k.Name == keyStore || k.Name == "lb_policy"
			if !written[k.Name] && !merged && k.stored(c) != k.stored(&base) {
				rt.Fatalf("%s is not written, and %v instead of %v", k.Name, k.stored(c), k.stored(&base))
			}
		}
	})
}

// The order in which keys and sections are written has no effect on what is in force.
func TestOrderOfKeysHasNoEffect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members, policy, h := drawConfig(rt)
		c := mustParse(rt, configOf(policy, members), h)
		other := mustParse(rt, configOf(policy, rapid.Permutation(members).Draw(rt, "order")), h)
		if !reflect.DeepEqual(c, other) {
			rt.Fatalf("%+v, in another order %+v", *c, *other)
		}
	})
}

// printed writes down the value of a key as a user would write it.
func printed(rt *rapid.T, k *key, c *Config) string {
	switch v := k.stored(c).(type) {
	case time.Duration:
		switch {
		case k.Type == setting.Seconds:
			return strconv.Itoa(int(v / time.Second))
		case v%time.Millisecond == 0 && rapid.Bool().Draw(rt, "as a number"):
			return strconv.FormatInt(v.Milliseconds(), 10)
		}
		return strconv.Quote(v.String())
	case bool, int, float64:
		text, err := json.Marshal(v)
		if err != nil {
			rt.Fatal(err)
		}
		return string(text)
	default:
		return strconv.Quote(fmt.Sprint(v))
	}
}

// A configuration in force that is written down with all its keys, defaults included, comes to the same again.
func TestWrittenDownAndReadAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members, policy, h := drawConfig(rt)
		c := mustParse(rt, configOf(policy, members), h)
		was := map[string]bool{}
		var list []drawn
		for _, m := range members {
			was[m.Name] = true
			if m.Field == nil || m.Loose || m.set != nil || m.Type == setting.Object { // written as it was
				list = append(list, m)
			}
		}
		for _, k := range strictKeys() {
			empty := fmt.Sprint(k.stored(c)) == ""
			wrongHost := k.only == onEnvoy && h != Envoy
			follows := k.Default == "" && k.Type == setting.Number && !was[k.Name] // another weight
			if k.Name == "lb_policy" || empty || wrongHost || follows {
				continue
			}
			list = append(list, drawn{k, printed(rt, k, c), nil})
		}
		again := mustParse(rt, configOf(c.Policy, list), h)
		if !reflect.DeepEqual(again, c) {
			rt.Fatalf("%+v\nis written down as\n%s\nand read as\n%+v", *c, configOf(c.Policy, list), *again)
		}
	})
}

// A configuration is the same as the global part, and as a rule.
func TestRuleIsReadAsTheGlobalPart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members, policy, h := drawConfig(rt)
		text := string(configOf(policy, members))
		global := mustParse(rt, []byte(text), h)
		s, err := Parse([]byte(`{"_rules_":[{"_match_route_":["r"],`+text[1:]+`]}`), h)
		if err != nil {
			rt.Fatal(err)
		}
		rule := *s.Match("r", "", "")
		if rule.ID--; !reflect.DeepEqual(rule, *global) {
			rt.Fatalf("global part %+v, rule %+v", *global, rule)
		}
	})
}

// Several wrong values are as many problems, each on a line of its own that begins with its path.
func TestEachProblemHasALine(t *testing.T) {
	numeric := slices.DeleteFunc(strictKeys(), func(k *key) bool {
		_, compared := beside[k.Name]
		return len(boundsOf(k)) == 0 || k.only == onEnvoy || compared
	})
	rapid.Check(t, func(rt *rapid.T) {
		chosen := rapid.Permutation(numeric).Draw(rt, "keys")[:rapid.IntRange(2, 8).Draw(rt, "problems")]
		in := rapid.SampledFrom([]string{"", "_rules_[0]."}).Draw(rt, "part")
		list := []member{{"lb_policy", `"prefix_cache"`}}
		for _, k := range chosen {
			list = append(list, member{k.Name, drawBeyond(rt, k)})
		}
		text := writeConfig(list...)
		if in != "" {
			text = `{"_rules_":[{"_match_route_":"r",` + text[1:] + `]}`
		}
		_, err := Parse([]byte(text), Higress)
		if err == nil {
			rt.Fatalf("%s: accepted", text)
		}
		lines := strings.Split(err.Error(), "\n")
		if lines[0] != fmt.Sprintf("config: %d problems", len(chosen)) || len(lines) != len(chosen)+1 {
			rt.Fatalf("%s: %v", text, err)
		}
		for _, k := range chosen {
			if strings.Count(err.Error(), "\n  "+in+k.Name+": got ") != 1 {
				rt.Fatalf("%s: no line for %s in %v", text, k.Name, err)
			}
		}
	})
}

// No number that is written reaches a Config as something that is no number.
func TestNumbersAreFinite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		members, policy, h := drawConfig(rt)
		c := mustParse(rt, configOf(policy, members), h)
		for i := range keys {
			k := &keys[i]
			if k.Field == nil {
				continue
			}
			if f, ok := k.stored(c).(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0) || f < 0) {
				rt.Fatalf("%s: %v", k.Name, f)
			}
		}
	})
}
