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
	{"exceed_context_size_error", ContextTooLong}, // llama.cpp
	{"request_too_large", ContextTooLong},         // Anthropic
}

// Where engines put the code, the type and the message of an error.
var (
	codePaths    = [][]string{{"error", "code"}, {"code"}}
	kindPaths    = [][]string{{"error", "type"}, {"type"}, {"error_type"}}
	messagePaths = [][]string{{"error", "message"}, {"message"}, {"error"}, {"detail"}}
)

// What messages say of a model or a length begins with one of the subjects, since what a client has sent may be quoted
// behind it.
var (
	modelSubjects = [...]string{"the model", "model", "the adapter", "adapter", "lora", "the following requested lora"}
	absences      = [...]string{"not exist", "not found", "not loaded", "no such"}
	longSubjects  = [...]string{
		"this model's maximum", "the decoder prompt (", "the engine prompt (", "the prompt (", "prompt is too long",
		"the input (", "the input token count", "input is too long", "input is longer", "input is larger",
		"requested token count", "the request exceeds", "the sum of prompt length", "prompt length",
		"'max_tokens' or 'max_completion_tokens'", "input validation error: `inputs`",
	}
	tooLongWords = [...]string{
		"context length", "context size", "context window", "maximum model length", "max_model_len", "max_seq_len",
		"max_num_tokens", "prompt is too long", "input is too long", "number of tokens allowed", "`inputs` tokens",
		"`inputs` must have less than",
	}
)

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
	for i := range refusalCodes {
		if r := &refusalCodes[i]; r.code == code || r.code == kind {
			said, _ := MemberText(body, messagePaths...)
			return r.says, quotedIn(said)
		}
	}
	said, _ := MemberText(body, messagePaths...)
	message := strings.ToLower(said)
	switch {
	case beginsWithOne(message, longSubjects[:]) && containsOne(message, tooLongWords[:]):
		return ContextTooLong, ""
	case status == 404 || status == 400 || status == 422:
		if namesModel(message) && (containsOne(message, absences[:]) || kind == "not_found_error") {
			return UnknownModel, quotedIn(said)
		}
	}
	return OtherRefusal, ""
}

// quotedIn returns the first word in quotation marks.
func quotedIn(message string) string {
	at := strings.IndexAny(message, "`'\"")
	if at < 0 {
		return ""
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
