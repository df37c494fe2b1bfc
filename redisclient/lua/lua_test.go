package lua_test

import (
	"crypto/sha1"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/redisclient"
	"github.com/warmgate/warmgate/redisclient/lua"
)

// maxSum is how long all scripts may be, which a Redis keeps as long as it runs.
const maxSum = 580_000

func TestSizes(t *testing.T) {
	sum := 0
	for _, name := range redisclient.ScriptNames() {
		n := len(lua.Script(name))
		if n > lua.MaxScript {
			t.Errorf("%s has %d bytes, limit %d", name, n, lua.MaxScript)
		}
		sum += n
	}
	if sum > maxSum {
		t.Errorf("all scripts have %d bytes, limit %d", sum, maxSum)
	}
}

// A script has all lines of a file once, each file is in some script, and what Redis is sent has all of its code.
func TestScripts(t *testing.T) {
	used := map[string]bool{}
	for _, name := range redisclient.ScriptNames() {
		type place struct {
			file   string
			number int
		}
		seen := map[place]string{}
		var code strings.Builder
		for _, l := range lua.Lines(name) {
			used[l.File] = true
			if before, ok := seen[place{l.File, l.Number}]; ok && l.Text != "end" {
				t.Errorf("%s has line %d of %s.lua twice: %q and %q", name, l.Number, l.File, before, l.Text)
			}
			seen[place{l.File, l.Number}] = l.Text
			if line := strings.TrimSpace(l.Text); line != "" && !strings.HasPrefix(line, "--") {
				before, comment, _ := strings.Cut(line, " -- ")
				if strings.ContainsAny(comment, `'"`) {
					t.Errorf("%s.lua:%d: a comment with quotes is not told from a string", l.File, l.Number)
				}
				code.WriteString(strings.TrimSpace(before) + "\n")
			}
		}
		text := lua.Script(name)
		if text != code.String() {
			t.Errorf("%s lacks code, or has comments:\n%s", name, text)
		}
		if strings.Contains(text, "--") || strings.Contains(text, "[[") {
			t.Errorf("%s has what is no comment and may be taken for one", name)
		}
	}
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !used[strings.TrimSuffix(file, ".lua")] {
			t.Errorf("no script has %s", file)
		}
	}
}

func TestSum(t *testing.T) {
	for n := range 200 {
		text := strings.Repeat("ab\x00c\xff", 40)[:n]
		want := sha1.Sum([]byte(text))
		if got := lua.Sum(text); got != hex.EncodeToString(want[:]) {
			t.Errorf("the sum of %d bytes is %s, want %x", n, got, want)
		}
	}
}
