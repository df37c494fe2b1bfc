package prompt

import (
	"bytes"
	"encoding/binary"
	"hash"
	"strconv"
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// A picture may be longer than all that is kept of a prompt. So a long one is known by a digest of its data, as the
// body writes it: a [LongBody] keeps that in its place, and a [Chainer] makes it of a picture of which there is all.

// minPicture is the length in bytes of a string that is long, with one of its quotes.
const minPicture = 4 << 10

// endsInPictureKey reports whether a text ends in a key whose value may be a picture, or in such a key and pictures of
// its list, up to mostPictures.
func endsInPictureKey(text []byte) bool {
	const mostPictures = 64
	for range mostPictures {
		end := lastQuote(text)
		begin := lastQuote(text[:max(end, 0)])
		if begin < 0 {
			return false
		}
		if bytes.IndexByte(text[end:], ':') > 0 {
			return kindOfKey(text[begin+1:end])&keyPicture != 0
		}
		for _, b := range text[end+1:] {
			if b != ',' && !jsontext.IsSpace(b) {
				return false
			}
		}
		text = text[:begin]
	}
	return false
}

// lastQuote returns the index of the last quote in a text, -1 if it has none.
//
//go:noinline
func lastQuote(text []byte) int {
	i := len(text) - 1
	for i >= 0 && text[i] != '"' {
		i--
	}
	return i
}

// dataOf returns the data in a data URL, and any other text as it is.
//
//go:noinline
func dataOf(text []byte) []byte {
	if isDataURL(text) {
		_, text, _ = bytes.Cut(text, []byte(";base64,"))
	}
	return text
}

// digestText returns a digest of media as text, with the class of their size.
func digestText(h hash.Hash, size byte) []byte {
	text := strconv.AppendUint(nil, binary.LittleEndian.Uint64(h.Sum(nil)), 16)
	return strconv.AppendUint(append(text, sizeMark), uint64(size), 10)
}

// sizeMark is in front of the size in the digest of media. It is in no data.
const sizeMark = '~'

// sizeInText returns the class of the size in the text of a digest.
func sizeInText(text []byte) (size byte, ok bool) {
	const longest = 16 + len("~63")
	at := bytes.IndexByte(text[:min(len(text), longest)], sizeMark)
	if at < 0 || len(text) > longest {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[at+1:]), 10, 8)
	return byte(n), err == nil && n < MediaSizes
}

// isProse reports whether a text is neither data nor an address, by how it begins.
func isProse(text []byte) bool {
	for _, b := range text[:min(len(text), maxShortName)] {
		if b == '/' {
			return false
		}
		if b <= ' ' || b >= utf8.RuneSelf {
			return !isDataURL(text)
		}
	}
	return false
}

// isDataURL reports whether a string is a data URL with base64 content.
func isDataURL(s []byte) bool {
	const longestType = 128 // bytes of type and parameters before the data
	return bytes.HasPrefix(s, []byte("data:")) && bytes.Contains(s[:min(len(s), longestType)], []byte(";base64,"))
}

// maxShortName is the length in bytes up to which a URL or an id is added as it is, and a role is unescaped.
const maxShortName = 64
