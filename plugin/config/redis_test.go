package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHigressCluster(t *testing.T) {
	for text, want := range map[string]string{
		`"serviceFQDN":"redis.static"`:                                    "outbound|80||redis.static",
		`"serviceFQDN":"redis.static","servicePort":6379`:                 "outbound|6379||redis.static",
		`"serviceFQDN":"redis.dns","servicePort":0`:                       "outbound|6379||redis.dns",
		`"store":"redis","serviceFQDN":"redis.higress.svc.cluster.local"`: "outbound|6379||redis.higress.svc.cluster.local",
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

// What the golden files of Redis record of their configurations shows no password, each of which contains "hidden".
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
		told, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen = seen || strings.Contains(string(config), "hidden")
		if strings.Contains(string(told), "hidden") {
			t.Errorf("%s shows a password", file)
		}
	}
	if !seen {
		t.Error("no configuration has a password to hide")
	}
}
