package prompt

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// pictureOf returns the data of a picture.
func pictureOf(seed string, size int) string {
	return strings.Repeat(seed+"/+Az09", size/len(seed+"/+Az09")) + "=="
}

// pictureBodies are the same conversation, with a picture, in several APIs.
func pictureBodies(data, question string) map[string]string {
	texts := `{"role":"system","content":"` + strings.Repeat("some rules ", 100) + `"},`
	behind := `,{"type":"text","text":"` + question + `"}]}],"model":"m","max_tokens":7}`
	open := `{"messages":[` + texts + `{"role":"user","content":[{"type":"image`
	return map[string]string{
		"data URL": open + `_url","image_url":{"url":"data:image/png;base64,` + data + `"}}` + behind,
		"data":     open + `","source":{"type":"base64","media_type":"image/png","data" : "` + data + `"}}` + behind,
	}
}

// wholeChain returns the chain of a body that is not read on.
func wholeChain(t *testing.T, body string) []Block {
	t.Helper()
	_, parts, err := Read([]byte(body), true)
	if err != nil {
		t.Fatal(err)
	}
	blocks, _ := NewChainer(testSecret, 512).Chain([]byte(body), &parts)
	return blocks
}

// A body with long pictures is the same prompt, whether it is read on or not, and what is behind them counts.
func TestLongBodyWithPictures(t *testing.T) {
	const keep, size = 16 << 10, 128 << 10
	question := strings.Repeat("what is that? ", 200)
	for name, body := range pictureBodies(pictureOf("a", size), question) {
		chain := longChain(t, []byte(body), keep)
		if whole := wholeChain(t, body); len(chain) < 4 || !slices.Equal(chain, whole) {
			t.Errorf("%s: %d blocks, and %d of all of it", name, len(chain), len(whole))
		}
		l := long(keep, []byte(body))
		short, whole := l.Body()
		info, _, err := Read(short, whole)
		if n := len(short) + l.Skipped(); err != nil || !whole || n < len(body) || n > len(body)+100 || !info.Media ||
			info.MaxTokens != 7 || info.TextBytes < len(question) || info.TextBytes > len(question)+2000 {
			t.Errorf("%s: %+v, %v: %d bytes are kept or skipped of %d", name, info, err, n, len(body))
		}
		if other := longChain(t, []byte(pictureBodies(pictureOf("b", size), question)[name]), keep); len(other) < 4 ||
			common(t, chain, other) > 3 {
			t.Errorf("%s: another picture has %d of %d blocks in common", name, common(t, chain, other), len(other))
		}
		for _, from := range []int{1, 1000, minPicture, len(body) / 2, len(body) - len(question) - 100} {
			for n := from; n < min(from+60, len(body)); n++ {
				if again, _ := long(keep, []byte(body), n).Body(); !bytes.Equal(again, short) {
					t.Fatalf("%s: parts that begin at %d are another body", name, n)
				}
			}
		}
	}
}

// A string is a long picture by its length as it is written, both where bodies are read on and where they are not.
func TestLengthsOfPictures(t *testing.T) {
	for n := minPicture - 40; n < minPicture+10; n++ {
		for name, body := range pictureBodies(strings.Repeat("x", n), strings.Repeat("what is that? ", 200)) {
			want := wholeChain(t, body)
			if chain := longChain(t, []byte(body), 1<<20); len(want) < 4 || !slices.Equal(chain, want) {
				t.Errorf("%s of %d bytes: %d of %d blocks are the same", name, n, common(t, chain, want), len(want))
			}
		}
	}
}
