package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// looseValues are values that may be given where a single value is wanted.
var looseValues = []string{
	`0`, `1`, `7`, `-7`, `7.9`, `1e2`, `123456789012`, `0.5`, `60`, `true`, `false`, `null`,
	`"7"`, `"-7"`, `"0700"`, `"7.5"`, `"0.5"`, `"60%"`, `"7ms"`, `"abc"`, `""`, `" 7"`, `"-"`, `"7-7"`, `"+7"`,
	`"true"`, `"TRUE"`, `"t"`, `"1"`, `"yes"`, `"false"`,
	`"least"`, `"Least"`, `"vllm"`,
}

// bounded is the value in force for a number: the nearest one within its bounds.
func bounded(n int64, hi int64) int { return int(min(max(n, 0), hi)) }

// looseKeys are the keys of Higress's, with what its plugin reads of them, within our bounds.
var looseKeys = map[string]func(c *Config, r gjson.Result) (got, want any){
	"maxRequestCount": func(c *Config, r gjson.Result) (any, any) { return c.MaxInflight, bounded(r.Int(), 1e6) },
	"redisKeyTTL": func(c *Config, r gjson.Result) (any, any) {
		want := bounded(r.Int(), 1e9)
		if want == 0 {
			want = 1800
		}
		return int(c.Prefix.TTL / time.Second), want
	},
	"timeout": func(c *Config, r gjson.Result) (any, any) {
		want := time.Duration(bounded(r.Int(), 600_000)) * time.Millisecond
		if d, err := time.ParseDuration(r.Str); err == nil { // ours beside it
			want = max(d, 0)
		} else if r.Num == 7.9 || r.Num == 0.5 {
			want = time.Duration(r.Num * float64(time.Millisecond))
		}
		if want == 0 {
			want = 3 * time.Second
		}
		return c.Redis.Timeout, want
	},
	"enableDetailLog": func(c *Config, r gjson.Result) (any, any) { return c.DetailLog, r.Bool() },
	"username":        func(c *Config, r gjson.Result) (any, any) { return c.Redis.Username, r.String() },
	"password":        func(c *Config, r gjson.Result) (any, any) { return c.Redis.Password, r.String() },
	"target_metric":   func(c *Config, r gjson.Result) (any, any) { return c.Engines.Target, r.String() },
	"metric_policy": func(c *Config, r gjson.Result) (any, any) {
		want := r.String()
		if want != "least" && want != "most" {
			want = "default"
		}
		return c.Engines.Order.String(), want
	},
	"rate_limit": func(c *Config, r gjson.Result) (any, any) {
		want := math.Min(math.Max(r.Float(), 0), 1)
		if want == 0 {
			want = 1 // no limit, as documented
		}
		return c.Engines.RateLimit, want
	},
	"servicePort": func(c *Config, r gjson.Result) (any, any) {
		if r.Int() == 0 {
			return c.Redis.ServicePort, 80
		}
		return c.Redis.ServicePort, int(r.Int())
	},
	"database":    func(c *Config, r gjson.Result) (any, any) { return c.Redis.Database, int(r.Int()) },
	"serviceFQDN": func(c *Config, r gjson.Result) (any, any) { return c.Redis.ServiceFQDN, r.String() },
}

// Keys of Higress's mean what they mean in its plugin, which reads them with gjson, whatever type they have.
func TestLooseAsGJSON(t *testing.T) {
	for key, meaning := range looseKeys {
		for _, val := range looseValues {
			members := `"` + key + `":` + val
			if key != "serviceFQDN" {
				members += `,"serviceFQDN":"redis.static"`
			}
			if key == "metric_policy" {
				members += `,"target_metric":"m"`
			}
			policy := "global_least_request"
			switch key {
			case "metric_policy", "target_metric", "rate_limit":
				policy = "endpoint_metrics"
			}
			text := `{"lb_policy":"` + policy + `","lb_config":{` + members + `}}`
			r := gjson.Get(text, "lb_config."+key)
			set, err := Parse([]byte(text), Higress)
			if named := key == "servicePort" || key == "database"; named && (r.Int() < 0 || r.Int() > 65535) ||
				key == "serviceFQDN" && strings.Trim(r.String(), nameLetters) != "" {
				if err == nil {
					t.Errorf("%s: accepted, and there can be no such thing", text)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if got, want := meaning(set.Match("", "", ""), r); got != want {
				t.Errorf("%s: got %v, ai-load-balancer reads %v", text, got, want)
			}
		}
	}
}

// Whatever is written for a number, the value in force is a number within its bounds.
func TestLooseNumbersAreBounded(t *testing.T) {
	for _, val := range []string{`"NaN"`, `"-nan"`, `"Inf"`, `"-Inf"`, `1e999`, `-1e999`, `"1e999"`} {
		for key := range looseKeys {
			const head = `{"lb_policy":"endpoint_metrics","lb_config":{"serviceFQDN":"redis.static","`
			s, err := Parse([]byte(head+key+`":`+val+`}}`), Higress)
			if s == nil {
				if key != "database" && key != "servicePort" && key != "serviceFQDN" { // names, which are strict
					t.Errorf("%s %s: %v", key, val, err)
				}
				continue
			}
			c := s.Match("", "", "")
			share, most, timeout, ttl := c.Engines.RateLimit, c.MaxInflight, c.Redis.Timeout, c.Prefix.TTL
			if !(share >= 0 && share <= 1) || most < 0 || timeout <= 0 || ttl < 0 {
				t.Errorf("%s %s: share %v, %d in flight, time limit %v, %d s", key, val, share, most, timeout, ttl)
			}
		}
	}
}

// A warning names every value that is read as something other than what it looks like; correct values have none.
func TestLooseWarnings(t *testing.T) {
	for member, want := range map[string]string{
		`"maxRequestCount":"64"`:   "",
		`"maxRequestCount":64.5`:   "got 64.5, taken as 64",
		`"maxRequestCount":-1`:     "got -1, taken as 0",
		`"maxRequestCount":1e9`:    "got 1e9, taken as 1000000",
		`"maxRequestCount":"many"`: `got "many", taken as 0`,
		`"maxRequestCount":null`:   "got null, taken as 0",
		`"timeout":"3000"`:         "",
		`"timeout":"3s"`:           "",
		`"timeout":-1`:             "got -1, taken as 0s",
		`"timeout":"soon"`:         `got "soon", taken as 0s`,
		`"timeout":1e9`:            "got 1e9, taken as 10m",
		`"enableDetailLog":"True"`: "",
		`"enableDetailLog":1`:      "",
		`"enableDetailLog":"yes"`:  `got "yes", taken as false`,
		`"enableDetailLog":null`:   "got null, taken as false",
		`"password":"123456"`:      "",
		`"password":123456`:        "is a number, taken as text",
		`"password":true`:          "is a boolean, taken as text",
		`"username":null`:          "is null, taken as empty",
		`"serviceFQDN":null`:       `got null, taken as ""`,
		`"database":"1"`:           "",
		`"database":true`:          "got true, taken as 1",
		`"servicePort":"http"`:     `got "http", taken as 0`,
		`"comment":"x"`:            "ignored as by ai-load-balancer",
		`"redisKeyTTL":60`:         "has no effect without lb_policy prefix_cache",
	} {
		if !strings.Contains(member, "serviceFQDN") {
			member += `,"serviceFQDN":"redis.dns"`
		}
		set, err := Parse([]byte(`{"lb_policy":"global_least_request","lb_config":{`+member+`}}`), Higress)
		if err != nil {
			t.Errorf("%s: %v", member, err)
			continue
		}
		if got := strings.Join(set.Warnings(), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q, want %q", member, got, want)
		}
	}
}

// An unknown key is ignored only where ai-load-balancer has its keys, and only if it is not similar to one of ours.
func TestUnknownKeys(t *testing.T) {
	const policy = `"lb_policy":"global_least_request",`
	for _, c := range []struct {
		host    Host
		members string
		ignored bool
	}{
		{Higress, `"name":"x"`, true},
		{Higress, `"lb_config":{"comment":"x"}`, true},
		{Higress, `"description":"x"`, true},
		{Higress, `"region":"eu"`, true},
		{Higress, `"lb_config":{"criticalModels":["m"]}`, true},
		{Higress, `"lb_config":{"limit":5}`, true},
		{Higress, `"lb_config":{"size":5}`, true},
		{Higress, `"lb_config":{"depth":5}`, true},
		{Higress, `"lb_config":null`, true},
		{Higress, `"lb_config":""`, true},
		{Higress, `"lb_config":"x"`, false},
		{Higress, `"lb_config":[]`, false},
		{Higress, `"lb_config":{"max_infligth":5}`, false},
		{Higress, `"lb_config":{"slow_start":5}`, false},
		{Higress, `"max_inflight":5`, false},
		{Higress, `"_match_rout_":["a"]`, false},
		{Higress, `"lb_config":{"health":{"comment":5}}`, false},
		{Envoy, `"name":"x"`, false},
		{Envoy, `"lb_config":{"comment":"x","envoy":{"admin_cluster":"a"}}`, false},
		{Envoy, `"lb_config":null`, false},
	} {
		set, err := Parse([]byte(`{`+policy+c.members+`}`), c.host)
		if (err == nil) != c.ignored || c.ignored && len(set.Warnings()) != 1 {
			t.Errorf("%v %s: %v", c.host, c.members, err)
		}
	}
}
