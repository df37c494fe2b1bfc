package lint

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/plugin/config/configtest"
)

const jsonFile = "file.json"

// FuzzFile checks any text: nothing panics, and each finding has a kind that is known, a text, and a position that is
// in the file.
func FuzzFile(f *testing.F) {
	for _, p := range plantedFiles(f) {
		f.Add([]byte(strings.Replace(p.new, "§", "", 1)), p.file == jsonFile)
	}
	for _, text := range forms {
		f.Add([]byte(text), false)
	}
	for _, m := range configtest.Mistakes(f, "envoy") {
		f.Add([]byte(m.Text), true)
	}
	known := map[string]bool{}
	for _, k := range Kinds {
		known[k.Name] = true
	}
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool) {
		name := "file.yaml"
		if isJSON {
			name = jsonFile
		}
		file := source.NewFile(name, text)
		lines := bytes.Split(text, []byte("\n"))
		for _, found := range File(file, Auto, true).Findings {
			at := file.Position(found.At)
			if found.At < 0 || found.At > len(text) || at.Line < 1 || at.Line > len(lines) || at.Column < 1 ||
				at.Column > utf8.RuneCount(lines[at.Line-1])+1 {
				t.Errorf("%+v is at %+v", found, at)
			}
			if !known[found.Kind] || found.Text == "" {
				t.Errorf("%+v", found)
			}
		}
	})
}
