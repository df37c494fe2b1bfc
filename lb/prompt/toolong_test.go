package prompt

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// messagesIn returns the messages in a file of testdata/refusals, one a line.
func messagesIn(tb testing.TB, name string) (messages []string) {
	tb.Helper()
	text, err := os.ReadFile("testdata/refusals/" + name + ".txt")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			messages = append(messages, strings.TrimSuffix(line, "\n"))
		}
	}
	return messages
}

// Each is recognised as it is, and behind what gateways put in front of it.
func TestLongInAllWords(t *testing.T) {
	for _, message := range messagesIn(t, "long") {
		for _, as := range []string{
			message,
			"400 " + message,
			"litellm.BadRequestError: OpenAIException - " + message,
			"Error code: 400 - {'error': {'message': \"" + message + "\", 'code': 400}}",
			"litellm.BadRequestError: VllmException - {\"message\":" + strconv.Quote(message) + `,"code":400}`,
			`{"error":{"code":400,"message":` + strconv.Quote(message) + `}}`,
			"litellm.BadRequestError: VllmException - {\"message\":" + strconv.Quote(message) +
				"}. Received Model Group=m\nAvailable Model Group Fallbacks=None",
		} {
			for _, body := range []string{
				`{"error":{"message":` + strconv.Quote(as) + `,"type":"BadRequestError","code":400}}`,
				`{"detail":` + strconv.Quote(as) + `}`, `{"error":` + strconv.Quote(as) + `}`,
			} {
				if got, name := ReadRefusal(400, []byte(body)); got != ContextTooLong || name != "" {
					t.Errorf("%v of %q: %s", got, name, body)
				}
			}
		}
	}
}

// The answer alone is more than the model can read and write.
func TestLongAnswerInAllWords(t *testing.T) {
	for _, message := range messagesIn(t, "answer") {
		for _, code := range []string{"400", `"context_length_exceeded"`} {
			body := `{"error":{"message":` + strconv.Quote(message) + `,"code":` + code + `}}`
			if got, _ := ReadRefusal(400, []byte(body)); got != AnswerTooLong {
				t.Errorf("%v: %s", got, body)
			}
		}
	}
}

// wrappings put a message into what gateways and frameworks make of it.
func wrappings(message string) []string {
	quoted := strconv.Quote(message)
	return []string{
		message,
		"400 " + message,
		"litellm.BadRequestError: OpenAIException - " + message,
		"Hosted_vllmException - Error code: 422 - " + message,
		"Input validation error: " + message,
		"BadRequestError: Invalid request: " + message,
		"Error code: 400 - {'error': {'message': " + quoted + ", 'code': 400}}",
		"Error code: 400 - {'object': 'error', 'message': " + quoted + "}",
		"Error code: 422 - {'detail': [{'type': 'int_type', 'input': {'message': " + quoted + "}}]}",
		"Error code: 400 - {'message': 'bad', 'input': " + quoted + "}",
		"Error code: 400 - {'detail': [], 'body': {'error': {'message': " + quoted + "}}}",
		"litellm.BadRequestError: VllmException - {\"message\":" + quoted + `,"code":400}`,
		"OpenAIException - {\"detail\":[{\"input\":{\"message\":" + quoted + `}}]}`,
		`{"error":{"code":400,"message":` + quoted + `}}`,
	}
}

// Mistakes of clients are no facts about lengths or models, nor is what a client has sent, where that is quoted, as
// they are and behind what gateways put in front of them.
func TestOtherMistakesAreNotLong(t *testing.T) {
	for _, message := range append(messagesIn(t, "mistakes"),
		"{'message': 'The model `popular` does not exist.'} is not of type 'string'",
		"[{'input': {'message': 'The model `popular` does not exist.'}}]") {
		for _, as := range wrappings(message) {
			body := `{"error":{"message":` + strconv.Quote(as) + `,"type":"BadRequestError","code":400}}`
			if got, name := ReadRefusal(400, []byte(body)); got != OtherRefusal {
				t.Errorf("%v of %q: %s", got, name, as)
			}
		}
	}
	for _, sent := range []string{"The model `popular` does not exist.", "prompt is too long: exceeds context"} {
		object := `{'message': '` + sent + `'}`
		for _, as := range []string{
			"litellm.BadRequestError: Hosted_vllmException - Error code: 422 - {'detail': [{'type': 'int_type', " +
				"'loc': ('body', 'n'), 'input': " + object + "}]}",
			"Error code: 422 - {'error': [" + object + "]}",
			"Error code: 422 - {'error': {'input': " + object + "}}",
			"Error code: 422 - " + object + " is not of type 'string'",
			"Error code: 400 - {'message': 'no', 'input': '" + sent + "'}",
			"Error code: 400 - {'input': '\\', \\'message\\': \\'" + sent + "'}",
			"Input validation error: " + object,
			`Input validation error: {"message": "` + sent + `"}`,
			`400 Invalid request: {"message": "` + sent + `"}`,
			`BadRequestError: {"message": "` + sent + `"} is not valid under any of the given schemas`,
			"Error code: 400 - {'message': '" + sent,
		} {
			body := `{"error":{"message":` + strconv.Quote(as) + `,"type":"BadRequestError","code":400}}`
			if got, name := ReadRefusal(400, []byte(body)); got != OtherRefusal {
				t.Errorf("%v of %q: %s", got, name, as)
			}
		}
	}
	const limited = `{"error":{"message":"Request too large for model m on tokens per minute (TPM): Limit 6000",` +
		`"type":"tokens","code":"rate_limit_exceeded"}}`
	if got, _ := ReadRefusal(413, []byte(limited)); got != OtherRefusal {
		t.Errorf("%v: %s", got, limited)
	}
}

// Whatever stands in front of a message or in quotation marks, only its own words count.
func FuzzLength(f *testing.F) {
	for _, message := range messagesIn(f, "long") {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, client string) {
		if lengthRefusal("unknown role: "+client) != OtherRefusal {
			t.Errorf("%q is read behind another mistake", client)
		}
		if !strings.ContainsAny(client, "\"'`") && strings.Contains(client, " ") &&
			lengthRefusal(`"`+client+`" is no role`) != OtherRefusal {
			t.Errorf("%q is read although it is quoted", client)
		}
		lengthRefusal(client)
	})
}

func BenchmarkReadRefusal(b *testing.B) {
	body := []byte(`{"error":{"message":` + strconv.Quote(messagesIn(b, "long")[4]) + `,"type":"BadRequestError","code":400}}`)
	for b.Loop() {
		ReadRefusal(400, body)
	}
}
