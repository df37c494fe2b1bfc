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

// Mistakes of clients are no facts about lengths, nor is what a client has sent, where that is quoted.
func TestOtherMistakesAreNotLong(t *testing.T) {
	for _, message := range messagesIn(t, "mistakes") {
		body := `{"error":{"message":` + strconv.Quote(message) + `,"type":"BadRequestError","code":400}}`
		if got, _ := ReadRefusal(400, []byte(body)); got != OtherRefusal {
			t.Errorf("%v: %s", got, message)
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
