package config

import (
	"reflect"
	"strings"
	"testing"
)

// queueOfTwo has classes for callers.
const queueOfTwo = `"queue":{"max_wait":"1s","classes":{"interactive":2,"bulk":1}},`

func TestCallers(t *testing.T) {
	text := apiPart(`"path":"/a","callers":{"chat":{"token":"` + testSecret + `1","class":"interactive"},` +
		`"etl":{"token":"` + testSecret + `2","share":0.25,"sets_limits":true}}`)
	set, err := Parse([]byte(strings.Replace(text, `"api"`, queueOfTwo+`"api"`, 1)+"}"), Higress)
	if err != nil || len(set.Warnings()) > 0 {
		t.Fatalf("%v, warnings %q", err, set.Warnings())
	}
	c, _ := set.API("/a")
	want := []Caller{
		{Name: "chat", Token: testSecret + "1", Share: 1, Class: "interactive"},
		{Name: "etl", Token: testSecret + "2", Share: 0.25, SetsLimits: true},
	}
	if !reflect.DeepEqual(c.API.Callers, want) {
		t.Errorf("got %+v, want %+v", c.API.Callers, want)
	}
	if got := c.API.Tokens(); !reflect.DeepEqual(got, []string{"", testSecret + "1", testSecret + "2"}) {
		t.Errorf("tokens %q", got)
	}
}

// What is wrong with callers is told without their tokens.
func TestCallersChecks(t *testing.T) {
	callers := func(list string) string { return apiPart(`"path":"/a","callers":`+list) + "}" }
	one := func(members string) string { return `{"x":{"token":"` + testSecret + `"` + members + `}}` }
	const of, same = "lb_config.api.callers.x", ".token: is another caller's as well, want one of its own"
	const secret = ", want a string of 16 to 1024 bytes, random"
	for text, want := range map[string]string{
		callers(one("") + `,"token":"` + testSecret + `"`):                                  of + same,
		callers(strings.Replace(one(""), `{"x"`, `{"y":{"token":"`+testSecret+`"},"x"`, 1)): of + same,
		callers(one(`,"class":"gold"`)):                                                     of + `.class: not known: there are no classes without lb_config.queue`,
		strings.Replace(callers(one(`,"class":"gold"`)), `"api"`, queueOfTwo+`"api"`, 1): of +
			`.class: got "gold", want one of "interactive", "bulk"`,
		callers(`{"x":{"token":"0123456789abcde"}}`): of + ".token: got a string of 15 bytes" + secret,
		callers(`{"x":{"token":""}}`):                of + ".token: got a string of 0 bytes" + secret,
		callers(`{"x":{"token":17}}`):                of + ".token: got a number" + secret,
		callers(`{"x":{"share":0.5}}`):               of + ".token: missing" + secret,
		callers(`{"x":{"token":"change-me-0123456789-etl"}}`): of +
			".token: is a placeholder that everybody knows: replace it",
		callers(`{"x y":{"token":"` + testSecret + `"}}`): "lb_config.api.callers.x y: no name of a caller, " +
			"want a name of 1 to 32 of the characters a-z, 0-9, _, . and -",
		callers(`"` + testSecret + `"`): "lb_config.api.callers: got a string, want an object with 1 to 64 callers " +
			`like {"batch": {"token": "…", "share": 0.5}}`,
		callers(`{"x":"` + testSecret + `"}`): of + `: got a string, want an object like {"token": "…"}`,
	} {
		_, err := Parse([]byte(text), Higress)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), testSecret) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestSlotsOfACaller(t *testing.T) {
	for _, c := range []struct {
		share       float64
		limit, want int64
	}{{1, 0, 0}, {0.5, 0, 0}, {1, 7, 7}, {0.5, 7, 3}, {0.29, 100, 29}, {0.01, 5, 1}, {0.7, 10, 7}} {
		if got := (&Caller{Share: c.share}).Slots(c.limit); got != c.want {
			t.Errorf("%v of %d slots: %d, want %d", c.share, c.limit, got, c.want)
		}
	}
}
