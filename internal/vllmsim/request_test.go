package vllmsim

import (
	"testing"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// FuzzParseRequest checks that no body breaks the parser and that what it accepts is usable.
func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`,
		`{"prompt":[1,2,3],"max_tokens":3}`, `{"prompt":[[1]]}`, `{"prompt":[[[["x"]]]]}`,
		`{"messages":[1,{"content":[{"text":"x"},7]}]}`, `{"max_tokens":null,"prompt":""}`, `[`, ``, `"x"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, chat := range []bool{true, false} {
			for _, whole := range []bool{true, false} {
				r, err := parseRequest(body, chat, whole)
				if err != nil {
					continue
				}
				if r.promptLen < 1 || r.maxTokens < 0 || whole && r.promptLen != enginesim.TokensOf(len(r.prompt)) {
					t.Errorf("parsed %+v from %q", r, body)
				}
			}
		}
	})
}

func TestAnswerLength(t *testing.T) {
	if n, why := answerLength(7, 100, 20, 1); n != 7 || why != enginesim.FinishLength {
		t.Errorf("with a limit of 7: %d, %s", n, why)
	}
	if n, why := answerLength(0, 1, 1000, 1); n != 1 || why != enginesim.FinishLength {
		t.Errorf("with room for 1: %d, %s", n, why)
	}
	for seed := range uint64(1000) {
		if n, _ := answerLength(0, 100, 1, seed); n != 1 {
			t.Fatalf("seed %d: an answer of mean length 1 has %d tokens", seed, n)
		}
	}
}
