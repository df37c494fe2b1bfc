// Package prompt reads from the JSON body of a request what its balancing depends on: the limits on the output, how
// much text the prompt contains, and the prefix blocks of the prompt. It makes one pass over the received bytes, copies
// none of them, and needs the same few kilobytes of memory for any body.
//
//   - [Scan] and [Read] return the limits and the length of the prompt. They recognize the APIs of OpenAI, Anthropic,
//     Gemini, SGLang, TGI and Triton: see [API].
//   - A [Chainer] cuts the prompt into blocks, each named by a keyed hash of everything before its end.
package prompt

import "errors"

// Errors of Scan. Both mean that the request cannot be interpreted.
var (
	// ErrMalformed is returned for a body that is not one JSON object, or is invalid as far as it was received.
	ErrMalformed = errors.New("prompt: body is not a JSON object")
	// ErrAmbiguous is returned for a body with a relevant key twice. JSON parsers differ in which value they use, so
	// the model server might read another request than the one that was counted.
	ErrAmbiguous = errors.New("prompt: a key of the request is there twice")
)

// Info is what a body contains. A value that is absent, or of the wrong type, is zero.
type Info struct {
	MaxTokens   int // limit on the tokens of one answer
	Stream      bool
	N           int // number of answers, in an API that has n
	TextBytes   int // bytes of text that the model reads, in UTF-8 and without escapes; media do not count
	TokenIDs    int // tokens of a prompt given as numbers, in addition to TextBytes
	API         API
	Media       bool // the prompt contains images, sound or files, so that its tokens do not follow from its bytes
	Stateful    bool // the prompt contains what the server stores: an earlier response, a conversation, a stored prompt
	Answered    bool // the prompt has an answer of a model, or continues one: it is a later turn of a conversation
	BypassCache bool // the engine computes the whole prompt, to return the log probabilities of its tokens
}

// Scan reads a request body. If complete is false, the body is the beginning of a longer one and Info covers what was
// received; a truncated body is then no error. The time is linear in len(body) for any content. After about 20,000 keys
// and values, more than any legitimate body has, the rest counts as text and is not parsed.
func Scan(body []byte, complete bool) (Info, error) {
	info, _, err := Read(body, complete)
	return info, err
}

// Read is Scan, and also returns the positions of the prompt's fields.
func Read(body []byte, complete bool) (Info, Parts, error) { return ReadAs(Unknown, body, complete) }

// ReadAs is Read for a request whose path names the API, or [Unknown]. The path is ignored for a body without a prompt
// for that API.
func ReadAs(path API, body []byte, complete bool) (Info, Parts, error) {
	s := scanner{body: body}
	switch s.run() {
	case malformed:
		return Info{}, Parts{}, ErrMalformed
	case ambiguous:
		return Info{}, Parts{}, ErrAmbiguous
	case ranOut:
		if complete {
			return Info{}, Parts{}, ErrMalformed
		}
		s.pos = len(body)
		s.parts.cut, s.parts.cutField = true, s.field
		s.endField()
	case tooMany:
		s.parts.cut, s.parts.cutField = true, s.field
		s.endField()
		s.info.TextBytes = len(body) - s.pos
	}
	s.summarize(path)
	return s.info, s.parts, nil
}
