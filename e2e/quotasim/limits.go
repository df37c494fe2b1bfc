package quotasim

import (
	"net/http"
	"strconv"
	"time"
)

// limits are the buckets of a model.
type limits struct {
	tokens, requests bucket
	at               time.Time
}

// bucket holds what a minute brings, and is full at first.
type bucket struct{ rate, level float64 }

func newLimits(tokens, requests float64, now time.Time) limits {
	return limits{bucket{tokens, tokens}, bucket{requests, requests}, now}
}

// refill lets the time pass until now.
func (l *limits) refill(now time.Time) {
	minutes := max(0, now.Sub(l.at).Minutes())
	l.at = now
	for _, b := range []*bucket{&l.tokens, &l.requests} {
		b.level = min(b.rate, b.level+minutes*b.rate)
	}
}

// until returns when the bucket has so much.
func (b *bucket) until(amount float64) time.Duration {
	return time.Duration(max(0, amount-b.level) / b.rate * float64(time.Minute))
}

// slotWait is what a model without a free slot says how long to wait: it knows no better.
const slotWait = 50 * time.Millisecond

// take charges the buckets for a call, unless it is refused already or one of them has not enough.
func (l *limits) take(now time.Time, tokens float64, refused string) remains {
	l.refill(now)
	r := remains{at: now, refused: refused}
	switch tokens := min(tokens, l.tokens.rate); {
	case refused != "":
		r.wait = slotWait
	case l.tokens.level < tokens:
		r.refused, r.wait = ByTokens, l.tokens.until(tokens)
	case l.requests.level < 1:
		r.refused, r.wait = ByRequests, l.requests.until(1)
	}
	if r.refused == "" {
		l.tokens.level -= tokens
		l.requests.level--
	}
	r.tokens, r.requests = l.tokens, l.requests
	return r
}

func (l *limits) giveBack(now time.Time, tokens float64) {
	l.refill(now)
	l.tokens.level = min(l.tokens.rate, l.tokens.level+tokens)
}

// remains is what is left after a call.
type remains struct {
	tokens, requests bucket
	at               time.Time
	refused          string
	wait             time.Duration // of a refused call, until it would be taken
}

// write writes the headers.
func (r *remains) write(h http.Header, anthropic bool) {
	for _, of := range []struct {
		name   string
		bucket bucket
	}{{"tokens", r.tokens}, {"requests", r.requests}} {
		limit, remaining := amount(of.bucket.rate), amount(max(0, of.bucket.level))
		full := of.bucket.until(of.bucket.rate)
		if anthropic {
			h.Set("Anthropic-Ratelimit-"+of.name+"-Limit", limit)
			h.Set("Anthropic-Ratelimit-"+of.name+"-Remaining", remaining)
			h.Set("Anthropic-Ratelimit-"+of.name+"-Reset", r.at.Add(full).UTC().Format(time.RFC3339))
			continue
		}
		h.Set("X-Ratelimit-Limit-"+of.name, limit)
		h.Set("X-Ratelimit-Remaining-"+of.name, remaining)
		h.Set("X-Ratelimit-Reset-"+of.name, full.Round(time.Millisecond).String())
	}
	if r.refused != "" {
		h.Set("Retry-After", strconv.Itoa(int((r.wait+time.Second-1)/time.Second)))
		h.Set("Retry-After-Ms", strconv.FormatInt(r.wait.Milliseconds()+1, 10))
	}
}

func amount(x float64) string { return strconv.FormatInt(int64(x), 10) }
