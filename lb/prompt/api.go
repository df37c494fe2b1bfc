package prompt

import (
	"cmp"
	"slices"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// API is the API that a body is for, as far as the path or the body shows it. It is Unknown also for a body with
// prompts of several APIs, of which an engine reads one and ignores the others.
type API uint8

// The APIs.
const (
	Unknown     API = iota
	Chat            // OpenAI chat completions: messages
	Completions     // OpenAI completions: prompt
	Responses       // OpenAI responses: input, with messages or with keys of that API
	Embeddings      // OpenAI embeddings: input
	Rerank          // rerank and score: documents, or two texts
	Anthropic       // Anthropic messages: messages with a system prompt beside them
	SGLang          // SGLang's own: text, or input_ids
	TGI             // TGI's own: inputs
	Triton          // Triton's generate extension: text_input
	Gemini          // Gemini: contents
)

// apiSet is a set of APIs.
type apiSet uint16

func (s apiSet) has(x API) bool { return s>>x&1 != 0 }

// apiFields are the fields with text that each API reads. Others in a body are not part of the prompt. For an unknown
// API they are all fields whose names are specific enough.
var apiFields = [...]fieldSet{
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

// promptFields are the fields one of which contains the prompt, for the APIs that a path can name.
var promptFields = [...]fieldSet{
	Chat:        setOf(fieldMessages),
	Completions: setOf(fieldPrompt),
	Responses:   setOf(fieldInput, fieldPrompt),
	Anthropic:   setOf(fieldMessages),
}

// apiSpecificFields have names with other meanings in other APIs. They are part of a prompt only in the APIs that read
// them.
var apiSpecificFields = setOf(fieldPreviousResponse, fieldConversation, fieldText, fieldInputIDs,
	fieldInputs, fieldTextInput, fieldContents)

// apis returns the APIs that may read the body: the one that the path names, if the body has a prompt for it, else all
// those that it has a prompt for. Empty prompts count only if there are no others. The set is never empty.
func (s *scanner) apis(path API) apiSet {
	var given, filled fieldSet
	for f := range fieldCount {
		if s.given(f) {
			given |= 1 << f
			if !isEmpty(s.parts.of(s.body, f)) {
				filled |= 1 << f
			}
		}
	}
	if int(path) < len(promptFields) && promptFields[path]&filled != 0 {
		return 1 << path
	}
	if set := s.apisOf(given, filled); set != 0 {
		return set
	}
	set := s.apisOf(given, given)
	set &= -set // any one of them
	return max(set, 1<<Unknown)
}

// apisOf returns the APIs with a prompt in one of the fields in there. The fields in given distinguish similar APIs.
func (s *scanner) apisOf(given, there fieldSet) (set apiSet) {
	add := func(yes bool, shape API) {
		if yes {
			set |= 1 << shape
		}
	}
	stored := s.firstOf(fieldPrompt) == '{' // stored by the server
	anthropic := given&setOf(fieldSystem, fieldAnthropicVersion) != 0
	responses := s.inputObjects ||
		given&setOf(fieldInstructions, fieldMaxOutputTokens, fieldPreviousResponse, fieldConversation) != 0
	responses = there.has(fieldInput) && responses || there.has(fieldPrompt) && stored
	add(there.has(fieldMessages) && !anthropic, Chat)
	add(there.has(fieldMessages) && anthropic, Anthropic)
	add(there.has(fieldPrompt) && !stored, Completions)
	add(responses, Responses)
	add(there.has(fieldInput) && !responses, Embeddings)
	add(there&setOf(fieldDocuments, fieldText1) != 0, Rerank)
	add(there.has(fieldText) && s.firstOf(fieldText) != '{' || there.has(fieldInputIDs), SGLang)
	add(there.has(fieldInputs), TGI)
	add(there.has(fieldTextInput), Triton)
	add(there.has(fieldContents), Gemini)
	return set
}

// given reports whether the body has a field that is not null.
func (s *scanner) given(f field) bool {
	value := s.parts.of(s.body, f)
	return s.seen.has(f) && (len(value) == 0 || value[0] != 'n')
}

// isEmpty reports whether a value other than null is an empty string, list or object, as far as it was received.
func isEmpty(value []byte) bool {
	if len(value) == 0 {
		return true
	}
	i := jsontext.Space(value, 1)
	switch value[0] {
	case '"':
		return len(value) == 1 || value[1] == '"'
	case '[', '{':
		return i == len(value) || value[i] == ']' || value[i] == '}'
	}
	return false
}

// summarize computes the results when all fields are known: how much text the API reads, and the limit on the output.
// Fields that the API does not read are removed from the parts. Of several possible APIs it is the one that reads most.
func (s *scanner) summarize(path API) {
	apis := s.apis(path)
	api := s.largest(apis)
	if apis == 1<<api {
		s.info.API = api
	}
	fields := apiFields[api]
	if api == Responses {
		fields |= s.statefulFields()
		s.info.Answered = s.info.Answered || fields != apiFields[api]
		s.info.Stateful = fields != apiFields[api] || s.firstOf(fieldPrompt) == '{' || s.refers
	}
	text, ids := s.sizeFor(api)
	s.info.TextBytes += text
	s.info.TokenIDs += ids
	for f := range fieldCount {
		if (apiSpecificFields &^ fields).has(f) {
			s.parts.spans[f] = span{}
		}
	}
	s.info.MaxTokens = s.maxTokens(apis)
	if !s.info.API.hasN() {
		s.info.N = 0
	}
	s.info.BypassCache = s.bypassesCache()
}

// largest returns the API of the set that reads most of the body, the first one of several.
func (s *scanner) largest(apis apiSet) API {
	api, size := Unknown, -1
	for a := range API(len(apiFields)) {
		if text, ids := s.sizeFor(a); apis.has(a) && text+ids*bytesPerID > size {
			api, size = a, text+ids*bytesPerID
		}
	}
	return api
}

// statefulFields returns the fields of the body that refer to what the server stores.
func (s *scanner) statefulFields() (set fieldSet) {
	for _, f := range [...]field{fieldPreviousResponse, fieldConversation} {
		if s.given(f) {
			set |= 1 << f
		}
	}
	return set
}

// bytesPerID is the number of bytes of text that a token given as a number counts for: a typical length of tokens.
const bytesPerID = 4

// sizeFor returns the bytes of text, and the tokens given as numbers, that the API reads.
func (s *scanner) sizeFor(api API) (text, ids int) {
	for f := fieldMessages; f.isText(); f++ {
		if apiFields[api].has(f) {
			text += s.texts[f-fieldMessages]
			ids += s.ids[f-fieldMessages]
		}
	}
	return text, ids
}

// hasN reports whether n requests several answers, in the API or in an unknown one.
func (s API) hasN() bool { return s == Unknown || s == Chat || s == Completions }

// maxTokens returns the highest limit of the APIs, 0 if one of them has none.
func (s *scanner) maxTokens(apis apiSet) (most int) {
	for a := range API(len(apiFields)) {
		if apis.has(a) {
			limit := s.limitOf(a)
			if limit == 0 {
				return 0
			}
			most = max(most, limit)
		}
	}
	return most
}

// limitOf returns the limit that is effective in the API; for Unknown the highest one in the body.
func (s *scanner) limitOf(api API) int {
	limits := &s.limits
	switch api {
	case Chat:
		return cmp.Or(limits[fieldMaxCompletionTokens], limits[fieldMaxTokens])
	case Completions, Anthropic:
		return limits[fieldMaxTokens]
	case Responses:
		return limits[fieldMaxOutputTokens]
	case SGLang:
		return limits[fieldSamplingTokens]
	case TGI:
		return limits[fieldParameterNewTokens]
	case Triton:
		return cmp.Or(limits[fieldMaxTokens], limits[fieldParameterTokens])
	case Gemini:
		return limits[fieldGenerationTokens]
	case Embeddings, Rerank: // no generated tokens
		return 0
	}
	return slices.Max(limits[fieldOther+1:])
}
