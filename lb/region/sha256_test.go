package region

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// The signature of any text with any key is that of the standard library, in whatever parts the text comes.
func TestHMAC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1000)
	for n := range 4000 {
		key := make([]byte, n%200)
		for _, b := range [][]byte{key, text} {
			for i := range b {
				b[i] = byte(r.Uint32())
			}
		}
		h, want := newHMAC(key), hmac.New(sha256.New, key)
		for range 2 { // the second time after reset
			rest := text[:n%257]
			want.Reset()
			want.Write(rest)
			h.reset()
			for len(rest) > 0 {
				part := r.IntN(min(len(rest), 130)) + 1
				h.write(rest[:part])
				rest = rest[part:]
			}
			prefix := []byte("in front")
			if got := h.sum(prefix); !bytes.Equal(got, want.Sum(prefix)) {
				t.Fatalf("a key of %d and a text of %d bytes: got %x", len(key), n%257, got)
			}
		}
	}
}

func FuzzHMAC(f *testing.F) {
	f.Add([]byte("key"), []byte("text"), 1)
	f.Fuzz(func(t *testing.T, key, text []byte, at int) {
		at = max(0, min(at, len(text)))
		h, want := newHMAC(key), hmac.New(sha256.New, key)
		h.write(text[:at])
		h.write(text[at:])
		want.Write(text)
		if got := h.sum(nil); !hmac.Equal(got, want.Sum(nil)) {
			t.Errorf("got %x", got)
		}
	})
}

func TestEqual(t *testing.T) {
	a := []byte("0123456789abcdef0123456789abcdef")
	if !equal(a, bytes.Clone(a)) || !equal(nil, nil) {
		t.Error("equal texts are not")
	}
	for i := range a {
		for bit := range 8 {
			b := bytes.Clone(a)
			b[i] ^= 1 << bit
			if equal(a, b) {
				t.Errorf("byte %d, bit %d: equal", i, bit)
			}
		}
	}
}
