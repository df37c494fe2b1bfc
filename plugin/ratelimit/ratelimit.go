// Package ratelimit reads what a server of an API says of its rate limits in an answer: in headers in OpenAI's and
// Anthropic's forms, which many others have taken over, and in those of the IETF's drafts, Retry-After, and Google's
// retryDelay in the body of a refusal. It does no I/O, reads no clock, and accepts whatever a server may send.
package ratelimit

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb/answer"
	"github.com/warmgate/warmgate/lb/budget"
)

const (
	// maxTime bounds every time that a server tells. One that says more is asked again after this.
	maxTime = time.Hour
	// silentRetry is how long a server that answers 429 without Retry-After gets no request.
	silentRetry = time.Second
	// epoch is from which number of seconds on a reset is no time to wait, but one since the Unix epoch.
	epoch = 1e9
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

// Read returns what the headers of an answer with the status say, names in lower case, and whether they say anything;
// silent: the server refuses the request, and does not say there when to try again. What a server has in full is
// nothing: it restricts nobody. wall returns the time since the Unix epoch; it is called for times of day in an answer
// that has no date of its own, and for years of two digits.
func Read(status int, headers [][2]string, wall func() time.Duration) (r budget.Restriction, says, silent bool) {
	in := reader{wall: wall, general: kind{remaining: -1, limit: -1}, unit: requests}
	for i := range in.limits {
		in.limits[i].remaining, in.limits[i].limit = -1, -1
	}
	for _, h := range headers {
		if h[0] != "date" {
			continue
		}
		if t, ok := httpDate(h[1], wall); ok {
			in.wall = func() time.Duration { return t }
		}
	}
	for _, h := range headers {
		in.header(h[0], strings.TrimSpace(h[1]))
	}
	if answer.RefusesForNow(status) {
		r.RetryAfter, says = in.wait()
		if silent = !says; silent && status == 429 {
			r.RetryAfter, says = silentRetry, true
		}
	}
	if k := &in.limits[in.unit]; k.remaining < 0 {
		*k = in.general
	}
	r.Requests, r.RequestsReset = in.limits[requests].left()
	r.Tokens, r.TokensReset = in.tokensLeft()
	return r, says || r.Requests >= 0 || r.Tokens >= 0, silent
}

// RetryDelay returns when to try again by the beginning of the body of a refusal, as Google's APIs have it: a
// google.rpc.RetryInfo, whose retryDelay is a number of seconds such as "52s".
func RetryDelay(body []byte) (time.Duration, bool) {
	_, rest, _ := strings.Cut(string(body), `"retryDelay"`)
	rest, isMember := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), ":")
	rest, isText := strings.CutPrefix(strings.TrimLeft(rest, " \t\r\n"), `"`)
	value, _, whole := strings.Cut(rest, `s"`)
	seconds, ok := number(value)
	return ofSeconds(seconds), ok && isMember && isText && whole
}

// reader is what was read of headers so far.
type reader struct {
	limits     [kinds]kind
	general    kind // of the fields that do not say what they are a limit of
	unit       int  // what that is of
	retryAfter string
	exact      string // the same in milliseconds
	wall       func() time.Duration
}

// header takes over a header.
func (in *reader) header(name, value string) {
	field, general := strings.CutPrefix(name, "ratelimit-")
	switch {
	case name == "retry-after-ms":
		in.exact = value
	case name == "retry-after":
		in.retryAfter = value
	case name == "ratelimit":
		in.policies(value)
	case field == "policy" && strings.Contains(value, "token"): // else it is of requests
		in.unit = tokens
	case general:
		value, _, _ = strings.Cut(value, ",") // policies may follow
		in.set(&in.general, field, value)
	default:
		in.limit(name, value)
	}
}

// set takes over a number, by the name of its field in one of the IETF's drafts.
func (in *reader) set(k *kind, field, value string) {
	n, ok := number(value)
	switch {
	case !ok:
	case field == "limit":
		k.limit = n
	case field == "remaining" || field == "r":
		k.remaining = n
	case field == "reset" || field == "t":
		k.reset = in.untilReset(n)
	}
}

// policies reads a RateLimit field: a list of what is left of each policy, `"default";r=0;t=52`, or in earlier drafts
// of one, `limit=100, remaining=0, reset=52`. The tightest counts, and of those that are used up the one that lasts.
func (in *reader) policies(value string) {
	g := &in.general
	for value != "" {
		var item string
		item, value, _ = strings.Cut(value, ",")
		k, named := kind{remaining: -1, limit: -1}, false
		for item != "" {
			var field string
			field, item, _ = strings.Cut(item, ";")
			key, text, isMember := strings.Cut(strings.TrimSpace(field), "=")
			if named = named || !isMember; named {
				in.set(&k, key, text)
			} else {
				in.set(g, key, text)
			}
		}
		if named && (g.remaining < 0 || k.remaining < g.remaining || k.remaining == g.remaining && k.reset > g.reset) {
			*g = k
		}
	}
}

// wait returns when to try again: by Retry-After, in milliseconds, seconds, or as a time of day; else by a limit that
// is used up.
func (in *reader) wait() (time.Duration, bool) {
	if ms, ok := number(in.exact); ok {
		return ofSeconds(ms / 1e3), true
	}
	if s, ok := number(in.retryAfter); ok {
		return ofSeconds(s), true
	}
	if at, ok := httpDate(in.retryAfter, in.wall); ok {
		return clamp(at - in.wall()), true
	}
	if g := &in.general; g.remaining <= 0 && g.reset > 0 {
		return g.reset, true
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
		return in.untilReset(s)
	}
	if d, err := time.ParseDuration(value); err == nil {
		return clamp(d)
	}
	if at, ok := rfc3339(value); ok {
		return clamp(at - in.wall())
	}
	return 0
}

// untilReset returns the time until a reset by its number: of seconds to wait, or of seconds or milliseconds since the
// Unix epoch.
func (in *reader) untilReset(s float64) time.Duration {
	if s >= 1e3*epoch {
		s /= 1e3
	}
	if s >= epoch {
		s -= in.wall().Seconds()
	}
	return ofSeconds(s)
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
