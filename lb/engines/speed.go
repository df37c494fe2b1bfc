package engines

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

const (
	// speedWindow is the time constant with which samples of an engine's speed decay.
	speedWindow = time.Minute
	// minSpeedTokens is the number of tokens from which on the speed of an engine is known.
	minSpeedTokens = 200
	// speedNoise is the ratio up to which speeds count as equal: alike engines differ in their batches.
	speedNoise = 1.25
	// maxTokenRate bounds the speed of an engine, in tokens per second and request. A higher one is an error.
	maxTokenRate = 1e6
	// minRelativeSpeed and maxRelativeSpeed bound the learned weight, relative to the median engine.
	minRelativeSpeed, maxRelativeSpeed = 1.0 / 8, 8
)

// learnSpeed learns from the tokens that were generated in the given number of seconds since the previous scrape.
func (e *engine) learnSpeed(next *Sample, seconds float64) {
	tokensThen, tokensNow, ok := e.counterPair(next, metrics.Intervals)
	timeThen, timeNow, ok2 := e.counterPair(next, metrics.IntervalTime)
	if !ok || !ok2 {
		return
	}
	decay := math.Exp(-seconds / speedWindow.Seconds())
	e.recentTokens = e.recentTokens*decay + tokensNow - tokensThen
	e.recentSeconds = e.recentSeconds*decay + timeNow - timeThen
}

// speed returns how many tokens per second the engine generates for each request, 0 if unknown.
func (e *engine) speed() float64 {
	if e == nil || e.recentTokens < minSpeedTokens || e.recentSeconds*maxTokenRate < e.recentTokens {
		return 0
	}
	return e.recentTokens / e.recentSeconds
}

// relativeSpeed returns the learned weight of an engine, given its speed and the median speed; 1 if one is unknown.
func relativeSpeed(speed, median float64) float64 {
	if speed == 0 || median == 0 {
		return 1
	}
	ratio := min(max(speed/median, minRelativeSpeed), maxRelativeSpeed)
	if ratio < speedNoise && ratio > 1/speedNoise {
		return 1
	}
	return ratio
}
