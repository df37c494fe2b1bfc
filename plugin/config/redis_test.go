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

	"github.com/warmgate/warmgate/lb/setting"
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

// TestPlaceholders looks for the secrets in the shipped files and documents: each is refused as one of the plugin's,
// and has a warning as the password of Redis, which is chosen elsewhere. None is repeated. Others are taken, similar
// ones too.
func TestPlaceholders(t *testing.T) {
	found := shippedSecrets(t)
	if len(found) != len(placeholders) {
		t.Errorf("%d placeholders are known, shipped are %v", len(placeholders), found)
	}
	for i := range keys {
		k := &keys[i]
		if k.Type != setting.Secret && k.Name != keyPassword {
			continue
		}
		for placeholder := range found {
			said, refused := placeholderSaid(k, placeholder)
			if !strings.Contains(said, "is a placeholder") || refused == (k.Name == keyPassword) ||
				strings.Contains(said, placeholder) {
				t.Errorf("%s %s: refused: %v, %q", k.Name, placeholder, refused, said)
			}
		}
		for _, own := range []string{
			"changes 4 random words", "remember-the-milk-and-more", "changeme123-changeme123",
			"change-me-0123456789-and-more", "64 random bytes, the same in all regions",
		} {
			if said, refused := placeholderSaid(k, own); refused || strings.Contains(said, "placeholder") {
				t.Errorf("%s %s: refused: %v, %q", k.Name, own, refused, said)
			}
		}
	}
}

// shippedSecrets returns the secrets in the shipped files and documents.
func shippedSecrets(t *testing.T) map[string]bool {
	t.Helper()
	written := regexp.MustCompile(`(?m)"?(password|secret|token)"?: "?([^"\n{}]*?(?:change-me|random bytes)[^",\n]*` +
		`(?:, the same in all regions)?)`)
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
	return found
}

// placeholderSaid returns what is said of a secret, and whether it is refused for that.
func placeholderSaid(k *key, secret string) (said string, refused bool) {
	set, err := Parse(withKey(k, strconv.Quote(secret)), k.host())
	if err != nil {
		return err.Error(), true
	}
	for _, w := range set.Warnings() {
		if strings.HasPrefix(w, k.Name+" ") {
			said += w
		}
	}
	return said, false
}
