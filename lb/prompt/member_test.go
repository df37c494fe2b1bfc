package prompt_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/lb/prompt"
)

func TestMemberText(t *testing.T) {
	long := strings.Repeat("x", 1024)
	for _, c := range []struct{ body, path, want string }{
		{`{"user":"alice"}`, "user", "alice"},
		{` { "model" : "m" , "user" : "alice" } `, "user", "alice"},
		{`{"messages":[{"user":"bob"}],"metadata":{"user":"eve","user_id":"u-7"},"user":"a"}`, "metadata.user_id", "u-7"},
		{`{"metadata":{"user_id":"u-7"},"user_id":"other"}`, "user_id", "other"},
		{`{"metadata":{"user_id":"u-7"}}`, "user_id", ""},
		{`{"a":{"b":{"c":17}}}`, "a.b.c", "17"},
		{`{"user":-1.5e3}`, "user", "-1.5e3"},
		{`{"user":"é\u00e9\n\"\\"}`, "user", "éé\n\"\\"},
		{`{"us\u0065r":"alice"}`, "user", "alice"},
		{`{"user":"first","user":"second"}`, "user", "first"},
		{`{"user":null}`, "user", ""},
		{`{"user":true}`, "user", ""},
		{`{"user":["alice"]}`, "user", ""},
		{`{"user":{"id":1}}`, "user", ""},
		{`{"user":"x"}`, "user.id", ""},
		{`{"user":""}`, "user", ""},
		{`{"user":"` + long + `"}`, "user", long},
		{`{"user":"` + long + `y"}`, "user", ""},
		{`{"user":"ali`, "user", ""},
		{`{"user":"alice"`, "user", ""}, // the body ends with the value: more may follow
		{`{"user":12`, "user", ""},
		{`{"user":`, "user", ""},
		{`{"user"`, "user", ""},
		{`{`, "user", ""},
		{``, "user", ""},
		{`[{"user":"alice"}]`, "user", ""},
		{`"user"`, "user", ""},
		{`not json`, "user", ""},
		{`{user:"alice"}`, "user", ""},
	} {
		if got := prompt.MemberText([]byte(c.body), strings.Split(c.path, ".")...); got != c.want {
			t.Errorf("%s of %.60s: %.40q, want %.40q", c.path, c.body, got, c.want)
		}
	}
}

// A body of very many values is not searched to its end.
func TestMemberTextOfManyValues(t *testing.T) {
	body := []byte(`{"list":[` + strings.Repeat("1,", 30_000) + `1],"user":"alice"}`)
	if got := prompt.MemberText(body, "user"); got != "" {
		t.Errorf("found %q behind 30,000 values", got)
	}
}

// FuzzMemberText compares with encoding/json wherever that finds a text, and one member of the name.
func FuzzMemberText(f *testing.F) {
	f.Add([]byte(`{"model":"m","user":"alice","metadata":{"user":"x"}}`))
	f.Add([]byte(`{"user":"\ud83d\ude00 \u0041","a":[1,{"user":2}]}`))
	f.Add([]byte(`{"u`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := prompt.MemberText(body, "user")
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || bytes.Count(body, []byte(`user`)) != 1 {
			return
		}
		var want string
		if json.Unmarshal(object["user"], &want) != nil || len(object["user"]) > 1000 || !json.Valid(body) {
			return
		}
		if strings.ContainsRune(want, '\ufffd') {
			return // invalid UTF-8 is passed on here, and replaced there
		}
		if got != want {
			t.Errorf("%q of %q, want %q", got, body, want)
		}
	})
}
