package core

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// pngOf returns the beginning of a PNG file with that size, and so much data.
func pngOf(width, height uint32, data int) string {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, width), height)
	return base64.StdEncoding.EncodeToString(append(b, make([]byte, data)...))
}

// Small and large pictures, sounds and files of one model take other numbers of tokens: expected shares are near the
// real ones for each.
func TestMediaOfSeveralSizes(t *testing.T) {
	const text, picture = 500, `{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}},`
	short, long := strings.Repeat("aBcd", 300), strings.Repeat("xYzw", 60_000)
	for name, of := range map[string]struct {
		part  string
		sizes map[int]string // by tokens
	}{
		"by pixels": {picture, map[int]string{100: pngOf(280, 280, 20_000), 3000: pngOf(1536, 1536, 20_000)}},
		"by length": {picture, map[int]string{100: short, 3000: long}},
		"three":     {picture, map[int]string{100: pngOf(280, 280, 100), 800: pngOf(800, 800, 100), 3000: long}},
		"sounds": {
			`{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}},`, map[int]string{100: short, 3000: long},
		},
		"files": {
			`{"type":"file","file":{"file_data":"data:application/pdf;base64,%s"}},`, map[int]string{100: short, 3000: long},
		},
	} {
		sizes := of.sizes
		d := startFake(t, 1, 1, renderedConfig)
		ask := func(n int, real float64, media ...int) (match float64) {
			var parts strings.Builder
			all := text
			for _, tokens := range media {
				fmt.Fprintf(&parts, of.part, sizes[tokens])
				all += tokens
			}
			match, _ = d.askFor("/v1/chat/completions", fmt.Sprintf(`{"model":"see","messages":[{"role":"user","content":[%s`+
				`{"type":"text","text":%q}]}]}`, parts.String(), seededWords(uint64(n), 380)), all, real)
			return match
		}
		for n := range 20 {
			for tokens := range sizes {
				want := float64(tokens) / float64(tokens+text)
				if match := ask(10*n+tokens*1000, want, tokens); n > 2 && math.Abs(match-want) > 0.1 {
					t.Errorf("%s, %d: %.2f of %d tokens are matched, want %.2f", name, n, match, tokens, want)
				}
			}
		}
		for n := range 3 {
			want := 3100.0 / (3100 + text)
			if match := ask(7+n, want, 100, 3000); n > 0 && math.Abs(match-want) > 0.1 {
				t.Errorf("%s: %.2f of two are matched, want %.2f", name, match, want)
			}
		}
	}
}
