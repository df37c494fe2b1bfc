package prompt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzScan compares Scan with encoding/json: whether a body is valid, the values of stream and the limits, and
// duplicate keys.
func FuzzScan(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"model":"a","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true}`,
		`{"max\u005ftokens":4,"n":2.5,"\ud83d\ude00":"\ud83d\ude00","prompt":[1,2.5e-3],"tools":[{"a":null}]}`,
		`{"model":"a","model":"b"}`,
		`{"text":"a","sampling_params":{"max_new_tokens":3}}`, `{"inputs":"a","parameters":{"max_new_tokens":3,` +
			`"max_new_tokens":4}}`,
		`{"text_input":"a","parameters":{"max_tokens":3}}`, `{"contents":[],"generationConfig":{"max_output_tokens":3,` +
			`"maxOutputTokens":4}}`,
		`{"system_instruction":{},"systemInstruction":{},"contents":[]}`,
		`{"messages":["a"],"prompt":"b","max_tokens":3,"n":2}`,
		`{"input":[{}],"max_output_tokens":3,"max_tokens":4}`, `{"max_output_tokens":3,"max_tokens":4}`,
		`{"a":{"b":[true,false,null,-0.1E+2]},"x":"\"\\\/\b\f\n\r\t"}`, `{"a":`, "{\"a\":\"\x00\"}", `[]`, "\ufeff{}",
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, complete bool) {
		got, err := Scan(body, complete)
		if got.TextBytes < 0 || got.TextBytes > len(body) || got.TokenIDs > len(body) {
			t.Fatalf("%q: impossible %+v", body, got)
		}
		if !complete {
			if _, whole := Scan(body, true); whole == nil && err != nil {
				t.Fatalf("%q: good as a whole, as a beginning %v", body, err)
			}
			return
		}
		want, twice, valid := reference(body)
		switch {
		case errors.Is(err, ErrAmbiguous):
			if valid && !twice {
				t.Fatalf("%q: no key is there twice", body)
			}
		case valid != (err == nil):
			t.Fatalf("%q: got %v, valid %v", body, err, valid)
		case valid && twice:
			t.Fatalf("%q: a key is there twice", body)
		case valid && got != want:
			t.Fatalf("%q: got %+v, want %+v", body, got, want)
		}
	})
}

// reference reads stream and the limits with encoding/json, and reports whether a field is there twice.
func reference(body []byte) (want Info, twice, valid bool) {
	if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return want, false, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return want, false, false
	}
	values, stream := make(map[field]int), false
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return want, false, false
		}
		note := func(x field, value []byte) {
			_, seen := values[x]
			twice = twice || x != fieldOther && seen
			values[x] = 0
			if value[0] == '-' || value[0]-'0' <= 9 {
				values[x] = count(value)
			}
		}
		x := fieldOf([]byte(key.(string)))
		note(x, value)
		stream = stream || x == fieldStream && string(value) == "true"
		options, _ := membersOf(value)
		for _, o := range options {
			note(limitIn(x, []byte(o.name)), o.value)
		}
	}
	want, _ = Scan(body, true) // for what encoding/json does not show
	want.Stream = stream
	if want.N = 0; want.API.hasN() {
		want.N = values[fieldN]
	}
	want.MaxTokens = referenceLimit(&want, values)
	return want, twice, true
}

// referenceLimit returns the limit that results from the values of the fields. It does not know which of several
// prompts are empty: then any limit up to its result is correct.
func referenceLimit(info *Info, values map[field]int) int {
	switch info.API {
	case Chat:
		return cmp.Or(values[fieldMaxCompletionTokens], values[fieldMaxTokens])
	case Completions, Anthropic:
		return values[fieldMaxTokens]
	case Responses:
		return values[fieldMaxOutputTokens]
	case SGLang:
		return values[fieldSamplingTokens]
	case TGI:
		return values[fieldParameterNewTokens]
	case Triton:
		return cmp.Or(values[fieldMaxTokens], values[fieldParameterTokens])
	case Gemini:
		return values[fieldGenerationTokens]
	case Embeddings, Rerank:
		return 0
	case Unknown:
		limits := setOf(fieldMaxTokens, fieldMaxOutputTokens, fieldMaxCompletionTokens, fieldParameterNewTokens,
			fieldParameterTokens, fieldSamplingTokens, fieldGenerationTokens)
		most, several := 0, false
		for x, n := range values {
			if limits.has(x) {
				most = max(most, n)
			}
			several = several || setOf(fieldMessages, fieldPrompt, fieldInput, fieldDocuments, fieldText1, fieldText,
				fieldInputIDs, fieldInputs, fieldTextInput, fieldContents).has(x)
		}
		if !several || info.MaxTokens > most {
			return most
		}
	}
	return info.MaxTokens
}

// pair is a member of an object.
type pair struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of an object in their order, and false if the value is something else.
func membersOf(value []byte) (all []pair, ok bool) {
	d := json.NewDecoder(bytes.NewReader(value))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		var m pair
		if err != nil || d.Decode(&m.value) != nil {
			return nil, false
		}
		m.name = name.(string)
		all = append(all, m)
	}
	return all, true
}
