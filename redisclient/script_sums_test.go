package redisclient

import (
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write lua/sha1sums")

// The SHA-1 sums by which scripts are called are those of their texts.
func TestSums(t *testing.T) {
	var sums string
	for _, s := range all {
		sum := sha1.Sum([]byte(s.text))
		want := hex.EncodeToString(sum[:])
		if s.sha != want && !*update {
			t.Errorf("%s has the sum %s, in lua/sha1sums it is %q; -update writes it", s.name, want, s.sha)
		}
		sums += want + " " + s.name + "\n"
	}
	if *update {
		if err := os.WriteFile("lua/sha1sums", []byte(sums), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
