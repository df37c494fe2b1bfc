package prompt

import (
	"bytes"
	"encoding/binary"
	"hash"
	"strconv"
)

// A picture may be longer than all that is kept of a prompt. So a long one is known by a digest of its data, as the
// body writes it: a [LongBody] keeps that in its place, and a [Chainer] makes it of a picture of which there is all.

// minPicture is the length in bytes of a string that is long, with one of its quotes.
const minPicture = 4 << 10

// mayBePicture reports whether the string in the value may turn out to be a long picture: it is in a prompt, and there
// was room for all of it so far.
func (l *LongBody) mayBePicture() bool {
	return l.latest.kind == kindText && l.depth > 0 && !l.latest.cut
}

// meetPicture begins to leave out the string that is being read, once it is known to be a long picture.
func (l *LongBody) meetPicture() {
	if !l.inside || len(l.kept) != l.begin+minPicture || !l.mayBePicture() {
		return
	}
	data := l.kept[l.begin+1:]
	if isDataURL(data) {
		data = dataOf(data)
	} else if !endsInPictureKey(l.kept[:l.begin]) {
		return
	}
	l.digest.Reset()
	l.picture = true
	l.room += len(data)
	l.leaveOut(data)
	l.kept = l.kept[:len(l.kept)-len(data)]
}

// leaveOut takes data of a picture.
func (l *LongBody) leaveOut(data []byte) {
	l.digest.Write(data)
	l.skipped += len(data)
}

// readPicture reads more of a picture, from at on, and returns the index after that.
func (l *LongBody) readPicture(part []byte, at int) int {
	end, ended := l.rest(part, at)
	if !ended {
		l.leaveOut(part[at:end])
		return end
	}
	l.leaveOut(part[at : end-1])
	l.picture, l.inside = false, false
	l.keep(append(appendDigest(nil, l.digest), '"'))
	return end
}

// endsInPictureKey reports whether a text ends in a key whose value may be a picture.
func endsInPictureKey(text []byte) bool {
	text, isKey := bytes.CutSuffix(bytes.TrimRight(text, ": \n\t\r"), []byte{'"'})
	return isKey && kindOfKey(text[bytes.LastIndexByte(text, '"')+1:])&keyPicture != 0
}

// dataOf returns the data in a data URL.
func dataOf(url []byte) []byte {
	_, data, _ := bytes.Cut(url, []byte(";base64,"))
	return data
}

// appendDigest appends the text of a digest of 128 bits.
func appendDigest(dst []byte, h hash.Hash) []byte {
	sum := h.Sum(nil)
	dst = strconv.AppendUint(dst, binary.LittleEndian.Uint64(sum), 16)
	return strconv.AppendUint(append(dst, '-'), binary.LittleEndian.Uint64(sum[8:]), 16)
}
