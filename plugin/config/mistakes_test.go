package config

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/plugin/config/configtest"
)

// mistake is one of those of all forms.
type mistake configtest.Mistake

// configuration returns the configuration as the plugin gets it, and from which gateway.
func (m *mistake) configuration(t *testing.T) (string, Host) {
	t.Helper()
	host := Envoy
	switch m.Form {
	case "envoy", "istio":
		return m.Text, host
	case "higress":
		host = Higress
	}
	var parsed any
	if err := yaml.Unmarshal([]byte(m.Text), &parsed); err != nil {
		t.Fatalf("%s: %v", m.Text, err)
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), host
}

// TestMistakes writes each of the mistakes: as a whole configuration, and as that of a route that has a good one. What
// is refused leaves the route with that, what is only warned of is in force. The chart's are tested in e2e/helm.
func TestMistakes(t *testing.T) {
	count := map[string]int{}
	for _, found := range configtest.Mistakes(t, "") {
		m := mistake(found)
		count[m.Form]++
		if m.Form == "helm" {
			continue
		}
		raw, host := m.configuration(t)
		set, err := Parse([]byte(raw), host)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if set != nil {
			got += strings.Join(set.Warnings(), "\n")
		}
		if refused := m.Verdict == "refused"; refused != (err != nil) || refused != (set == nil) ||
			!strings.Contains(got, m.Message) {
			t.Errorf("%s\ngot %s\nwant it %s: %s", raw, got, m.Verdict, m.Message)
		}
		if strings.Contains(got, "canary") {
			t.Errorf("%s: a password is shown: %s", raw, got)
		}
		if strings.HasPrefix(raw, "{") && !strings.Contains(got, "not valid JSON") && !strings.Contains(raw, rulesKey) {
			m.asRule(t, raw, host)
		}
	}
	sum := 0
	for _, form := range []string{"higress", "istio", "envoy-gateway", "helm", "envoy"} {
		sum += count[form]
		if count[form] < 5 {
			t.Errorf("only %d mistakes in the form %s", count[form], form)
		}
	}
	if sum < 60 || len(count) != 5 {
		t.Errorf("%d mistakes in the forms %v", sum, count)
	}
}

// asRule writes a mistake in place of the good configuration of a route.
func (m *mistake) asRule(t *testing.T, raw string, host Host) {
	t.Helper()
	const rule = `{"enabled":false,"_rules_":[{"_match_route_":["r"],`
	source := ""
	if host == Envoy {
		source = `,"envoy":{"endpoints":["10.0.0.1:80"]}`
	}
	good, forms, err := Update([]byte(rule+`"lb_policy":"global_least_request","lb_config":{"max_inflight":7`+source+
		`}}]}`), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, _, _ := Update([]byte(rule+strings.TrimPrefix(raw, "{")+"]}"), host, forms)
	if set == nil {
		t.Errorf("%s: the other parts are refused, too", raw)
		return
	}
	before, after := good.Match("r", "", ""), set.Match("r", "", "")
	kept := after.Policy == before.Policy && after.MaxInflight == before.MaxInflight
	if kept != (m.Verdict == "refused") || set.Match("other", "", "").Enabled {
		t.Errorf("%s: %s, and then %+v is in force, before it was %+v", raw, m.Verdict, after, before)
	}
}

// TestMeanings writes each name of a meaning where its key belongs: the hint is that key.
func TestMeanings(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range meanings {
		advice := strings.Contains(m.key, " ")
		if !advice && find(m.key) == nil && !isSection(m.key) {
			t.Errorf("%s is no key", m.key)
		}
		path := m.key[:max(0, strings.LastIndexByte(m.key, '.'))]
		host := Higress
		if m.key == keyTunnel {
			host = Envoy
		}
		pt := &part{parser: &parser{host: host}}
		names := strings.Fields(m.names)
		if " "+strings.Join(names, " ")+" " != m.names {
			t.Errorf("%s: %q", m.key, m.names)
		}
		for _, name := range names {
			if plain(name) != name {
				t.Errorf("%s: a name is written %s", m.key, name)
			}
			if at := path + " " + name; seen[at] {
				t.Errorf("%s in %q has two meanings", name, path)
			} else {
				seen[at] = true
			}
			full := strings.TrimPrefix(path+"."+name, ".")
			if got := pt.intended(path, full); got != m.key && path+"."+got != m.key {
				t.Errorf("%s means %s, the hint is %q", full, m.key, got)
			}
		}
	}
}

// TestNamesakes writes names of keys elsewhere, with other separators and with words around them.
func TestNamesakes(t *testing.T) {
	for full, want := range map[string]string{
		"max_inflight":             "lb_config.max_inflight",
		"queue":                    "lb_config.queue",
		"queue.max_wait":           "lb_config.queue.max_wait",
		"queueMaxWait":             "lb_config.queue.max_wait",
		"lb_config.queue_max_wait": "lb_config.queue.max_wait",
		"lb_config.queue_enabled":  "lb_config.queue",
		"cluster_header":           "lb_config.cluster_header",
		"timeout":                  "lb_config.timeout",
		"lb_config.lb_config":      "lb_config",
		"lb_config.session_config": "lb_config.session",
		"lb_config.lbShadow":       "shadow",
		"name":                     "", // of whatever
		"inflight":                 "",
		"config_settings":          "",
	} {
		pt := &part{parser: &parser{host: Higress}}
		path := ""
		if strings.HasPrefix(full, section) {
			path = "lb_config"
		}
		if got := pt.intended(path, full); got != want {
			t.Errorf("%s: %q, want %q", full, got, want)
		}
	}
}

// TestKeysOfNobody writes keys that nothing resembles, of each kind of value. Higress's own plugin ignores them: so is
// what is a text, a number or nothing, in every part. What may be a switch, or name what is to be touched, is refused.
func TestKeysOfNobody(t *testing.T) {
	names := strings.Fields("shadow_test shadowRequests dark_launch canary trial test evaluate eval_only " +
		"detection_only warn_only record_only what_if plan_only safe_mode inactive deactivated kill_switch " +
		"disable_plugin plugin_enabled stop bypassed 影子模式 match routeName namespace backends exclude_models " +
		"percent rollout phase url priority")
	for _, name := range names {
		for text, refused := range map[string]bool{
			`true`: true, `false`: true, `[]`: true, `["a"]`: true, `{}`: true, `{"a":1}`: true,
			`"on"`: false, `""`: false, `7`: false, `null`: false,
		} {
			member := strconv.Quote(name) + ":" + text
			for _, form := range []string{
				`{"lb_policy":"prefix_cache",` + member + `}`,
				`{"lb_policy":"prefix_cache","lb_config":{` + member + `}}`,
				`{"_rules_":[{"_match_route_":["r"],"lb_policy":"prefix_cache",` + member + `}]}`,
			} {
				set, err := Parse([]byte(form), Higress)
				if refused != (err != nil) || refused != (set == nil) {
					t.Errorf("%s: %v", form, err)
				} else if err == nil && len(set.Warnings()) != 1 {
					t.Errorf("%s: %q", form, set.Warnings())
				} else if err != nil && strings.Contains(err.Error(), "did you mean enabled?") {
					t.Errorf("%s: %v", form, err)
				}
				if set, err := Parse([]byte(form), Envoy); err == nil {
					t.Errorf("%s: %+v on stock Envoy", form, set)
				}
			}
		}
	}
}

// TestSwitchesOfSections writes switches into each section of lb_config: none of the hints is the whole plugin's.
func TestSwitchesOfSections(t *testing.T) {
	for i := range keys {
		end := strings.LastIndexByte(keys[i].Name, '.')
		if end <= len("lb_config") {
			continue
		}
		path := keys[i].Name[:end]
		pt := &part{parser: &parser{host: Higress}}
		for _, name := range []string{"enabled", "enable", "disabled", "off", "is_active", "type", "policy"} {
			full := path + "." + name
			hint := pt.meant(path, full)
			if find(full) == nil && find(path+".enabled") == nil && (strings.Contains(hint, "mean enabled") ||
				strings.Contains(hint, "mean lb_")) && !strings.Contains(hint, "lb_config.") {
				t.Errorf("%s: %q", full, hint)
			}
		}
	}
}

// TestUnitsOfTime writes times in Higress's whole numbers with a unit.
func TestUnitsOfTime(t *testing.T) {
	for text, want := range map[string]string{
		`"30m"`: "30m0s", `"90s"`: "1m30s", `1800`: "30m0s", `"1800"`: "30m0s", `"1h30m"`: "1h30m0s",
	} {
		set, err := Parse([]byte(`{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":`+text+`}}`), Higress)
		if err != nil || len(set.Warnings()) > 0 {
			t.Errorf("%s: %v %q", text, err, set.Warnings())
		} else if got := set.Match("", "", "").Prefix.TTL.String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	k := find("lb_config.failure_cooldown_ms")
	for text, want := range map[string]int{`"30s"`: 30000, `"250ms"`: 250, `30000`: 30000} {
		if got := k.stored(mustParse(t, withKey(k, text), Higress)); got != want {
			t.Errorf("%s: %v ms, want %d", text, got, want)
		}
	}
	set, err := Parse([]byte(`{"lb_policy":"prefix_cache","lb_config":{"redisKeyTTL":"90.5s"}}`), Higress)
	if err != nil || len(set.Warnings()) != 1 || !strings.HasSuffix(set.Warnings()[0], `got "90.5s", taken as 90`) {
		t.Errorf("%v %q", err, set.Warnings())
	}
}

// TestMillisecondsForSeconds finds numbers that may be meant as seconds, and no others.
func TestMillisecondsForSeconds(t *testing.T) {
	for member, want := range map[string]string{
		`"queue":{"max_wait":999},"max_inflight":1`:   `got 999, taken as 999ms; in seconds it is "999s"`,
		`"queue":{"max_wait":0.5},"max_inflight":1`:   `got 0.5, taken as 500µs; in seconds it is "0.5s"`,
		`"queue":{"max_wait":3e1},"max_inflight":1`:   `got 3e1, taken as 30ms; in seconds it is "30s"`,
		`"queue":{"max_wait":1000},"max_inflight":1`:  "",
		`"queue":{"max_wait":0},"max_inflight":1`:     "",
		`"queue":{"max_wait":"30s"},"max_inflight":1`: "",
		`"queue":{"max_wait":"9ms"},"max_inflight":1`: "",
		`"body_timeout":250`:                          "", // no longer than a minute
		`"body_timeout":61`:                           "",
		`"body_timeout":60`:                           `got 60, taken as 60ms; in seconds it is "60s"`,
		`"body_timeout":5`:                            `got 5, taken as 5ms; in seconds it is "5s"`,
		`"serviceFQDN":"r.dns","reserve_timeout":2`:   `got 2, taken as 2ms; in seconds it is "2s"`,
		`"serviceFQDN":"r.dns","reserve_timeout":5`:   `got 5, taken as 5ms; in seconds it is "5s"`,
		`"serviceFQDN":"r.dns","reserve_timeout":20`:  "",
		`"serviceFQDN":"r.dns","reserve_timeout":50`:  "",
		`"metrics":{"interval":500},"push":"pending"`: "", // no longer than a minute
		`"serviceFQDN":"r.dns","timeout":500`:         "", // in Higress's plugins these are milliseconds
	} {
		set, err := Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+member+`}}`), Higress)
		if err != nil {
			t.Errorf("%s: %v", member, err)
			continue
		}
		if got := strings.Join(set.Warnings(), "; "); (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", member, got, want)
		}
	}
}
