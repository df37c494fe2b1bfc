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
		got, n := prompt.MemberText([]byte(c.body), strings.Split(c.path, "."))
		if got != c.want || (n == 0) != (got != "") {
			t.Errorf("%s of %.60s: %.40q %d, want %.40q", c.path, c.body, got, n, c.want)
		}
	}
}

// Of several members the first in the order of the paths counts, wherever it is in the body.
func TestMemberTextOfSeveral(t *testing.T) {
	paths := [][]string{{"session_id"}, {"metadata", "id"}, {"user"}, {"metadata", "user_id"}}
	for _, c := range []struct {
		body, want string
		number     int
	}{
		{`{"user":"u","session_id":"s","x":1}`, "s", 0},
		{`{"session_id":"s","user":"u"}`, "s", 0},
		{`{"user":"u","metadata":{"user_id":"m","id":"i"}}`, "i", 1},
		{`{"metadata":{"user_id":"m"},"user":"u","a":[]}`, "u", 2},
		{`{"session_id":null,"metadata":{"user_id":"m"},"user":{}}`, "m", 3},
		{`{"session_id":"","user":[],"a":{"user":"x"}}`, "", -1},
	} {
		if got, n := prompt.MemberText([]byte(c.body), paths...); got != c.want || n != c.number {
			t.Errorf("%s: %q %d, want %q %d", c.body, got, n, c.want, c.number)
		}
	}
}

// A body of very many values is not searched to its end.
func TestMemberTextOfManyValues(t *testing.T) {
	body := []byte(`{"list":[` + strings.Repeat("1,", 30_000) + `1],"user":"alice"}`)
	if got, n := prompt.MemberText(body, []string{"user"}); got != "" || n != -1 {
		t.Errorf("found %q behind 30,000 values", got)
	}
}

// FuzzMemberText compares with encoding/json wherever that finds a text, and one member of the name.
func FuzzMemberText(f *testing.F) {
	f.Add([]byte(`{"model":"m","user":"alice","metadata":{"user":"x"}}`))
	f.Add([]byte(`{"user":"\ud83d\ude00 \u0041","a":[1,{"user":2}]}`))
	f.Add([]byte(`{"u`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, _ := prompt.MemberText(body, []string{"user"})
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
