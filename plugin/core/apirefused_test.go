package core

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

const refusedAnswer = `{"error":"the configuration is refused"}`

// wantRefused fails the test unless every call to the API's path is answered so, whoever sends it, and other requests
// are served.
func (d *fakeDriver) wantRefused(what, path string) {
	d.t.Helper()
	before, n, body := d.apiCalls("", "config_refused"), uint64(0), []string{okCall}
	for _, r := range []streamtest.Request{
		{Method: "POST", Path: path + "/schedule", Headers: authorization("Bearer " + apiToken), Frames: body},
		{Method: "POST", Path: path + "/schedule", Headers: authorization("Bearer x"), Frames: body},
		{Method: "GET", Path: path + "/advice?x=y"},
		{Method: "GET", Path: path},
	} {
		s := d.client(0, r)
		d.wantAnswer(what+" "+r.Path, s, 503, refusedAnswer)
		if got := s.Result().Headers["retry-after"]; got != "1" {
			d.t.Errorf("%s: retry-after is %q", what, got)
		}
		n++
	}
	if got := d.apiCalls("", "config_refused") - before; got != n {
		d.t.Errorf("%s: counted %d times, want %d", what, got, n)
	}
	other := d.client(0, streamtest.Request{Path: path + "0/schedule"})
	if other.Upstream() < 0 {
		d.t.Errorf("%s: another request is not served: %+v", what, other.Result())
	}
	other.Finish()
}

// No call to an API is forwarded whose configuration is refused, as a whole or in part; one that is in force goes on.
func TestCallsToARefusedAPI(t *testing.T) {
	good := apiConfig("")
	bad := strings.Replace(good, `"weight":3`, `"weight":-3`, 1)
	beside := func(part string) string {
		return `{"enabled":false,"_rules_":[{"_match_route_":["other"],` + part[1:] + `]}`
	}
	elsewhere := func(part string) string { return strings.Replace(part, apiPath, "/elsewhere", 1) }
	for name, config := range map[string]string{
		"as a whole": bad, "not even JSON": good + ",", "its path": strings.Replace(good, apiPath, apiPath+"/", 1),
		"in part": beside(bad),
	} {
		d := startSites(t, 1, config)
		d.anyCluster = true
		d.wantRefused(name, apiPath)
		d.noToken()
		d.drained()
		if !d.configure(good) {
			t.Fatal("refused")
		}
		d.wantAnswer(name+", then a good one", d.call(0, "/heartbeat", `{"task_id":"x"}`), 200,
			`{"ok":false,"reason":"not_found"}`)
	}
	one := beside(good)
	third := strings.Replace(bad, apiPath, "/third", 1)
	two := strings.Replace(one, "]}", `,{"_match_route_":["x"],`+elsewhere(bad)[1:]+"]}", 1)
	for name, c := range map[string][]string{
		"the same path": {one, beside(bad)}, "another path": {one, beside(elsewhere(bad))}, "a new rule": {one, two},
		"a whole one again":        {elsewhere(bad), good, elsewhere(bad)},
		"in part, then as a whole": {third, two, third},
	} {
		d := startSites(t, 1, c[0])
		d.anyCluster = true
		for _, next := range c[1:] {
			if !d.configure(next) {
				t.Fatalf("%s: refused", name)
			}
		}
		d.wantAnswer(name, d.call(0, "/heartbeat", `{"task_id":"x"}`), 200, `{"ok":false,"reason":"not_found"}`)
		for _, path := range []string{"/elsewhere", "/third"} {
			if strings.Contains(strings.Join(c[1:], ""), `"`+path+`"`) {
				d.wantRefused(name, path)
			}
		}
		d.noToken()
		d.drained()
	}
}
