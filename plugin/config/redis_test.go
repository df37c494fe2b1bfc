package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestHigressCluster(t *testing.T) {
	for text, want := range map[string]string{
		`"serviceFQDN":"redis.static"`:                               "outbound|80||redis.static",
		`"serviceFQDN":"redis.static","servicePort":6379`:            "outbound|6379||redis.static",
		`"serviceFQDN":"redis.dns","servicePort":0`:                  "outbound|6379||redis.dns",
		`"store":"redis","serviceFQDN":"redis.ns.svc.cluster.local"`: "outbound|6379||redis.ns.svc.cluster.local",
	} {
		set, err := Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+text+`}}`), Higress)
		if err != nil {
			t.Fatal(err)
		}
		if c := set.Match("", "", ""); c.Redis.HigressCluster() != want || !c.UsesRedis() {
			t.Errorf("%s: %s, uses Redis: %v", text, c.Redis.HigressCluster(), c.UsesRedis())
		}
	}
}

// Higress keeps one set of settings for a Redis service, so parts of a configuration must not differ in any.
func TestOneLogin(t *testing.T) {
	const login = `"serviceFQDN":"r.dns","username":"u","password":"p","database":1,"timeout":1000`
	for other, problem := range map[string]string{
		login: "",
		`"serviceFQDN":"r.dns","username":"v","password":"p","database":1,"timeout":1000`: "another username",
		`"serviceFQDN":"r.dns","username":"u","password":"q","database":1,"timeout":1000`: "another password",
		`"serviceFQDN":"r.dns","username":"u","password":"p","database":2,"timeout":1000`: "another database",
		`"serviceFQDN":"r.dns","username":"u","password":"p","database":1`:                "another timeout",
		`"serviceFQDN":"r.dns","servicePort":6380`:                                        "",
		`"serviceFQDN":"s.dns"`:                 "",
		`"serviceFQDN":"r.dns","store":"local"`: "",
	} {
		text := `{"lb_policy":"global_least_request","lb_config":{` + login + `},
			"_rules_":[{"_match_route_":["r"],"lb_policy":"global_least_request","lb_config":{` + other + `}}]}`
		_, err := Parse([]byte(text), Higress)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem+" than elsewhere") {
			t.Errorf("%s: %v, want %q", other, err, problem)
		}
	}
}

// Stock Envoy logs in with each call, so that parts may use several users and databases, but a user has one password.
func TestOnePasswordOfAUser(t *testing.T) {
	const part = `"envoy":{"admin_cluster":"a","redis_cluster":"%s"},` +
		`"username":"%s","password":"%s","database":%d,"timeout":%d`
	for _, c := range []struct {
		cluster, user, password string
		database, timeout       int
		bad                     bool
	}{
		{cluster: "r", user: "u", password: "p"},
		{cluster: "r", user: "u", password: "p", timeout: 5},
		{cluster: "r", user: "u", password: "q", bad: true},
		{cluster: "r", user: "u", password: "q", database: 1},
		{cluster: "r", user: "v", password: "q"},
		{cluster: "s", user: "u", password: "q"},
	} {
		text := `{"lb_policy":"global_least_request","lb_config":{` + fmt.Sprintf(part, "r", "u", "p", 0, 0) + `},
			"_rules_":[{"_match_route_":["r"],"lb_policy":"global_least_request","lb_config":{` +
			fmt.Sprintf(part, c.cluster, c.user, c.password, c.database, c.timeout) + `}}]}`
		_, err := Parse([]byte(text), Envoy)
		const problem = "got r with another password than elsewhere, want the same: a user has one password"
		if (err != nil) != c.bad || c.bad && !strings.Contains(err.Error(), problem) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTimeoutOfTheConnection(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"serviceFQDN":"r.dns"`:               3 * time.Second,
		`"serviceFQDN":"r.dns","timeout":0`:   3 * time.Second,
		`"serviceFQDN":"r.dns","timeout":500`: 500 * time.Millisecond,
	} {
		set, err := Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+text+`}}`), Higress)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Match("", "", "").Redis.Timeout; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestUsesRedis(t *testing.T) {
	for text, want := range map[string]bool{
		`{"lb_policy":"global_least_request"}`:                                                            false,
		`{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":""}}`:                             false,
		`{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r.dns"}}`:                        true,
		`{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r.dns","store":"local"}}`:        false,
		`{"enabled":false,"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r.dns"}}`:        false,
		`{"enabled":false,"lb_policy":"global_least_request","lb_config":{"store":"redis"}}`:              false,
		`{"lb_policy":"global_least_request","lb_config":{"serviceFQDN":"r.dns","reserve_timeout":5000}}`: true,
	} {
		set, err := Parse([]byte(text), Higress)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := set.Match("", "", "").UsesRedis(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// The golden files of configurations with Redis show no password; each password contains "hidden".
func TestRedisPasswordsStayOut(t *testing.T) {
	files, err := filepath.Glob("testdata/*-redis*.golden")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := false
	for _, file := range files {
		config, err := os.ReadFile(strings.TrimSuffix(file, "golden") + "json")
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen = seen || strings.Contains(string(config), "hidden")
		if strings.Contains(string(golden), "hidden") {
			t.Errorf("%s shows a password", file)
		}
	}
	if !seen {
		t.Error("no configuration has a password to hide")
	}
}

// TestPlaceholders looks for the secrets in the shipped files and documents: each is refused, and not repeated. One of
// somebody's own is not.
func TestPlaceholders(t *testing.T) {
	written := regexp.MustCompile(`(?m)"?(password|secret|token)"?: "?([^"\n{}]*?(?:change-me|random bytes)[^",\n]*)`)
	found := map[string]bool{}
	for _, pattern := range []string{"envoy-config/*.yaml", "deploy/*/*.yaml", "docs/*.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range written.FindAllStringSubmatch(string(text), -1) {
				found[m[2]] = true
			}
		}
	}
	if len(found) < 3 {
		t.Fatalf("only %v", found)
	}
	for i := range keys {
		k := &keys[i]
		if !isSecret(&k.Key) {
			continue
		}
		for placeholder := range found {
			raw := withKey(k, strconv.Quote(placeholder))
			_, err := Parse(raw, k.host())
			if err == nil || !strings.Contains(err.Error(), k.Name+": is a placeholder") ||
				strings.Contains(err.Error(), placeholder) {
				t.Errorf("%s: %v", raw, err)
			}
		}
		for _, own := range []string{"changes 4 random words", "remember-the-milk-and-more"} {
			if _, err := Parse(withKey(k, strconv.Quote(own)), k.host()); err != nil &&
				strings.Contains(err.Error(), "placeholder") {
				t.Errorf("%s %s: %v", k.Name, own, err)
			}
		}
	}
}
