package prompt

import (
	"bytes"
	"math/bits"
)

// What an image takes in tokens depends on its size, for one model on its pixels, for another on nothing. So media are
// put into classes by size, each 1.4 times the one before it: of images by the pixels that the header of a PNG, GIF,
// WebP or JPEG file says, of all else by the length of the data. An address shows nothing, and is a class of its own.

const (
	// MediaSizes is how many classes there are. Class 0 is media of which only an address is known.
	MediaSizes = 64
	// maxMedia is for how many of a prompt's media the size is noted.
	maxMedia = 128

	firstLength = MediaSizes / 2 // the first class by length; those by pixels are below
	smallestLog = 8              // of pixels and of data, to base 2
	minData     = 1 << smallestLog
	maxSegments = 32 // of a JPEG file
)

// sizeIn returns the class of media by the beginning of their data, or address, or that their length decides.
func sizeIn(head []byte) (size byte, byLength bool) {
	if n := pixelsIn(head); n > 0 {
		return 1 + classOf(n, firstLength-2), false
	}
	return 0, bytes.IndexByte(head[:min(len(head), 16)], ':') < 0
}

// sizeOf returns the class of data by their length.
func sizeOf(length int) byte {
	if length < minData {
		return 0 // may be an id
	}
	return firstLength + classOf(length, MediaSizes-1-firstLength)
}

// classOf returns the class of a number, from 0 to most: two for each power of 2.
func classOf(n, most int) byte {
	n = min(n, 1<<30)
	log := bits.Len(uint(n)) - 1
	class := 2*(log-smallestLog) + n*n>>(2*log+1)
	return byte(min(max(class, 0), most))
}

// base64Text reads bytes of data in base64.
type base64Text struct {
	text  []byte
	short bool // bytes were read behind its end
}

// pixelsIn returns how many pixels the header of an image says it has, 0 if it is none, or does not say so in the text.
func pixelsIn(head []byte) int {
	if bytes.IndexByte(head, '\\') >= 0 {
		return 0 // some clients escape slashes
	}
	t := base64Text{text: head}
	width, height := 0, 0
	switch t.big(0, 2) {
	case 0x8950: // PNG
		width, height = t.big(16, 4), t.big(20, 4)
	case 'G'<<8 | 'I':
		width, height = t.little(6, 2), t.little(8, 2)
	case 'R'<<8 | 'I':
		width, height = t.webP()
	case 0xffd8:
		width, height = t.jpeg()
	}
	if t.short {
		return 0
	}
	return min(width, 1<<24) * min(height, 1<<24)
}

// webP returns the size of a WebP image: with loss, lossless, or extended.
func (t *base64Text) webP() (width, height int) {
	const most = 1<<14 - 1
	if t.big(8, 2) != 'W'<<8|'E' {
		return 0, 0
	}
	switch t.big(15, 1) {
	case ' ':
		return t.little(26, 2) & most, t.little(28, 2) & most
	case 'L':
		n := t.little(21, 4)
		return 1 + n&most, 1 + n>>14&most
	case 'X':
		return 1 + t.little(24, 3), 1 + t.little(27, 3)
	}
	return 0, 0
}

// jpeg returns the size of a JPEG image, by its first frame header (ITU-T T.81, B.2.2).
func (t *base64Text) jpeg() (width, height int) {
	at := 2
	for range maxSegments {
		marker := t.big(at, 2)
		switch {
		case t.short || marker>>8 != 0xff:
			return 0, 0
		case marker >= 0xffc0 && marker <= 0xffcf && marker != 0xffc4 && marker != 0xffc8 && marker != 0xffcc:
			return t.big(at+7, 2), t.big(at+5, 2)
		case marker == 0xffff: // padding
			at++
		default:
			at += 2 + t.big(at+2, 2)
		}
	}
	return 0, 0
}

// big reads an integer of n bytes, the most significant first. Like little it is not inlined, for the size of the
// artifacts.
//
//go:noinline
func (t *base64Text) big(at, n int) (v int) {
	for i := range n {
		v = v<<8 | t.byte(at+i)
	}
	return v
}

// little reads an integer of n bytes, the least significant first.
//
//go:noinline
func (t *base64Text) little(at, n int) (v int) {
	for i := range n {
		v |= t.byte(at+i) << (8 * i)
	}
	return v
}

// byte returns a byte of the data.
//
//go:noinline
func (t *base64Text) byte(at int) int {
	i := at / 3 * 4
	if i+4 > len(t.text) {
		t.short = true
		return 0
	}
	v := 0
	for _, b := range t.text[i : i+4] {
		v = v<<6 | sixBits(b)
	}
	return v >> (16 - at%3*8) & 0xff
}

// sixBits returns what a digit of base64 stands for, of either alphabet.
func sixBits(b byte) int {
	switch {
	case b >= 'a':
		return int(b-'a'+26) & 63
	case b == '_':
		return 63
	case b >= 'A':
		return int(b-'A') & 63
	case b >= '0':
		return int(b-'0'+52) & 63
	case b == '/':
		return 63
	}
	return 62
}
