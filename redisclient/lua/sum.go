package lua

import (
	"encoding/binary"
	"math/bits"
)

// Sum returns the SHA-1 of a script's text in hex, by which EVALSHA names it: FIPS 180-4, section 6.1. The package
// crypto/sha1 would make an artifact 0.4 MB larger.
func Sum(text string) string {
	h := [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
	var block [64]byte
	rest := text
	for ; len(rest) >= len(block); rest = rest[len(block):] {
		copy(block[:], rest)
		addBlock(&h, &block)
	}
	clear(block[copy(block[:], rest):])
	block[len(rest)] = 0x80
	if len(rest) >= 56 { // there is no room for the length
		addBlock(&h, &block)
		clear(block[:])
	}
	binary.BigEndian.PutUint64(block[56:], 8*uint64(len(text)))
	addBlock(&h, &block)
	sum := make([]byte, 0, 40)
	for _, word := range h {
		for shift := 28; shift >= 0; shift -= 4 {
			sum = append(sum, "0123456789abcdef"[word>>shift&15])
		}
	}
	return string(sum)
}

// addBlock adds a block to the state of the sum.
func addBlock(h *[5]uint32, block *[64]byte) {
	var w [80]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(block[4*i:])
	}
	for i := 16; i < 80; i++ {
		w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
	}
	a, b, c, d, e := h[0], h[1], h[2], h[3], h[4]
	for i, word := range w {
		var f, k uint32
		switch i / 20 {
		case 0:
			f, k = b&c|^b&d, 0x5a827999
		case 1:
			f, k = b^c^d, 0x6ed9eba1
		case 2:
			f, k = b&c|b&d|c&d, 0x8f1bbcdc
		default:
			f, k = b^c^d, 0xca62c1d6
		}
		a, b, c, d, e = bits.RotateLeft32(a, 5)+f+e+k+word, a, bits.RotateLeft32(b, 30), c, d
	}
	h[0], h[1], h[2], h[3], h[4] = h[0]+a, h[1]+b, h[2]+c, h[3]+d, h[4]+e
}
