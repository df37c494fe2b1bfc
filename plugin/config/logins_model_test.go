package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// plainLogin is how a rule logs in to a Redis.
type plainLogin struct {
	server, user, password string
	database, timeout      int
	local                  bool // named, but not used
}

func drawLogin(rt *rapid.T) plainLogin {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	return plainLogin{
		server: pick("server", "r1", "r2"), user: pick("user", "u1", "u2"), password: pick("password", "p1", "p2"),
		database: rapid.IntRange(0, 1).Draw(rt, "database"), timeout: rapid.IntRange(1, 2).Draw(rt, "timeout"),
		local: rapid.IntRange(0, 4).Draw(rt, "local") == 0,
	}
}

func (l plainLogin) text(h Host, route int) string {
	store := "redis"
	if l.local {
		store = "local"
	}
	server := `"serviceFQDN":"` + l.server + `"`
	if h == Envoy {
		server = `"envoy":{"admin_cluster":"admin","redis_cluster":"` + l.server + `"}`
	}
	return fmt.Sprintf(`{"_match_route_":["r%d"],"lb_policy":"global_least_request","lb_config":{"store":"%s",%s,`+
		`"username":"%s","password":"%s","database":%d,"timeout":%d}}`,
		route, store, server, l.user, l.password, l.database, l.timeout)
}

// agrees reports whether two rules can be in force at the same time: in Higress all that use a service log in the same
// way; on stock Envoy each user of a database has one password.
func (l plainLogin) agrees(other plainLogin, h Host) bool {
	switch {
	case l.local || other.local || l.server != other.server:
		return true
	case h == Higress:
		return l == other
	}
	return l.user != other.user || l.database != other.database || l.password == other.password
}

// Of rules that log in differently the first one is in force, and each later one that agrees with all before it.
func TestLoginsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := rapid.SampledFrom([]Host{Higress, Envoy}).Draw(rt, "gateway")
		logins := rapid.SliceOfN(rapid.Custom(drawLogin), 1, 5).Draw(rt, "rules")
		var rules []string
		var admitted []plainLogin
		var want []bool
		for i, l := range logins {
			rules = append(rules, l.text(h, i))
			ok := true
			for _, other := range admitted {
				ok = ok && l.agrees(other, h)
			}
			if want = append(want, ok); ok {
				admitted = append(admitted, l)
			}
		}
		set, err := Parse([]byte(rulesOf("", rules...)), h)
		if set == nil || (err == nil) != (len(admitted) == len(logins)) {
			rt.Fatalf("%v: %v", logins, err)
		}
		for i, ok := range want {
			if c := set.Match(fmt.Sprintf("r%d", i), "", ""); c.Refused == ok {
				rt.Fatalf("%v: rule %d is refused: %v; %v", logins, i, c.Refused, err)
			}
		}
	})
}

// drawSingle draws a JSON value that someone might write for a number, a text or a truth value.
func drawSingle(rt *rapid.T) string {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,6})(\.[0-9]{1,3})?(e[0-9])?`).Draw(rt, "number")
	return rapid.SampledFrom([]string{
		number, `"` + number + `"`, "true", "false", "null", `""`, `" ` + number + `"`, `"` + number + `%"`,
		`"0` + number + `"`, `"+` + number + `"`, `"tRuE"`, `"T"`, `"1"`, `"abc"`,
	}).Draw(rt, "value")
}

// Whatever single value is written for a key of Higress's, it means what gjson reads, within the key's bounds.
func TestLooseValuesAgainstGJSON(t *testing.T) {
	bounded := func(n int64, most int) int { return int(min(max(n, 0), int64(most))) }
	for name, meaning := range map[string]func(c *Config, r gjson.Result) (got, want any){
		"maxRequestCount": func(c *Config, r gjson.Result) (any, any) { return c.MaxInflight, bounded(r.Int(), 1e6) },
		"enableDetailLog": func(c *Config, r gjson.Result) (any, any) { return c.DetailLog, r.Bool() },
		"username":        func(c *Config, r gjson.Result) (any, any) { return c.Redis.Username, r.String() },
		"password":        func(c *Config, r gjson.Result) (any, any) { return c.Redis.Password, r.String() },
		"target_metric":   func(c *Config, r gjson.Result) (any, any) { return c.Engines.Target, r.String() },
		"rate_limit": func(c *Config, r gjson.Result) (any, any) {
			if limit := min(max(r.Float(), 0), 1); limit > 0 {
				return c.Engines.RateLimit, limit
			}
			return c.Engines.RateLimit, 1.0 // no limit, as documented
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				text := `{"lb_policy":"endpoint_metrics","lb_config":{"serviceFQDN":"r.dns",` +
					strconv.Quote(name) + `:` + drawSingle(rt) + `}}`
				got, want := meaning(mustParse(rt, []byte(text), Higress), gjson.Get(text, "lb_config."+name))
				if got != want {
					rt.Fatalf("%s: got %v, gjson reads %v", text, got, want)
				}
			})
		})
	}
}

// The endpoints of stock Envoy come from one source, and Higress has none of the keys.
func TestSourceMatrix(t *testing.T) {
	const (
		admin = `"admin_cluster":"a"`
		fixed = `"endpoints":["10.0.0.1:80"]`
		both  = "lb_config.envoy: got both admin_cluster and endpoints, want one of them"
		none  = "lb_config.envoy: missing, want admin_cluster or endpoints"
	)
	for _, c := range []struct{ section, problem string }{
		{admin, ""},
		{fixed, ""},
		{admin + `,"poll_interval":"2s"`, ""},
		{fixed + `,"poll_interval":"2s"`, ""},
		{admin + "," + fixed, both},
		{fixed + "," + admin, both},
		{"", none},
		{`"poll_interval":"2s"`, none},
		{`"redis_cluster":"r"`, none},
	} {
		text := []byte(`{"lb_policy":"global_least_request","lb_config":{"envoy":{` + c.section + `}}}`)
		set, err := Parse(text, Envoy)
		if c.problem != "" {
			if err == nil || !strings.HasPrefix(err.Error(), "config: 1 problem\n  "+c.problem) {
				t.Errorf("%s: got %v, want %s", text, err, c.problem)
			}
		} else if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if src, ok := set.AdminSource(); ok != (src.AdminCluster != "") ||
			ok == (len(set.Match("", "", "").EnvoyCfg.Endpoints) > 0) {
			t.Errorf("%s: source %+v", text, src)
		}
		if _, err := Parse(text, Higress); (err != nil) != (c.section != "") {
			t.Errorf("%s in Higress: %v", text, err)
		}
	}
}

// Each section that has an effect in Higress is described once, in both languages, and contains a key.
func TestSectionsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Sections() {
		if seen[s.Name] || s.Title.EN == "" || s.Title.ZH == "" || s.Meaning.EN == "" || s.Meaning.ZH == "" {
			t.Errorf("section %q: described twice or incompletely", s.Name)
		}
		if seen[s.Name] = true; !isSection(s.Name) {
			t.Errorf("section %q has no key", s.Name)
		}
	}
	for i := range keys {
		k := &keys[i]
		section, _ := split(k.Name)
		if section == "" || k.only == onEnvoy || k.Title.EN == "" {
			continue
		}
		if !seen[section[:len(section)-1]] {
			t.Errorf("%s is in a section without a description", k.Name)
		}
	}
}
