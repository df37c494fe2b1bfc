package snapshot

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write what is expected")

// compare compares a text with what is expected.
func compare(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text+"\n" != string(want) {
		t.Errorf("%s differs:\n%s", file, text)
	}
}
