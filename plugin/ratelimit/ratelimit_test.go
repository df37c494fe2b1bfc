package ratelimit

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

// now is the time of the tests, a Friday.
var now = time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)

func wall() time.Duration { return time.Duration(now.UnixNano()) }

// said returns a restriction without what is not known.
func said(tokens float64, tokensReset time.Duration, requests float64, requestsReset time.Duration,
	retry time.Duration,
) budget.Restriction {
	return budget.Restriction{
		Tokens: tokens, TokensReset: tokensReset, Requests: requests, RequestsReset: requestsReset, RetryAfter: retry,
	}
}

const unknown = -1

// reads are answers, and what is read of them.
var reads = []struct {
	name    string
	status  int
	headers string // "name: value" lines
	want    budget.Restriction
	silent  bool
}{
	{name: "nothing", status: 200, headers: "content-type: text/plain", silent: true},
	{name: "all is there", status: 200, silent: true, headers: `
			x-ratelimit-limit-requests: 60
			x-ratelimit-limit-tokens: 150000
			x-ratelimit-remaining-requests: 60
			x-ratelimit-remaining-tokens: 150000
			x-ratelimit-reset-requests: 0s
			x-ratelimit-reset-tokens: 0s`},
	{name: "OpenAI", status: 200, want: said(149984, 6*time.Minute, 59, time.Second, 0), headers: `
			x-ratelimit-limit-requests: 60
			x-ratelimit-limit-tokens: 150000
			x-ratelimit-remaining-requests: 59
			x-ratelimit-remaining-tokens: 149984
			x-ratelimit-reset-requests: 1s
			x-ratelimit-reset-tokens: 6m0s`},
	{
		name: "other ways to write a time", status: 200,
		want: said(3, 250*time.Millisecond, 1, 7500*time.Millisecond, 0), headers: `
			x-ratelimit-remaining-tokens: 3
			x-ratelimit-reset-tokens: 250ms
			x-ratelimit-remaining-requests: 1
			x-ratelimit-reset-requests: 7.5`,
	},
	{name: "seconds of the epoch are no time to wait", status: 200, want: said(3, 0, unknown, 0, 0), headers: `
			x-ratelimit-remaining-tokens: 3
			x-ratelimit-reset-tokens: 1769774400`},
	{
		name: "when it resets, since the epoch", status: 200, want: said(3, time.Minute, unknown, 0, 0), headers: `
			x-ratelimit-remaining-tokens: 3
			x-ratelimit-reset-tokens: 1769774460`,
	},
	{
		name: "more than an hour", status: 200, want: said(3, time.Hour, unknown, 0, 0), headers: `
			x-ratelimit-remaining-tokens: 3
			x-ratelimit-reset-tokens: 7200`,
	},
	{
		name: "the draft's fields, since the epoch", status: 429,
		want:    said(unknown, 0, 0, 52*time.Second, 52*time.Second),
		headers: "ratelimit-limit: 100\nratelimit-remaining: 0\nratelimit-reset: 1769774452",
	},
	{
		name: "the draft's field, since the epoch in milliseconds", status: 200,
		want:    said(unknown, 0, 0, 52500*time.Millisecond, 0),
		headers: `ratelimit: "default";r=0;t=1769774452500`,
	},
	{
		name: "a reset in the past", status: 200, want: said(unknown, 0, 0, 0, 0),
		headers: "ratelimit-remaining: 0\nratelimit-reset: 1769770000",
	},
	{name: "used up", status: 429, want: said(0, 20*time.Second, 5, 12*time.Second, 21*time.Second), headers: `
			retry-after: 21
			x-ratelimit-remaining-requests: 5
			x-ratelimit-remaining-tokens: 0
			x-ratelimit-reset-requests: 12s
			x-ratelimit-reset-tokens: 20s`},
	{
		name: "milliseconds before seconds", status: 429, want: said(unknown, 0, unknown, 0, 1500*time.Millisecond),
		headers: "retry-after-ms: 1500\nretry-after: 2",
	},
	{
		name: "a fraction", status: 429, want: said(unknown, 0, unknown, 0, 250*time.Millisecond),
		headers: "retry-after: 0.25",
	},
	{name: "at once", status: 429, want: said(unknown, 0, unknown, 0, 0), headers: "retry-after: 0"},
	{
		name: "a time of day", status: 429, want: said(unknown, 0, unknown, 0, 90*time.Second),
		headers: "retry-after: Fri, 30 Jan 2026 12:01:30 GMT",
	},
	{
		name: "by the server's own clock", status: 429, want: said(unknown, 0, unknown, 0, 30*time.Second),
		headers: "retry-after: Fri, 30 Jan 2026 12:01:30 GMT\ndate: Fri, 30 Jan 2026 12:01:00 GMT",
	},
	{
		name: "an old form of a time of day", status: 429, want: said(unknown, 0, unknown, 0, 52*time.Second),
		headers: "retry-after: Friday, 30-Jan-26 12:00:52 GMT",
	},
	{
		name: "the form of asctime", status: 429, want: said(unknown, 0, unknown, 0, 52*time.Second),
		headers: "retry-after: Fri Jan 30 12:00:52 2026",
	},
	{
		name: "the draft's field", status: 429, want: said(unknown, 0, 0, 52*time.Second, 52*time.Second),
		headers: `ratelimit: "default";r=0;t=52`,
	},
	{
		name: "the draft's field of several policies", status: 429,
		want:    said(unknown, 0, 0, 90*time.Second, 90*time.Second),
		headers: `ratelimit: "second";r=0;t=1, "hour";r=0;t=90, "day";r=7;t=9000`,
	},
	{
		name: "the draft's field of tokens", status: 200, want: said(500, 30*time.Second, unknown, 0, 0),
		headers: "ratelimit-policy: \"p\";q=1000;w=60;qu=\"tokens\"\nratelimit: \"p\";r=500;t=30",
	},
	{
		name: "an earlier draft's field", status: 429, want: said(unknown, 0, 0, 52*time.Second, 52*time.Second),
		headers: `ratelimit: limit=100, remaining=0, reset=52`,
	},
	{
		name: "earlier drafts' fields", status: 429, want: said(unknown, 0, 0, 52*time.Second, 52*time.Second),
		headers: "ratelimit-limit: 100, 100;w=60\nratelimit-remaining: 0\nratelimit-reset: 52",
	},
	{
		name: "drafts' fields of an answer", status: 200, want: said(unknown, 0, 7, 52*time.Second, 0),
		headers: "ratelimit-limit: 100\nratelimit-remaining: 7\nratelimit-reset: 52",
	},
	{
		name: "more is left by the drafts' fields", status: 429,
		want:    said(unknown, 0, 7, 52*time.Second, time.Second),
		headers: "ratelimit-remaining: 7\nratelimit-reset: 52",
	},
	{
		name: "Retry-After says more than the drafts' fields", status: 429,
		want:    said(unknown, 0, 0, 52*time.Second, 3*time.Second),
		headers: "retry-after: 3\nratelimit: \"default\";r=0;t=52",
	},
	{
		name: "a time of day that is over", status: 503, want: said(unknown, 0, unknown, 0, 0),
		headers: "retry-after: Fri, 30 Jan 2026 11:01:30 GMT",
	},
	{name: "429 without a word", status: 429, want: said(unknown, 0, unknown, 0, time.Second)},
	{
		name: "429 with nonsense", status: 429, want: said(unknown, 0, unknown, 0, time.Second),
		headers: "retry-after: soon",
	},
	{name: "a year", status: 429, want: said(unknown, 0, unknown, 0, time.Hour), headers: "retry-after: 31536000"},
	{name: "503 without a word", status: 503, silent: true},
	{name: "503", status: 503, want: said(unknown, 0, unknown, 0, 4*time.Second), headers: "retry-after: 4"},
	{name: "529", status: 529, want: said(unknown, 0, unknown, 0, 4*time.Second), headers: "retry-after: 4"},
	{
		name: "a redirect may have it, too", status: 301, silent: true,
		headers: "retry-after: 4\nretry-after-ms: 4000",
	},
	{name: "Anthropic", status: 200, want: said(3000, 30*time.Second, 49, time.Second, 0), headers: `
			anthropic-ratelimit-requests-limit: 50
			anthropic-ratelimit-requests-remaining: 49
			anthropic-ratelimit-requests-reset: 2026-01-30T12:00:01Z
			anthropic-ratelimit-tokens-limit: 4000
			anthropic-ratelimit-tokens-remaining: 3000
			anthropic-ratelimit-tokens-reset: 2026-01-30T12:00:30Z`},
	{
		name: "Anthropic: the sum of both kinds of tokens", status: 200,
		want: said(13000, 40*time.Second, unknown, 0, 0),
		headers: `
			anthropic-ratelimit-input-tokens-limit: 50000
			anthropic-ratelimit-input-tokens-remaining: 10000
			anthropic-ratelimit-input-tokens-reset: 2026-01-30T20:00:40+08:00
			anthropic-ratelimit-output-tokens-limit: 10000
			anthropic-ratelimit-output-tokens-remaining: 3000
			anthropic-ratelimit-output-tokens-reset: 2026-01-30T12:00:20.5Z
			anthropic-ratelimit-tokens-limit: 10000
			anthropic-ratelimit-tokens-remaining: 3000
			anthropic-ratelimit-tokens-reset: 2026-01-30T12:00:20Z`,
	},
	{
		name: "Anthropic: no answer is left", status: 429, want: said(0, 21*time.Second, unknown, 0, 20*time.Second),
		headers: `
			retry-after: 20
			anthropic-ratelimit-input-tokens-limit: 50000
			anthropic-ratelimit-input-tokens-remaining: 10000
			anthropic-ratelimit-input-tokens-reset: 2026-01-30T12:00:40Z
			anthropic-ratelimit-output-tokens-limit: 10000
			anthropic-ratelimit-output-tokens-remaining: 0
			anthropic-ratelimit-output-tokens-reset: 2026-01-30T12:00:20.5Z`,
	},
	{name: "Anthropic: both are full", status: 200, silent: true, headers: `
			anthropic-ratelimit-input-tokens-limit: 50000
			anthropic-ratelimit-input-tokens-remaining: 50000
			anthropic-ratelimit-output-tokens-limit: 10000
			anthropic-ratelimit-output-tokens-remaining: 10000`},
	{name: "one kind alone is not enough", status: 200, silent: true, headers: `
			anthropic-ratelimit-input-tokens-remaining: 10000`},
	{name: "nonsense", status: 200, silent: true, headers: `
			x-ratelimit-remaining-tokens: many
			x-ratelimit-remaining-requests: -1
			x-ratelimit-: 5
			x-ratelimit-remaining: 5
			anthropic-ratelimit-: 5
			anthropic-ratelimit-tokens: 5
			anthropic-ratelimit--remaining: 5`},
}

func TestRead(t *testing.T) {
	for _, test := range reads {
		got, says, _ := Read(test.status, list(test.headers), wall)
		if test.silent {
			test.want = said(unknown, 0, unknown, 0, 0)
		}
		if got != test.want || says == test.silent {
			t.Errorf("%s: got %+v, %v, want %+v", test.name, got, says, test.want)
		}
	}
}

// list makes headers of lines.
func list(text string) (headers [][2]string) {
	for _, line := range strings.Split(text, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			headers = append(headers, [2]string{name, value})
		}
	}
	return headers
}

// Times of day are read as package time reads them.
func TestDates(t *testing.T) {
	const http = "Mon, 02 Jan 2006 15:04:05 GMT"
	rand := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		at := time.Unix(rand.Int64N(7e9), rand.Int64N(1e9)/1e6*1e6).UTC()
		for _, layout := range []string{http, time.RFC850, time.ANSIC} {
			text := at.Format(layout)
			now := func() time.Duration { // within 50 years of the date
				return time.Duration(at.Unix()+rand.Int64N(49*31_557_600))*time.Second - 24*365*time.Hour
			}
			got, ok := httpDate(strings.Replace(text, "UTC", "GMT", 1), now)
			if !ok || got != time.Duration(at.Unix())*time.Second {
				t.Fatalf("%s: got %v, %v", text, got, ok)
			}
		}
		zoned := at.In(time.FixedZone("", (rand.IntN(47)-23)*1800))
		text := zoned.Format("2006-01-02T15:04:05.999Z07:00")
		got, ok := rfc3339(text)
		if off := got - time.Duration(at.UnixNano()); !ok || off < 0 || off >= time.Second {
			t.Fatalf("%s: off by %v, %v", text, off, ok)
		}
	}
	for _, text := range []string{
		"", "2026-01-30", "2026-01-30T12:00:00", "2026-13-30T12:00:00Z", "2026-01-30T24:00:00Z",
		"2026-01-30T12:00:00.Z.", "2026-01-30T12:00:00+8:00", "2026-01-30T12:00:00.5", "1969-01-30T12:00:00Z",
		"2026-01-30 12:00:00Z", "2026/01/30T12:00:00Z", "2026-01-30T12-00-00Z", "2026-01-30T1200:000Z",
		"Fri, 30 Jan 2026 12:00:00 CET", "Fri, 30 anF 2026 12:00:00 GMT", "Fri  30 Jan 2026 12:00:00 GMT",
		"Friday, 30-Jan-26 12:00:00 CET",
		"Friday, 30-Jam-26 12:00:00 GMT", "Fri Jan 30 12:00:00 GMT", "Fri Jan 3x 12:00:00 2026",
		"Fri, 30 Jan 2026 12:60:00 GMT", "Fri, 32 Jan 2026 12:00:00 GMT",
	} {
		if at, ok := rfc3339(text); ok {
			t.Errorf("%q is read as %v", text, at)
		}
		if at, ok := httpDate(text, wall); ok {
			t.Errorf("%q is read as %v", text, at)
		}
	}
}

// Whatever a server sends, what is read of it is within bounds, and is what silence is if it says nothing.
func FuzzRead(f *testing.F) {
	f.Add(429, "retry-after", "1", "x-ratelimit-remaining-tokens", "5")
	f.Add(200, "x-ratelimit-reset-tokens", "6m0s", "x-ratelimit-remaining-tokens", "5e9")
	f.Add(429, "retry-after", "Fri, 30 Jan 2026 12:01:30 GMT", "date", "Fri, 30 Jan 2026 12:01:00 GMT")
	f.Add(200, "anthropic-ratelimit-tokens-remaining", "1",
		"anthropic-ratelimit-tokens-reset", "2026-01-30T12:00:20.5Z")
	f.Fuzz(func(t *testing.T, status int, name1, value1, name2, value2 string) {
		r, says, silent := Read(status, [][2]string{{name1, value1}, {name2, value2}}, wall)
		for _, d := range []time.Duration{r.RetryAfter, r.TokensReset, r.RequestsReset} {
			if d < 0 || d > maxTime {
				t.Errorf("a time of %v", d)
			}
		}
		for _, n := range []float64{r.Tokens, r.Requests} {
			if n != -1 && !(n >= 0 && n <= maxNumber) {
				t.Errorf("%v are left", n)
			}
		}
		if !says && r != said(-1, 0, -1, 0, 0) {
			t.Errorf("says nothing, but %+v", r)
		}
		if silent && r.RetryAfter != 0 && r.RetryAfter != silentRetry {
			t.Errorf("does not say when to try again, but %v", r.RetryAfter)
		}
		if refuses := status == 429 || status == 503 || status == 529; !refuses && r.RetryAfter != 0 {
			t.Errorf("a request with status %d is to be sent again after %v", status, r.RetryAfter)
		}
	})
}

// A time to wait is never read as a shorter one.
func TestWaitsAreNotShortened(t *testing.T) {
	long := func(ms uint32) bool {
		want := min(time.Duration(ms)*time.Millisecond, maxTime)
		for _, text := range []string{want.String(), strconv.FormatFloat(want.Seconds(), 'f', 3, 64)} {
			if got := (&reader{wall: wall}).resetTime(text); got < want || got > want+time.Microsecond {
				t.Errorf("%s is read as %v", text, got)
				return false
			}
		}
		return true
	}
	if err := quick.Check(long, nil); err != nil {
		t.Error(err)
	}
}

// The body of a refusal says when to try again where a RetryInfo is in it, as soon as all of that is there.
func TestRetryDelay(t *testing.T) {
	const body = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":` +
		`"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"52s"}]}}`
	for n := range len(body) {
		_, ok := RetryDelay([]byte(body[:n]))
		if want := strings.Contains(body[:n], `"52s"`); ok != want {
			t.Fatalf("%s: %v", body[:n], ok)
		}
	}
	for text, want := range map[string]time.Duration{
		body: 52 * time.Second, `{"retryDelay" : "0.25s"}`: 250 * time.Millisecond, `{"retryDelay":"1e9s"}`: 0,
		`{"retryDelay":"99999999s"}`: maxTime, `{"retryDelay":52}`: 0, `{"a":"retryDelay"}`: 0, `{}`: 0, ``: 0,
		`{"retryDelay":"-5s"}`: 0, `{"message":"retry in 52s"}`: 0,
	} {
		if got, ok := RetryDelay([]byte(text)); got != want || ok != (want > 0) {
			t.Errorf("%s: %v, %v, want %v", text, got, ok, want)
		}
	}
}

// Whoever refuses without saying when to try again may say it in the body.
func TestSilent(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "retry-after: soon": true, "retry-after: 3": false, "ratelimit: \"a\";r=0;t=3": false,
		"ratelimit-remaining: 4": true, "retry-after-ms: 3": false,
	} {
		if _, _, silent := Read(429, list(text), wall); silent != want {
			t.Errorf("%s: %v", text, silent)
		}
	}
	if _, _, silent := Read(200, nil, wall); silent {
		t.Error("an answer is no refusal")
	}
}
