package config

import (
	"reflect"
	"testing"
)

// Weights are checked one by one, and each problem has the address as it was written.
func TestWeights(t *testing.T) {
	const at = "lb_config.weights"
	for _, c := range []struct {
		name, object string
		want         map[string]float64
		place        string
		problem      string
	}{
		{"none", `{}`, map[string]float64{}, "", ""},
		{
			"bounds", `{"10.0.0.1:80":0.001,"10.0.0.2:80":1000}`,
			map[string]float64{"10.0.0.1:80": 0.001, "10.0.0.2:80": 1000},
			"", "",
		},
		{"too light", `{"10.0.0.1:80":0.0009}`, nil, `["10.0.0.1:80"]`, "got 0.0009, want a number from 0.001 to 1000"},
		{"too heavy", `{"10.0.0.1:80":1001}`, nil, `["10.0.0.1:80"]`, "got 1001, want a number from 0.001 to 1000"},
		{"negative", `{"10.0.0.1:80":-1}`, nil, `["10.0.0.1:80"]`, "got -1, want a number from 0.001 to 1000"},
		{"text", `{"10.0.0.1:80":"1"}`, nil, `["10.0.0.1:80"]`, `got "1", want a number from 0.001 to 1000`},
		{"null", `{"10.0.0.1:80":null}`, nil, `["10.0.0.1:80"]`, "got null, want a number from 0.001 to 1000"},
		{"a name", `{"host:80":1}`, nil, `["host:80"]`, "not an address, " + wantsAddress},
		{"an IP", `{"10.0.0.1":1}`, nil, `["10.0.0.1"]`, "not an address, " + wantsAddress},
		{"empty", `{"":1}`, nil, `[""]`, "not an address, " + wantsAddress},
		{"twice", `{"10.0.0.1:80":1,"10.0.0.1:80":2}`, nil, `["10.0.0.1:80"]`, "written twice"},
		{"twice, spelled otherwise", `{"[::1]:80":1,"[::0001]:80":1}`, nil, `["[::0001]:80"]`, "written twice"},
		{"a list", `[1]`, nil, "", `got an array, want an object like {"10.0.0.1:8000": 2}`},
		{"a number", `1`, nil, "", `got 1, want an object like {"10.0.0.1:8000": 2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(`{"lb_policy":"global_least_request","lb_config":{"weights":` + c.object + `}}`)
			if c.problem != "" {
				if what := refused(t, text, Higress, at+c.place); what != c.problem {
					t.Errorf("got %q, want %q", what, c.problem)
				}
				return
			}
			if got := mustParse(t, text, Higress).Weights; !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
