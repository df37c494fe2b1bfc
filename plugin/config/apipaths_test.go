package config

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// The paths of APIs are found in whatever text, and nothing else is taken for one.
func TestRefusedAPIs(t *testing.T) {
	const api = `"api":{"path":"/warmgate/v1","token":"}\"{"}`
	for text, want := range map[string]string{
		`{` + api + `}`: "/warmgate/v1",
		`{"lb_config":{` + api + `},"_rules_":[{"lb_config":{"api":{"token":"x","path":"/b"}}}]}`: "/warmgate/v1 /b",
		`{"api":{"token":"}","path":"/a"}}`:                      "/a",
		`{"\u0061pi" : { "p\u0061th" : "\/a\/b" } }`:             "/a/b",
		`{"api":{"path":"warmgate/v1/"}}`:                        "/warmgate/v1",
		`{"api":{"path":"/a","path":"//b"}}`:                     "/a /b",
		`{"api":{"extra":{},"path":"/a","token":"x"}}`:           "/a",
		`{"api":{"lease":{"ttl":[30,{}]},"path":"/a"}}`:          "/a",
		`{"api":{"token":{"path":"/file"},"path":"/a"}}`:         "/a",
		`{"api":[{"path":"/a"}],"path":"/b"}`:                    "/a",
		`{"api":{"path":"/warmgate/v1/*"}}`:                      "/warmgate/v1",
		`{"api":{"path":"/a?x=/b"}}`:                             "/a",
		`{"x":"y,` + "\n" + `,` + api:                            "/warmgate/v1",
		`{"x":"\z"` + "\n" + api + `]`:                           "/warmgate/v1",
		`lb_config: {api: {path: /a}}` + api:                     "/warmgate/v1",
		`{"api":{"path":"/a"`:                                    "/a",
		`{"api":{"path":"/a`:                                     "",
		`{"api":{"path":"/"}}`:                                   "",
		`{"api":{"path":""}}`:                                    "",
		`{"api":{"path":"/a b"}}`:                                "",
		`{"api":{"path":1,"token":"/a"}}`:                        "",
		`{"api":{"token":"path"},"metrics":{"path":"/metrics"}}`: "",
		`{"api":"/a","path":"/b"}`:                               "",
		`"api":{"path`:                                           "",
		`"api":`:                                                 "",
		``:                                                       "",
	} {
		if got := strings.Join(RefusedAPIs([]byte(text)), " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	hostile := strings.Repeat(`"\`, maxBytes) // as many strings as can be begun, each of which ends in an error
	before := ownCPU(t)
	RefusedAPIs([]byte(hostile))
	if used := ownCPU(t) - before; used > 5*time.Second {
		t.Errorf("a hostile text takes %v", used)
	}
}

// ownCPU returns the CPU time that this process has used, which other programs do not change.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The paths of refused parts are known beside those in force, also where a part has a last good form with another one.
func TestRefusedAPIsOfParts(t *testing.T) {
	good := func(path string) string { return apiPart(`"path":"`+path+`",`+testToken) + "}" }
	bad := func(path string) string { return strings.Replace(good(path), `"weight":1`, `"weight":-1`, 1) }
	rules := func(first, second string) string {
		return `{"_rules_":[{"_match_route_":["a"],` + first[1:] + `,{"_match_route_":["b"],` + second[1:] + `]}`
	}
	set, before, err := Update([]byte(rules(good("/a"), good("/b"))), Higress, nil)
	if err != nil || len(set.RefusedAPIs()) > 0 {
		t.Fatalf("%q, %v", set.RefusedAPIs(), err)
	}
	for _, c := range []struct {
		text    string
		before  Forms
		inForce string
		refused string
	}{
		{rules(good("/a"), bad("/b")), nil, "/a", "/b"},
		{rules(good("/a"), bad("/b")), before, "/a /b", "/b"},
		{rules(bad("/c"), good("/b")), before, "/a /b", "/c"},
		{rules(good("/a"), good("/a/x")), nil, "/a", "/a/x"}, // they overlap
		{rules(good("/a"), `{"lb_policy":"global_least_request"}`), before, "/a", ""},
	} {
		set, _, _ := Update([]byte(c.text), Higress, c.before)
		var inForce []string
		for _, path := range []string{"/a", "/b", "/c"} {
			if cfg, _ := set.API(path + "/schedule?x"); cfg != nil {
				inForce = append(inForce, path)
			}
		}
		if got := strings.Join(inForce, " "); got != c.inForce {
			t.Errorf("%s: in force is %q, want %q", c.text, got, c.inForce)
		}
		if got := strings.Join(set.RefusedAPIs(), " "); got != c.refused {
			t.Errorf("%s: refused is %q, want %q", c.text, got, c.refused)
		}
	}
}

func TestPathsOfRefusedAPIs(t *testing.T) {
	paths := APIPaths{"/warmgate/v1", "/b"}
	for path, want := range map[string]bool{
		"/warmgate/v1": true, "/warmgate/v1/": true, "/warmgate/v1?x=/": true, "/b/schedule": true, "/b/x?y": true,
		"/warmgate": false, "/warmgate/v10": false, "/bb": false, "/": false, "": false, "/x?/b": false,
	} {
		if paths.Contain(path) != want || APIPaths(nil).Contain(path) {
			t.Errorf("%s: want %v", path, want)
		}
	}
}
