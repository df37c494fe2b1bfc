// Package ratelimit reads what a server of an API says of its rate limits in the headers of an answer: OpenAI's and
// Anthropic's forms, which many others have taken over, and Retry-After. It does no I/O, reads no clock, and accepts
// whatever a server may send.
package ratelimit

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

const (
	// maxTime bounds every time that a server tells. One that says more is asked again after this.
	maxTime = time.Hour
	// silentRetry is how long a server that answers 429 without Retry-After gets no request.
	silentRetry = time.Second
	// maxNumber bounds every number, so that sums with it are exact.
	maxNumber = 1e15
)

// kind is one of the limits that a server has.
type kind struct {
	remaining, limit float64 // -1 if unknown
	reset            time.Duration
}

// The kinds of limits.
const (
	requests = iota
	tokens
	inputTokens
	outputTokens
	kinds
)

var kindNames = [kinds]string{
	requests: "requests", tokens: "tokens", inputTokens: "input-tokens", outputTokens: "output-tokens",
}

// Read returns what the headers of an answer with the status say, names in lower case, and whether they say anything.
// What a server has in full is nothing: it restricts nobody. wall returns the time since the Unix epoch; it is called
// for times of day in an answer that has no date of its own.
func Read(status int, headers [][2]string, wall func() time.Duration) (r budget.Restriction, says bool) {
	in := reader{wall: wall}
	for i := range in.limits {
		in.limits[i].remaining, in.limits[i].limit = -1, -1
	}
	for _, h := range headers {
		if t, ok := httpDate(h[1]); ok && h[0] == "date" {
			in.wall = func() time.Duration { return t }
		}
	}
	exact := ""
	for _, h := range headers {
		switch name, value := h[0], strings.TrimSpace(h[1]); name {
		case "retry-after-ms":
			exact = value
		case "retry-after":
			in.retryAfter = value
		default:
			in.limit(name, value)
		}
	}
	if status == 429 || status == 503 || status == 529 {
		if ms, ok := number(exact); ok {
			r.RetryAfter, says = ofSeconds(ms/1e3), true
		} else {
			r.RetryAfter, says = in.wait(status)
		}
	}
	r.Requests, r.RequestsReset = in.limits[requests].left()
	r.Tokens, r.TokensReset = in.tokensLeft()
	return r, says || r.Requests >= 0 || r.Tokens >= 0
}

// reader is what was read of headers so far.
type reader struct {
	limits     [kinds]kind
	retryAfter string
	wall       func() time.Duration
}

// wait reads Retry-After: seconds, or a time of day.
func (in *reader) wait(status int) (time.Duration, bool) {
	if s, ok := number(in.retryAfter); ok {
		return ofSeconds(s), true
	}
	if at, ok := httpDate(in.retryAfter); ok {
		return clamp(at - in.wall()), true
	}
	if status == 429 {
		return silentRetry, true
	}
	return 0, false
}

// limit takes over a header that is about one of the limits: x-ratelimit-remaining-tokens, as OpenAI has it, or
// anthropic-ratelimit-tokens-remaining.
func (in *reader) limit(name, value string) {
	field, of := "", ""
	if rest, ok := strings.CutPrefix(name, "x-ratelimit-"); ok {
		field, of, _ = strings.Cut(rest, "-")
	} else if rest, ok := strings.CutPrefix(name, "anthropic-ratelimit-"); ok {
		dash := max(0, strings.LastIndexByte(rest, '-'))
		of, field = rest[:dash], rest[min(dash+1, len(rest)):]
	}
	i := slices.Index(kindNames[:], of)
	if i < 0 {
		return
	}
	k := &in.limits[i]
	n, ok := number(value)
	switch {
	case field == "reset":
		k.reset = in.resetTime(value)
	case !ok:
	case field == "remaining":
		k.remaining = n
	case field == "limit":
		k.limit = n
	}
}

// left returns what is left of a limit and after which time all of it is there again; -1 if that is not known, or
// nothing is missing.
func (k *kind) left() (float64, time.Duration) {
	if k.remaining < 0 || k.limit >= 0 && k.remaining >= k.limit {
		return -1, 0
	}
	return k.remaining, k.reset
}

// tokensLeft returns what is left of the limit of all tokens. Servers that limit those of prompts and of answers apart
// have both added, unless one of them is used up: what their limit of all tokens reports is the scarcer of the two,
// which says nothing about the sum.
func (in *reader) tokensLeft() (float64, time.Duration) {
	k, out := &in.limits[inputTokens], &in.limits[outputTokens]
	switch {
	case k.remaining < 0 || out.remaining < 0:
		k = &in.limits[tokens]
	case k.remaining == 0:
	case out.remaining == 0:
		k = out
	default:
		k.remaining += out.remaining
		k.reset = max(k.reset, out.reset)
		if k.limit += out.limit; out.limit < 0 {
			k.limit = -1
		}
	}
	return k.left()
}

// resetTime reads a time until something, as a number of seconds or a text such as "6m0s", or a time of day as RFC 3339
// has it. It returns 0 for what is none of these.
func (in *reader) resetTime(value string) time.Duration {
	if s, ok := number(value); ok {
		if s > maxTime.Seconds() {
			return 0 // perhaps a time of day in seconds
		}
		return ofSeconds(s)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return clamp(d)
	}
	if at, ok := rfc3339(value); ok {
		return clamp(at - in.wall())
	}
	return 0
}

// number reads a number that is not negative, in digits with an optional fraction.
func number(s string) (float64, bool) {
	if s == "" || len(s) > 32 || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return min(f, maxNumber), err == nil
}

func ofSeconds(s float64) time.Duration {
	return clamp(time.Duration(math.Ceil(min(s, maxTime.Seconds()) * 1e9)))
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), maxTime) }
