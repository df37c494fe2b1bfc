// Package placement places a request: one choice from plan to outcome. It has the policy plan, the store count, and the
// request wait; and whatever ends the request, it gives back what was counted, and tells health what that means.
//
// It knows neither how a request comes and goes, nor other regions, nor the admission API: its steps return a [Result],
// on which its [Driver] acts.
package placement
