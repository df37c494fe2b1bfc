package prompt

import "cmp"

// Shape is the API that a body is meant for, as far as the body tells.
type Shape uint8

// The shapes.
const (
	Unknown     Shape = iota
	Chat              // OpenAI chat completions: messages
	Completions       // OpenAI completions: prompt
	Responses         // OpenAI responses: input, with messages or with keys of that API
	Embeddings        // OpenAI embeddings: input
	Rerank            // rerank and score: documents, or two texts
	Anthropic         // Anthropic messages: messages with a system prompt beside them
	SGLang            // SGLang's own: text, or input_ids
	TGI               // TGI's own: inputs
	Triton            // Triton's generate extension: text_input
	Gemini            // Gemini: contents
)

// fieldSet is a set of fields.
type fieldSet uint64

func (f fieldSet) has(x field) bool { return f>>x&1 != 0 }

func setOf(fields ...field) (set fieldSet) {
	for _, f := range fields {
		set |= 1 << f
	}
	return set
}

// reads is what of the fields with text each API reads. What else is there is not part of the prompt. Of a body that
// does not tell its API it may be all those whose names say that they are.
var reads = [...]fieldSet{
	Unknown: setOf(fieldTools, fieldSystem, fieldInstructions, fieldMessages, fieldPrompt, fieldInput, fieldSuffix,
		fieldQuery, fieldDocuments, fieldText1, fieldText2),
	Chat:        setOf(fieldTools, fieldMessages),
	Completions: setOf(fieldPrompt, fieldSuffix),
	Responses:   setOf(fieldTools, fieldInstructions, fieldPrompt, fieldInput),
	Embeddings:  setOf(fieldInput),
	Rerank:      setOf(fieldQuery, fieldDocuments, fieldText1, fieldText2),
	Anthropic:   setOf(fieldTools, fieldSystem, fieldMessages),
	SGLang:      setOf(fieldText, fieldInputIDs),
	TGI:         setOf(fieldTools, fieldInputs),
	Triton:      setOf(fieldTextInput),
	Gemini:      setOf(fieldTools, fieldSystem, fieldContents),
}

// ownFields have names that mean something else in other APIs. Only in those that read them are they part of a prompt.
var ownFields = setOf(fieldPreviousResponse, fieldConversation, fieldText, fieldInputIDs, fieldInputs, fieldTextInput,
	fieldContents)

// shape tells the API by the fields that were seen.
func (s *scanner) shape() Shape {
	has := s.given
	stored := s.firstOf(fieldPrompt) == '{' // one that the server keeps
	switch {
	case has(fieldMessages) && (has(fieldSystem) || has(fieldAnthropicVersion)):
		return Anthropic
	case has(fieldMessages):
		return Chat
	case has(fieldPrompt) && !stored:
		return Completions
	case has(fieldDocuments), has(fieldText1):
		return Rerank
	case stored, has(fieldInput) && (s.nested || has(fieldInstructions) || has(fieldMaxOutputTokens) ||
		has(fieldPreviousResponse) || has(fieldConversation)):
		return Responses
	case has(fieldInput):
		return Embeddings
	case has(fieldContents):
		return Gemini
	case has(fieldTextInput):
		return Triton
	case has(fieldInputs):
		return TGI
	case has(fieldText) && s.firstOf(fieldText) != '{', has(fieldInputIDs):
		return SGLang
	}
	return Unknown
}

// given says whether a field is there and not null.
func (s *scanner) given(f field) bool {
	value := s.parts.of(s.body, f)
	return s.seen.has(f) && (len(value) == 0 || value[0] != 'n')
}

// settle sums up, when all fields are known, what the API reads of them, and leaves out of the parts what it does not.
func (s *scanner) settle() {
	shape := s.shape()
	prompt := reads[shape]
	if shape == Responses {
		for _, f := range [...]field{fieldPreviousResponse, fieldConversation} {
			if s.given(f) {
				prompt |= 1 << f
				s.info.Continued = true
			}
		}
		s.info.Continued = s.info.Continued || s.firstOf(fieldPrompt) == '{'
	}
	s.info.Shape = shape
	for f := fieldMessages; f.isText(); f++ {
		if prompt.has(f) {
			s.info.TextBytes += s.texts[f-fieldMessages]
			s.info.TokenIDs += s.ids[f-fieldMessages]
		}
	}
	for f := range fieldCount {
		if (ownFields &^ prompt).has(f) {
			s.parts.spans[f] = span{}
		}
	}
	s.info.MaxTokens = s.maxTokens()
	s.info.Uncached = s.uncached()
}

// maxTokens returns the limit that binds when several are given.
func (s *scanner) maxTokens() int {
	limits := &s.limits
	switch s.info.Shape {
	case SGLang:
		return limits[fieldSamplingTokens]
	case TGI:
		return limits[fieldParameterNewTokens]
	case Triton:
		return cmp.Or(limits[fieldMaxTokens], limits[fieldParameterTokens])
	case Gemini:
		return limits[fieldGenerationTokens]
	}
	return cmp.Or(limits[fieldMaxCompletionTokens], limits[fieldMaxOutputTokens], limits[fieldMaxTokens])
}
