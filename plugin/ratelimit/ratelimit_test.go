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
		got, says := Read(test.status, list(test.headers), wall)
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
	rand := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		at := time.Unix(rand.Int64N(7e9), rand.Int64N(1e9)/1e6*1e6).UTC()
		got, ok := httpDate(at.Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		if !ok || got != time.Duration(at.Unix())*time.Second {
			t.Fatalf("%v: got %v, %v", at, got, ok)
		}
		zoned := at.In(time.FixedZone("", (rand.IntN(47)-23)*1800))
		text := zoned.Format("2006-01-02T15:04:05.999Z07:00")
		got, ok = rfc3339(text)
		if off := got - time.Duration(at.UnixNano()); !ok || off < 0 || off >= time.Second {
			t.Fatalf("%s: off by %v, %v", text, off, ok)
		}
	}
	for _, text := range []string{
		"", "2026-01-30", "2026-01-30T12:00:00", "2026-13-30T12:00:00Z", "2026-01-30T24:00:00Z",
		"2026-01-30T12:00:00.Z.", "2026-01-30T12:00:00+8:00", "2026-01-30T12:00:00.5", "1969-01-30T12:00:00Z",
		"2026-01-30 12:00:00Z", "2026/01/30T12:00:00Z", "2026-01-30T12-00-00Z", "2026-01-30T1200:000Z",
		"Fri, 30 Jan 2026 12:00:00 CET", "Fri, 30 anF 2026 12:00:00 GMT", "Fri  30 Jan 2026 12:00:00 GMT",
		"Friday, 30-Jan-26 12:00:00 GMT", "Fri, 30 Jan 2026 12:60:00 GMT", "Fri, 32 Jan 2026 12:00:00 GMT",
	} {
		if at, ok := rfc3339(text); ok {
			t.Errorf("%q is read as %v", text, at)
		}
		if at, ok := httpDate(text); ok {
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
		r, says := Read(status, [][2]string{{name1, value1}, {name2, value2}}, wall)
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
