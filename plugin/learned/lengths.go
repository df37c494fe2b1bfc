package learned

import (
	"math"
	"math/bits"
)

const (
	// limitClasses is how many sizes of limits are distinguished: 1 to 3 tokens, 4 to 15, and so on to 65535; the last
	// one is higher limits and none.
	limitClasses = 9
	// MaxTimesTypical is how many times what is typical the answers to one request, an answer under a limit of which
	// nothing is known, or a body that cannot be read, count for at most.
	MaxTimesTypical = 2
)

// lengths estimates the tokens of an answer from the client's limit on it, for each class of limits by itself: a
// regressogram (Tukey, "Curves as parameters, and touch estimation", 1961).
//
// An answer that its limit has cut short does not show how long it would have become, so answers under one limit say
// little of those under a higher one: survival analysis calls them censored. But the length without a limit is not
// needed. The limit is known before the answer, and what an answer takes under its limit is always seen. So the
// estimate is unbiased whatever limits there are, where the Kaplan-Meier estimator needs clients that choose limits
// without regard to the answers they expect, and believes that who claims a million tokens gets answers at least as
// long as others, who stop at their limits.
type lengths [limitClasses]lengthClass

// lengthClass is what answers under limits of one class have shown. Means are moving averages.
type lengthClass struct {
	tokens  float32 // mean logarithm of the tokens of an answer
	limit   float32 // mean logarithm of the limit, 0 in the last class
	reached float32 // share of the answers that ended at their limit
	answers uint8   // that count, warmup at most
}

// limitClass returns the class of a limit, 0 for none.
func limitClass(limit int) int {
	if limit <= 0 {
		return limitClasses - 1
	}
	return min((bits.Len(uint(limit))-1)/2, limitClasses-1)
}

// expect returns the tokens of an answer under a limit, 0 for none. If no answer has shown that, it returns false, and
// how long an answer is at least, 0 if not even that is known.
//
// A class without answers is like the next one above, whose limits cut off less, or else like the next one below if
// most of its answers ended before their limits.
func (l *lengths) expect(limit int) (tokens float64, known bool) {
	class := limitClass(limit)
	for i := class; i < limitClasses; i++ {
		if c := &l[i]; c.answers > 0 {
			mean := float64(c.tokens)
			if i == class && limit > 0 && i < limitClasses-1 {
				// d/dx E[min(X, x)] = P(X > x)
				mean += float64(c.reached) * (math.Log(float64(limit)) - float64(c.limit))
			}
			return max(1, atMost(limit, math.Exp(mean))), true
		}
	}
	for i := class - 1; i > 0; i-- {
		if c := &l[i]; c.answers > 0 {
			return math.Exp(float64(c.tokens)), c.reached < 0.5
		}
	}
	return 0, false
}

// observe averages in an answer under a limit, 0 for none, of which so many tokens were expected.
func (l *lengths) observe(limit, tokens int, expected float64) {
	class := limitClass(limit)
	c := &l[class]
	if c.answers == 0 {
		c.tokens = float32(math.Log(expected))
	}
	c.answers = min(c.answers+1, warmup)
	share := 1 / float32(c.answers)
	latest := math.Log(atMost(limit, max(1, float64(tokens))))
	c.tokens += share * float32(min(max(latest-float64(c.tokens), -maxLogFactor), maxLogFactor))
	if class == limitClasses-1 {
		return
	}
	c.limit += share * (float32(math.Log(float64(limit))) - c.limit)
	reached := float32(0)
	if tokens >= limit {
		reached = 1
	}
	c.reached += share * (reached - c.reached)
}

// atMost returns the tokens, or the limit if that is lower; a limit of 0 is none.
func atMost(limit int, tokens float64) float64 {
	if limit > 0 {
		return min(tokens, float64(limit))
	}
	return tokens
}

// expectation is how long an answer is by one model after another, the narrowest first.
type expectation struct {
	limit  int
	tokens float64 // 0 until it is known
	least  float64 // that a model has shown that does not know more
}

func (e *expectation) add(l *lengths) {
	if e.tokens > 0 {
		return
	}
	tokens, known := l.expect(e.limit)
	if e.least = max(e.least, tokens); known {
		e.tokens = e.least
	}
}

// or returns what is known, or else the guess.
func (e *expectation) or(g Guess) float64 {
	if e.tokens > 0 {
		return e.tokens
	}
	tokens := float64(g.Tokens)
	if e.least > 0 {
		tokens = min(max(tokens, e.least), MaxTimesTypical*e.least)
	}
	return atMost(e.limit, tokens)
}
