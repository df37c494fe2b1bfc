package config

import (
	"reflect"
	"testing"
)

const wantsAddress = `want "ip:port", IPv6 in brackets`

var staticCases = []struct {
	name, list string
	want       []StaticEndpoint
	place      string // of the problem, behind the key
	problem    string
}{
	{"an address", `["10.0.0.1:80"]`, []StaticEndpoint{{"10.0.0.1:80", 1}}, "", ""},
	{
		"with weights", `[{"address":"10.0.0.1:80","weight":0.001},{"weight":1000,"address":"[::1]:80"}]`,
		[]StaticEndpoint{{"10.0.0.1:80", 0.001}, {"[::1]:80", 1000}},
		"", "",
	},
	{
		"without a weight", `[{"address":"[0:0::1]:80"},"10.0.0.1:80"]`,
		[]StaticEndpoint{{"[::1]:80", 1}, {"10.0.0.1:80", 1}},
		"", "",
	},
	{
		"ports differ", `["10.0.0.1:80","10.0.0.1:81"]`,
		[]StaticEndpoint{{"10.0.0.1:80", 1}, {"10.0.0.1:81", 1}},
		"", "",
	},
	{"none", `[]`, nil, "", `got an array, want a list like ["10.0.0.1:8000"]`},
	{"a single one", `"10.0.0.1:80"`, nil, "", `got "10.0.0.1:80", want a list like ["10.0.0.1:8000"]`},
	{"a name", `["10.0.0.1:80","host:80"]`, nil, "[1]", `got "host:80", ` + wantsAddress},
	{"without a port", `["10.0.0.1"]`, nil, "[0]", `got "10.0.0.1", ` + wantsAddress},
	{"port 0", `["10.0.0.1:0"]`, nil, "[0]", `got "10.0.0.1:0", ` + wantsAddress},
	{"bare IPv6", `["::1:80"]`, nil, "[0]", `got "::1:80", ` + wantsAddress},
	{"a number", `[80]`, nil, "[0]", `got 80, ` + wantsAddress},
	{"a list", `[["10.0.0.1:80"]]`, nil, "[0]", `got an array, ` + wantsAddress},
	{"twice", `["10.0.0.1:80","10.0.0.1:80"]`, nil, "[1]", "got 10.0.0.1:80 twice"},
	{"twice, spelled otherwise", `["[::1]:80","[0::1]:80"]`, nil, "[1]", "got [::1]:80 twice"},
	{"no address", `[{"weight":1}]`, nil, "[0].address", "missing, " + wantsAddress},
	{"no object's address", `[{"address":{}}]`, nil, "[0].address", "got an object, " + wantsAddress},
	{
		"weight 0", `[{"address":"10.0.0.1:80","weight":0}]`, nil, "[0].weight",
		"got 0, want a number from 0.001 to 1000",
	},
	{
		"weight as text", `[{"address":"10.0.0.1:80","weight":"2"}]`, nil, "[0].weight",
		`got "2", want a number from 0.001 to 1000`,
	},
	{
		"another key", `[{"address":"10.0.0.1:80","wieght":2}]`, nil, "[0].wieght",
		`unknown key; did you mean "weight"?`,
	},
	{"foreign key", `[{"address":"10.0.0.1:80","x":2}]`, nil, "[0].x", "unknown key"},
	{
		"address twice", `[{"address":"10.0.0.1:80","address":"10.0.0.1:80"}]`, nil, "[0].address", "written twice",
	},
}

// The configured endpoints are checked one by one, and each problem has the place of its endpoint.
func TestStaticEndpoints(t *testing.T) {
	const at = "lb_config.envoy.endpoints"
	for _, c := range staticCases {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(`{"lb_policy":"global_least_request","lb_config":{"envoy":{"endpoints":` + c.list + `}}}`)
			if c.problem != "" {
				if what := refused(t, text, Envoy, at+c.place); what != c.problem {
					t.Errorf("got %q, want %q", what, c.problem)
				}
				return
			}
			if got := mustParse(t, text, Envoy).EnvoyCfg.Endpoints; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
