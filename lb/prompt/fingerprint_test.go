package prompt

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// blocksAfter returns so many blocks, of which the first are those of another chain.
func blocksAfter(rng *rand.Rand, n int, begins []Block) []Block {
	blocks := slices.Clone(begins)
	for len(blocks) < n {
		end := 0
		if k := len(blocks); k > 0 {
			end = blocks[k-1].End
		}
		blocks = append(blocks, Block{Key: rng.Uint64(), End: end + 8*(1+rng.IntN(64))})
	}
	return blocks
}

// marksOf returns what the fingerprint of a chain says.
func marksOf(t *testing.T, blocks []Block, known int) []Mark {
	t.Helper()
	text := AppendFingerprint(nil, blocks, known)
	marks, ok := ParseFingerprint(string(text))
	if !ok || len(text) > maxMarks*markLen || (len(blocks) > 0) != (len(marks) > 0) {
		t.Fatalf("of %d blocks %d bytes, %v", len(blocks), len(text), ok)
	}
	for _, m := range marks {
		if b := blocks[m.Number]; m.Key != uint32(b.Key) || m.End != b.End {
			t.Fatalf("of %d blocks %+v, want %+v", len(blocks), m, b)
		}
	}
	return marks
}

// What two prompts have in common shows but for twice as many blocks as they differ in, and whole where that was known.
func TestFingerprintShowsWhatIsShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range MaxBlocks + 1 {
		whole := blocksAfter(rng, n, nil)
		if last := marksOf(t, whole, 0); n > 0 && last[len(last)-1].Number != n-1 {
			t.Errorf("of %d blocks the last one is not there", n)
		}
		for shared := range n {
			other := blocksAfter(rng, shared+rng.IntN(MaxBlocks+1-shared), whole[:shared])
			seen, known := 0, 0
			a, b := marksOf(t, whole, shared), marksOf(t, other, shared)
			for _, m := range marksOf(t, whole, 0) {
				if slices.Contains(marksOf(t, other, 0), m) {
					seen = m.Number + 1
				}
			}
			for _, m := range a {
				if slices.Contains(b, m) {
					known = m.Number + 1
				}
			}
			differ := max(n, len(other)) - shared
			if seen > shared || seen <= shared-2*differ || seen < shared/2 || known != shared {
				t.Fatalf("%d and %d blocks, of which %d are shared: %d show, %d where that was known", n, len(other),
					shared, seen, known)
			}
		}
	}
}

// Of the blocks of one answer, the first one is enough.
func TestFingerprintOfAnswers(t *testing.T) {
	blocks := []Block{
		{Key: 1, End: 512}, {Key: 2, End: 2048}, {Key: 3, End: 2048}, {Key: 4, End: 2048}, {Key: 5, End: 2560},
	}
	if got := marksOf(t, blocks, 4); len(got) != 3 || got[1].Number != 1 || got[2].Number != 4 {
		t.Errorf("%+v", got)
	}
	long := blocksAfter(rand.New(rand.NewPCG(3, 4)), 1, nil)
	long[0].End = 1 << 40
	if got, ok := ParseFingerprint(string(AppendFingerprint(nil, long, 0))); !ok || got[0].End < 16<<20-8 {
		t.Errorf("of a long prompt %+v", got)
	}
}

func FuzzFingerprint(f *testing.F) {
	f.Add(string(AppendFingerprint(nil, []Block{{Key: 7, End: 512}, {Key: 8, End: 1024}}, 0)))
	f.Add("AAAAAAAAA")
	f.Add("AAAAAAAA AAAAAAAAAA!")
	f.Fuzz(func(t *testing.T, text string) {
		marks, ok := ParseFingerprint(text)
		if len(marks) > maxMarks || ok && len(marks)*markLen != len(text) {
			t.Errorf("%q: %+v, %v", text, marks, ok)
		}
	})
}

func TestDisguise(t *testing.T) {
	a, b := Secret("a"), Secret("b")
	seen := []uint32{Disguise(a, 1), Disguise(a, 2), Disguise(b, 1)}
	if again := Disguise(a, 1); seen[0] != again || seen[0] == seen[1] || seen[0] == seen[2] {
		t.Errorf("%x, then %x", seen, again)
	}
}
