package vllmsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// completionRequest is what the simulation uses of a chat or completion request.
type completionRequest struct {
	chat      bool
	model     string // as a JSON string, quotes included
	prompt    []byte
	lead      int // bytes of the prompt before the first message: what follow-ups send again
	promptLen int // tokens
	stream    bool
	usage     bool // stream_options.include_usage
	maxTokens int  // 0: no limit given
	salt      uint64
	toolInput string   // of the tool that a message calls, JSON; "" = its answer is text
	dialect   *dialect // of the answer; nil = that of completions
	previous  string   // the answer that the request follows up, held by the server

	linger     time.Duration // the last part of a stream comes so much later
	resetAfter int           // tokens of the answer after which the connection is to be reset; 0 = never
}

// maxLinger bounds what a request may order.
const maxLinger = time.Minute

// parseRequest reads a request body. With promptToo false it only estimates the prompt's
// length, and accepts a body without a prompt.
func parseRequest(body string, chat, promptToo bool) (completionRequest, error) {
	r := completionRequest{chat: chat}
	if promptToo && !gjson.Valid(body) {
		return r, errors.New("the body is not valid JSON")
	}
	var prompt, salt gjson.Result
	var talk chatParts
	var err error
	gjson.Parse(body).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "model":
			r.model = v.Raw
		case "stream":
			r.stream = v.Bool()
		case "stream_options":
			r.usage = v.Get("include_usage").Bool()
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			if r.maxTokens = int(v.Int()); v.Type != gjson.Null && r.maxTokens < 1 {
				err = fmt.Errorf("%s must be at least 1, got %s", key.Str, v.Raw)
			}
		case "n":
			if v.Int() > 1 {
				err = errors.New("n > 1 is not simulated")
			}
		case "cache_salt":
			salt = v
		case "previous_response_id":
			r.previous = v.Str
		case "prompt":
			prompt = v
		case "sim_linger_ms":
			r.linger = time.Duration(min(max(0, v.Int()), maxLinger.Milliseconds())) * time.Millisecond
		case "sim_reset_after":
			r.resetAfter = int(v.Int())
		default:
			talk.take(key.Str, v)
		}
		return true
	})
	if err != nil || !promptToo {
		r.promptLen = enginesim.TokensOf(len(body))
		return r, err
	}
	// Requests for different models (LoRA adapters) or with different salts share no cache.
	r.salt = xxhash.Sum64String(r.model + "\x00" + salt.Str)
	if chat {
		r.prompt, r.lead, err = talk.render()
	} else {
		r.prompt, err = renderPrompt(prompt)
	}
	r.promptLen = enginesim.TokensOf(len(r.prompt))
	return r, err
}

// renderPrompt takes a completion prompt: a string, token ids, or an array of one of them.
func renderPrompt(p gjson.Result) ([]byte, error) {
	if one := p.Get("0"); p.IsArray() && p.Get("#").Int() == 1 && one.Type != gjson.Number {
		p = one
	}
	if p.Type == gjson.String {
		return []byte(p.Str), nil
	}
	if !p.IsArray() {
		return nil, errors.New("prompt must be a string, token ids or an array of one of them")
	}
	items := p.Array()
	b := make([]byte, 0, len(items)*enginesim.BytesPerToken)
	for _, t := range items {
		if t.Type != gjson.Number || t.Num < 0 || t.Num > math.MaxUint32 {
			return nil, errors.New("prompt must hold one prompt: a string or token ids")
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Num))
	}
	return b, nil
}

// answerLength decides how many tokens the answer has and why it ends, given the room the
// context leaves. Without a limit the length is drawn from an exponential distribution.
func answerLength(limit, room, mean int, textSeed uint64) (int, enginesim.Finish) {
	if limit > 0 {
		return limit, enginesim.FinishLength
	}
	u := float64(enginesim.Mix(textSeed^0x1e4917)>>11) / (1 << 53)
	n := 1 + int(-math.Log1p(-u)*float64(mean-1)+0.5)
	if n > room {
		return room, enginesim.FinishLength
	}
	return n, enginesim.FinishStop
}
