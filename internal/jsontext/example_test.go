package jsontext_test

import (
	"fmt"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// The members of an object, of which only texts are wanted.
func Example() {
	text := []byte(`{"id": 7, "tags": ["a", {"b": null}], "title": "caf\u00e9 \"Zola\""}`)
	for at := 1; at < len(text) && text[at] != '}'; {
		key, _, end := jsontext.SkipString(text, at)
		value := jsontext.AfterKey(text, end)
		if text[value] == '"' {
			content, _, _ := jsontext.SkipString(text, value)
			fmt.Printf("%s: %s\n", key, jsontext.AppendUnescaped(nil, content))
		}
		at, _ = jsontext.SkipValue(text, value, len(text))
		if text[at] == ',' {
			at = jsontext.Space(text, at+1)
		}
	}
	// Output: title: café "Zola"
}

// A body that has not arrived completely is no error.
func ExampleString() {
	for _, text := range []string{`"caf\u00e9"`, `"caf\u00`, `"caf\x"`} {
		end, excess, st := jsontext.String([]byte(text), 0)
		fmt.Println(end, excess, st == jsontext.OK, st == jsontext.Cut)
	}
	// Output:
	// 11 4 true false
	// 4 0 false true
	// 4 0 false false
}
