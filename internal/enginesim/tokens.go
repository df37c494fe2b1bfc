package enginesim

// BytesPerToken is the length of a token.
const BytesPerToken = 4

// words are the texts of generated tokens, each BytesPerToken long.
const words = "the and for are but not you all any can had her was one our out day get has him " +
	"his how man new now old see two way who did its let put say she too use dad "

// TokensOf is the number of tokens of n bytes of prompt; an empty prompt still has one (vLLM puts a start token before
// it).
func TokensOf(n int) int { return max(1, (n+BytesPerToken-1)/BytesPerToken) }

// Word is the text of the i-th token of an answer with the seed.
func Word(seed uint64, i int) string {
	k := int(Mix(seed+uint64(i)) % uint64(len(words)/BytesPerToken))
	return words[k*BytesPerToken : (k+1)*BytesPerToken]
}

// AppendText appends the first n tokens of an answer with the seed.
func AppendText(b []byte, seed uint64, n int) []byte {
	for i := range n {
		b = append(b, Word(seed, i)...)
	}
	return b
}

// Text is the text of an answer of n tokens with the seed.
func Text(seed uint64, n int) string {
	return string(AppendText(make([]byte, 0, n*BytesPerToken), seed, n))
}

// Mix is the finalizer of SplitMix64: every input bit changes every output bit.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
