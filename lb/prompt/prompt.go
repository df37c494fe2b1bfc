// Package prompt reads what the balancing of a request depends on from its JSON body: the limits on the output and how
// much text the prompt holds. It makes one pass over the bytes that were received, copies none of them, and needs the same
// few kilobytes of memory whatever the body is.
package prompt

import "errors"

// Errors of Scan. Both mean that nothing can be said about the request.
var (
	// ErrMalformed is returned for a body that is not one JSON object, or breaks the rules of JSON in what was received.
	ErrMalformed = errors.New("prompt: body is not a JSON object")
	// ErrAmbiguous is returned when a key that counts is there twice. JSON parsers differ in which one they take, so
	// the model server may read another request than the one that was weighed.
	ErrAmbiguous = errors.New("prompt: a key of the request is there twice")
)

// Info is what a body says. What it does not say, or says in a value of the wrong type, is zero.
type Info struct {
	MaxTokens   int // limit on the tokens of one answer
	Stream      bool
	N           int // answers asked for, in an API that has n
	TextBytes   int // bytes of text that the model reads, in UTF-8 and without escapes; media do not count
	TokenIDs    int // tokens of a prompt given as numbers, on top of TextBytes
	API         API
	Media       bool // pictures, sound or files are part of the prompt: the number of its tokens does not follow from its bytes
	Stateful    bool // so is what the server keeps: an earlier response, a conversation, or a prompt that is stored there
	BypassCache bool // the engine computes all of the prompt, whatever is in its KV cache, because its likelihoods are asked for
}

// maxCount bounds the numbers that are read, so that sums and products of them cannot overflow.
const maxCount = 1 << 30

// Scan reads a request body. With complete false the body is the beginning of a longer one, and Info says what is known
// so far; running out of bytes is then no error. The time is linear in len(body), whatever its content. Of a body with more keys and
// values than any good one has, what is behind the first 20,000 is taken for text and not looked at.
func Scan(body []byte, complete bool) (Info, error) {
	info, _, err := Read(body, complete)
	return info, err
}

// Read does what Scan does, and also finds the parts of the prompt.
func Read(body []byte, complete bool) (Info, Parts, error) { return ReadAs(Unknown, body, complete) }

// ReadAs does what Read does for a request whose path names the API, or [Unknown]. It is ignored for a body that has no
// prompt for that API.
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
		s.parts.cutField = s.field
		s.endField()
	case tooMany:
		s.parts.cutField = s.field
		s.endField()
		s.info.TextBytes = len(body) - s.pos
	}
	s.summarize(path)
	return s.info, s.parts, nil
}
