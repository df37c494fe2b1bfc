package region

import "math/bits"

// hmacSHA256 computes HMAC-SHA256 (RFC 2104, FIPS 180-4), as crypto/hmac does: that would make an artifact 0.15 MB
// larger, most of it for other algorithms. It has no branch and no index that depends on a secret.
type hmacSHA256 struct {
	inner, outer [8]uint32 // states behind the padded key
	state        [8]uint32
	block        [blockSize]byte // of the input, the part that fills no block yet
	size         uint64          // of the input, with the padded key
}

const (
	blockSize = 64
	sumSize   = 32
)

// newHMAC returns the HMAC with a key of any length.
func newHMAC(key []byte) *hmacSHA256 {
	h := &hmacSHA256{}
	if len(key) > blockSize {
		h.state, h.size = firstState, 0
		h.write(key)
		key = h.finish(nil)
	}
	for _, pad := range [2]byte{0x36, 0x5c} {
		var padded [blockSize]byte
		copy(padded[:], key)
		for i := range padded {
			padded[i] ^= pad
		}
		h.inner, h.outer = h.outer, firstState // the inner one comes first
		compress(&h.outer, padded[:])
	}
	h.reset()
	return h
}

// reset begins another text.
func (h *hmacSHA256) reset() { h.state, h.size = h.inner, blockSize }

// write adds to the text.
func (h *hmacSHA256) write(p []byte) {
	at := int(h.size % blockSize)
	h.size += uint64(len(p))
	if at > 0 {
		n := copy(h.block[at:], p)
		if p = p[n:]; at+n < blockSize {
			return
		}
		compress(&h.state, h.block[:])
	}
	for ; len(p) >= blockSize; p = p[blockSize:] {
		compress(&h.state, p)
	}
	copy(h.block[:], p)
}

// sum appends the HMAC of the text. The text is over.
func (h *hmacSHA256) sum(dst []byte) []byte {
	var inner [sumSize]byte
	h.finish(inner[:0])
	h.state, h.size = h.outer, blockSize
	h.write(inner[:])
	return h.finish(dst)
}

// finish appends the hash of what was written.
func (h *hmacSHA256) finish(dst []byte) []byte {
	var end [2 * blockSize]byte
	end[0] = 0x80
	n := blockSize - int((h.size+8)%blockSize) // up to the length, which ends a block
	for i := range 8 {
		end[n+i] = byte(h.size * 8 >> (56 - 8*i))
	}
	h.write(end[:n+8])
	for _, word := range h.state {
		dst = append(dst, byte(word>>24), byte(word>>16), byte(word>>8), byte(word))
	}
	return dst
}

// equal reports whether two texts of one length are equal. How long it takes does not depend on where they differ.
func equal(a, b []byte) bool {
	var differ byte
	for i := range a {
		differ |= a[i] ^ b[i]
	}
	return differ == 0
}

// compress takes a block into the state.
func compress(state *[8]uint32, block []byte) {
	var w [64]uint32
	for i := range 16 {
		b := block[4*i : 4*i+4]
		w[i] = uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	}
	for i := 16; i < 64; i++ {
		x, y := w[i-15], w[i-2]
		s0 := bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3
		s1 := bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10
		w[i] = w[i-16] + s0 + w[i-7] + s1
	}
	a, b, c, d, e, f, g, h := state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
	for i := range 64 {
		s1 := bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)
		t1 := h + s1 + (e&f ^ ^e&g) + roundKeys[i] + w[i]
		s0 := bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)
		t2 := s0 + (a&b ^ a&c ^ b&c)
		h, g, f, e, d, c, b, a = g, f, e, d+t1, c, b, a, t1+t2
	}
	for i, v := range [8]uint32{a, b, c, d, e, f, g, h} {
		state[i] += v
	}
}

var firstState = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

var roundKeys = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
