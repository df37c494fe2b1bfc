package redisclient

import (
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write lua/packed and lua/sha1sums")

// What is packed are the texts of the scripts, without what Lua does not need.
func TestPacked(t *testing.T) {
	files, err := filepath.Glob("lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	var packed strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		packed.WriteString("--" + strings.TrimSuffix(filepath.Base(file), ".lua") + "\n")
		for line := range strings.Lines(string(text)) {
			// A comment behind code has no quotes: what has could be a part of a string.
			if at := strings.LastIndex(line, " -- "); at >= 0 && !strings.ContainsAny(line[at:], `'"`) {
				line = line[:at] + "\n"
			}
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "--") {
				continue
			}
			if strings.Contains(line, "--") || strings.Contains(line, "[[") {
				t.Errorf("%s: cannot be packed: %s", file, line)
			}
			packed.WriteString(line + "\n")
		}
	}
	switch {
	case packed.String() == luaPacked:
	case !*update:
		t.Error("lua/packed is not of these scripts; -update writes it")
	default:
		if err := os.WriteFile("lua/packed", []byte(packed.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Fatal("lua/packed was written; -update once more writes lua/sha1sums")
	}
}

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
