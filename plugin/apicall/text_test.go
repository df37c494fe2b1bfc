package apicall

import (
	"encoding/json"
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
