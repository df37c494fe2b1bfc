package learned

import "github.com/warmgate/warmgate/lb/prompt"

// What images, sounds and files take in tokens is learned from usage, for each model and for each class of their sizes:
// see prompt.MediaSizes. One of a size that is not known counts for as much as one of the model on average.

const (
	// typicalMedia is what an image, a sound or a file counts for, in tokens, until answers show it; each moves the
	// estimates by mediaShare, since those of a model and a size are alike.
	typicalMedia = 600
	mediaShare   = 0.25
)

// Media is what a prompt contains of images, sounds and files.
type Media struct {
	Count  int
	Tokens float64 // that they are likely to take
	Sizes  []byte  // the classes of their sizes: see [prompt.Chainer.Media]
}

// mediaTokens is what one takes for a model, 0 where it is not known.
type mediaTokens struct {
	any    float64 // of any size
	bySize [prompt.MediaSizes]float32
}

// observe averages an answer in, which shows what all media of a prompt took. Where one is of a size that is not known,
// it took what those that are known leave.
func (t *mediaTokens) observe(m Media, tokens float64) {
	t.any = toward(t.any, max(tokens/float64(m.Count), 1), mediaShare)
	if m.Count > len(m.Sizes) {
		return
	}
	known, unknown := 0.0, 0
	for _, size := range m.Sizes {
		known += float64(t.bySize[size])
		if t.bySize[size] == 0 {
			unknown++
		}
	}
	var done uint64
	for _, size := range m.Sizes {
		l := float64(t.bySize[size])
		switch {
		case done>>size&1 != 0:
			continue
		case unknown == 0:
			l = toward(l, l*max(tokens, 1)/known, mediaShare)
		case l == 0:
			l = max((tokens-known)/float64(unknown), 1)
		}
		t.bySize[size] = float32(l)
		done |= 1 << size
	}
}

// MediaBytes returns how many bytes of text an image, a sound or a file counts for, by its size, under the key and
// wider ones, and how many bytes a token has.
func (m Models) MediaBytes(key Key) (bytes []int, bytesPerToken float64) {
	typical := m.Typical(key, 0)
	bytes = make([]int, prompt.MediaSizes)
	for wider := true; wider; key, wider = key.wider() {
		known := m[key].media
		for size := range bytes {
			if known != nil && bytes[size] == 0 {
				bytes[size] = int(float64(known.bySize[size]) * typical.BytesPerToken)
			}
		}
	}
	for size := range bytes {
		if bytes[size] == 0 {
			bytes[size] = int(typical.media * typical.BytesPerToken)
		}
	}
	return bytes, typical.BytesPerToken
}

// ObserveMedia averages in what the media of a prompt took, behind observe of the same answer.
func (m Models) ObserveMedia(key Key, of Media, tokens float64) {
	for wider := true; wider; key, wider = key.wider() {
		l, known := m[key]
		if !known {
			continue
		}
		if l.media == nil {
			l.media = &mediaTokens{}
			m[key] = l
		}
		l.media.observe(of, tokens)
	}
}
