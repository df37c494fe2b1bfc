// Package calibrate fits the times of a simulated engine to what the metrics of a real one say.
package calibrate

import (
	"errors"
	"math"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Result is a fitted engine.
type Result struct {
	Times       enginesim.Times
	CacheTokens int // that the KV cache holds, 0 if nothing says so
	// Error is by how much the fitted times differ from those of the pages, of steps and of prefills: the root of the
	// mean square of the ratios less 1. With a log it is the median of these, without signs, over the times to the
	// first output of answers that were left out of the fit.
	Error float64
	// RestError is the same for what comes behind the first output, with a log.
	RestError float64
	// Guessed is set if pages or log alone cannot tell the times apart: then what they do not say is close to
	// [enginesim.DefaultTimes].
	Guessed bool
	Answers int // of the log that were compared, 0 without one
}

// The times that are fitted: overhead of a prompt, each of its tokens, a step, each sequence in it.
const (
	promptMS = iota
	tokenMS
	stepMS
	sequenceMS
	unknowns
)

// timesOf returns the fitted ones of an engine's times.
func timesOf(t enginesim.Times) [unknowns]float64 {
	return [unknowns]float64{t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS}
}

// engineTimes returns the times of an engine.
func engineTimes(of [unknowns]float64) enginesim.Times {
	return enginesim.Times{
		Speed: 1, PrefillOverheadMS: of[promptMS], PrefillTokenMS: of[tokenMS], DecodeStepMS: of[stepMS],
		DecodeSeqMS: of[sequenceMS],
	}
}

// row is one observed time in ms, and by how many of each unknown it is made up.
type row struct {
	times    [unknowns]float64
	observed float64
}

// Fit fits the times to pages of one engine, or of several that are alike. A page has counts since its engine began:
// the more the loads behind pages differ, the better can times be told apart.
//
// Two means of each page are compared with those of the model: the time between two tokens, which is that of a step,
// and the time of a prefill, which is that of a step with all of the prompt, in which others decode. That is a linear
// problem of least squares for relative errors. A small penalty on the distance from the default times (ridge
// regression; Hoerl and Kennard, 1970) decides where pages say too little.
func Fit(pages []Page) (Result, error) {
	var rows []row
	out := Result{}
	for i := range pages {
		p := &pages[i]
		out.CacheTokens = max(out.CacheTokens, p.CacheTokens)
		rows = append(rows, p.rows()...)
	}
	if len(rows) == 0 {
		return out, errors.New("no page has served requests with answers of several tokens")
	}
	defaults := timesOf(enginesim.DefaultTimes())
	fitted := solve(rows, defaults)
	out.Times = engineTimes(fitted)
	for _, r := range rows {
		off := r.off(fitted)
		out.Error += off * off / float64(len(rows))
	}
	out.Error, out.Guessed = math.Sqrt(out.Error), guessed(rows, fitted, defaults)
	return out, nil
}

// guessed reports whether the times depend on where the fit begins: whether defaults twice as long change one of them
// by a tenth.
func guessed(rows []row, fitted, defaults [unknowns]float64) bool {
	for i := range defaults {
		defaults[i] *= 2
	}
	for i, other := range solve(rows, defaults) {
		if math.Abs(other-fitted[i]) > fitted[i]/10 {
			return true
		}
	}
	return false
}

// off returns by how much the times differ from that of a row.
func (r *row) off(times [unknowns]float64) float64 {
	ms := 0.0
	for i, t := range times {
		ms += t * r.times[i]
	}
	return math.Abs(ms/r.observed - 1)
}

// solve returns the times, none of them negative: those that would be are 0, and the others are fitted again.
func solve(rows []row, defaults [unknowns]float64) (times [unknowns]float64) {
	const penalty = 1e-4
	var zero [unknowns]bool
	for {
		// The unknowns are shares of the defaults.
		var a [unknowns][unknowns + 1]float64
		for _, r := range rows {
			for i := range unknowns {
				x := r.times[i] * defaults[i] / r.observed
				for k := range unknowns {
					a[i][k] += x * r.times[k] * defaults[k] / r.observed
				}
				a[i][unknowns] += x
			}
		}
		for i := range unknowns {
			a[i][i] += penalty
			a[i][unknowns] += penalty
			if zero[i] {
				for k := range unknowns {
					a[i][k], a[k][i] = 0, 0
				}
				a[i][i], a[i][unknowns] = 1, 0
			}
		}
		shares := eliminate(a)
		negative := false
		for i, s := range shares {
			times[i] = s * defaults[i]
			if s < 0 {
				zero[i], negative = true, true
			}
		}
		if !negative {
			return times
		}
	}
}

// eliminate solves the equations, of which the last column is the right side (Gauss). The penalty keeps them apart.
func eliminate(a [unknowns][unknowns + 1]float64) (x [unknowns]float64) {
	for i := range unknowns {
		best := i
		for k := i; k < unknowns; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[best][i]) {
				best = k
			}
		}
		a[i], a[best] = a[best], a[i]
		for k := range unknowns {
			if k != i {
				f := a[k][i] / a[i][i]
				for c := i; c <= unknowns; c++ {
					a[k][c] -= f * a[i][c]
				}
			}
		}
	}
	for i := range unknowns {
		x[i] = a[i][unknowns] / a[i][i]
	}
	return x
}
