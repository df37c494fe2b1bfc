package jsontext_test

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/jsontext"
)

func BenchmarkString(b *testing.B) {
	for name, content := range map[string]string{
		"empty": "", "short": "user", "plain": strings.Repeat("plain text ", 100),
		"code":    strings.Repeat(`\tfmt.Println(\"hello\")\n`, 40),
		"escaped": strings.Repeat(`\u4f60\u597d`, 80),
	} {
		text := []byte(`"` + content + `"`)
		dst := make([]byte, 0, len(text))
		for stage, run := range map[string]func(){
			"check":    func() { jsontext.String(text, 0) },
			"skip":     func() { jsontext.SkipString(text, 0) },
			"unescape": func() { dst = jsontext.AppendUnescaped(dst[:0], text[1:len(text)-1]) },
			"length":   func() { jsontext.UnescapedLen(text) },
		} {
			b.Run(stage+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func BenchmarkSkipValue(b *testing.B) {
	text := []byte(`[` + strings.Repeat(`{"role":"user","content":"a word, \"another\"","n":[1,2.5,null]},`, 50) + `{}]`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		jsontext.SkipValue(text, 0, len(text))
	}
}
