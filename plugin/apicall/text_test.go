package apicall

import (
	"encoding/json"
	"math"
	"testing"
)

func TestStrings(t *testing.T) {
	for _, text := range []string{"", "plain", `"\`, "\x00\x1f\n\t\x7f", "é😀", "\xff\xfe", "</script>", "\u2028"} {
		var got string
		err := json.Unmarshal([]byte(Quote(text)), &got)
		if err != nil || got != string([]rune(text)) {
			t.Errorf("%q: %s is read as %q, %v", text, Quote(text), got, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	var o Object
	o.Rounded("rounded", 1e6+0.126)
	for _, v := range []float64{1e6, 20e6, 0.25, -1.5, 1e-9, math.NaN(), math.Inf(1)} {
		o.Float("n", v)
	}
	const want = `{"rounded":1000000.13,"n":1000000,"n":20000000,"n":0.25,"n":-1.5,"n":1e-09,"n":0,` +
		`"n":1.7976931348623157e+308}`
	if got := o.End(); got != want || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "gpt-4o": "gpt-4o", "outbound%7C443%7c%7ca.b": "outbound|443||a.b", "10.0.0.1%3A80": "10.0.0.1:80",
		"%": "%", "a%6": "a%6", "%%361": "%61", "%+1": "%+1", "%zz": "%zz", "%E6%A8%A1": "模", "%2F": "/",
	} {
		if got := Unescape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
