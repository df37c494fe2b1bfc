package prompt

import (
	"bytes"
	"strings"
)

// Refusal is why an engine has refused a request, as far as its answer says that.
type Refusal uint8

// The kinds of refusals.
const (
	OtherRefusal   Refusal = iota // anything else
	UnknownModel                  // there is no such model or adapter at this endpoint
	ContextTooLong                // the prompt, with the answer that is wanted, is longer than the model's context
	AnswerTooLong                 // the answer that is wanted is, whatever the prompt
)

// RefusalBytes is how many bytes of an answer ReadRefusal needs at most.
const RefusalBytes = 2 << 10

// refusalCodes are codes and types of errors, in lower case.
var refusalCodes = [...]struct {
	code string
	says Refusal
}{
	{"model_not_found", UnknownModel}, // OpenAI and most who have its API
	{"model_not_exist", UnknownModel},
	{"invalid_model", UnknownModel},      // Mistral
	{"deploymentnotfound", UnknownModel}, // Azure
	{"context_length_exceeded", ContextTooLong},
	{"context_window_exceeded", ContextTooLong},
	{"model_context_window_exceeded", ContextTooLong},
	{"contextwindowexceedederror", ContextTooLong}, // LiteLLM
	{"exceed_context_size_error", ContextTooLong},  // llama.cpp
	{"request_too_large", ContextTooLong},          // Anthropic
}

// Where engines put the code, the type and the message of an error.
var (
	codePaths    = [][]string{{"error", "code"}, {"code"}}
	kindPaths    = [][]string{{"error", "type"}, {"type"}, {"error_type"}}
	messagePaths = [][]string{{"error", "message"}, {"message"}, {"error"}, {"detail"}}
)

// What messages say of a model begins with one of the subjects, since what a client has sent may be quoted behind it.
var (
	modelSubjects = [...]string{
		"the model", "model", "the requested model", "the adapter", "adapter", "lora", "the following requested lora",
	}
	absences = [...]string{"not exist", "not found", "not loaded", "no such"}
	// absentModels say both.
	absentModels = [...]string{
		"invalid model name", "invalid model id", "the provided model identifier is invalid", "unknown model",
		"request for unknown model",                   // Triton
		"could not find model",                        // Ray
		"got lora adapter that has never been loaded", // SGLang
	}
	// otherLimits are about how much a client may send in a time.
	otherLimits = [...]string{"per minute", "per hour", "per day", "rate limit", "quota", "throttl"}
)

// noAccess is in refusals that may be due to the client's key: others may have the model.
const noAccess = "have access"

// ReadRefusal returns why an engine has refused a request with the status, by the beginning of its answer: by codes and
// types of errors where there are any, else by the words of the message. Engines agree neither on the status nor on
// where these are. model is the one that the message quotes, "" if it quotes none.
func ReadRefusal(status int, body []byte) (why Refusal, model string) {
	switch status {
	case 400, 404, 413, 422:
	default:
		return OtherRefusal, ""
	}
	body = bytes.TrimLeft(body, " \t\r\n[") // Gemini's may be in a list
	if len(body) == 0 || body[0] != '{' {
		return OtherRefusal, ""
	}
	kind := lowerMember(body, kindPaths)
	code := lowerMember(body, codePaths)
	said, _ := MemberText(body, messagePaths...)
	said, kind = unwrapped(said, kind)
	message := strings.ToLower(said)
	why = lengthRefusal(message)
	for i := range refusalCodes {
		switch r := &refusalCodes[i]; {
		case r.code != code && r.code != kind:
		case r.says == ContextTooLong && why == AnswerTooLong:
			return why, ""
		case r.says == UnknownModel && strings.Contains(message, noAccess):
			return OtherRefusal, ""
		default:
			return r.says, quotedIn(said)
		}
	}
	switch {
	case containsOne(message, otherLimits[:]):
		return OtherRefusal, ""
	case why != OtherRefusal:
		return why, ""
	}
	if status != 413 && !strings.Contains(message, noAccess) && (beginsWithOne(message, absentModels[:]) ||
		namesModel(message) && (containsOne(message, absences[:]) || kind == "not_found_error")) {
		return UnknownModel, quotedIn(said)
	}
	return OtherRefusal, ""
}

// quotedIn returns the first word in quotation marks, or what follows model=.
func quotedIn(message string) string {
	at := strings.IndexAny(message, "`'\"=")
	if at < 0 {
		return ""
	}
	if message[at] == '=' {
		word, _, _ := strings.Cut(message[at+1:], " ")
		return strings.TrimSuffix(word, ".")
	}
	word, _, _ := strings.Cut(message[at+1:], message[at:at+1])
	return word
}

// lowerMember returns the text of the first of the members that the body has, in lower case.
func lowerMember(body []byte, paths [][]string) string {
	text, _ := MemberText(body, paths...)
	return strings.ToLower(text)
}

// namesModel reports whether a message begins with what it says something of, and that is a model.
func namesModel(message string) bool {
	for _, subject := range modelSubjects {
		if rest, ok := strings.CutPrefix(message, subject); ok && (rest == "" || !isLetter(rest[0])) {
			return true
		}
	}
	return strings.HasPrefix(message, "models/") // Gemini
}

func beginsWithOne(s string, words []string) bool {
	for _, w := range words {
		if strings.HasPrefix(s, w) {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c == '_' }

//go:noinline
func containsOne(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
