package response

import (
	"time"

	"github.com/warmgate/warmgate/plugin/measured"
)

// This file is what is measured of a stream as it passes: when it shows output, and how often.

// events returns how many events with output were counted.
func (r *Reading) events() int64 {
	if r.Answer == nil {
		return 0
	}
	return r.Answer.Tally().Events
}

// firstOutput is called when the answer has begun: with output, or because none will come.
func (r *Reading) firstOutput() {
	a := r.Answer
	if !r.Streamed || a != nil && !a.HasOutput() && a.Data() == 0 && !a.IsOther() && r.events() == 0 {
		return
	}
	r.FirstAt = r.Env.GW.Now()
	r.LatestAt, r.Outputs = r.FirstAt, 1
}

// goesOn is called for each part, size bytes, of an answer that has begun before. So many events had been counted in
// front of it. In an API that is not known, every part counts as output.
func (r *Reading) goesOn(size int, events int64, end bool) {
	if !r.Streamed {
		return
	}
	if !r.Counts {
		if end {
			r.LatestAt = r.Env.GW.Now()
		}
		return
	}
	if n := r.events(); size == 0 || n > 0 && n == events {
		return
	}
	if r.FirstAt == 0 {
		r.firstOutput()
		return
	}
	now := r.Env.GW.Now()
	if r.Gaps == nil {
		r.Gaps = &measured.Gaps{}
	}
	r.Gaps.Add(now - r.LatestAt)
	r.LatestAt = max(r.LatestAt, now)
	r.Outputs++
}

// TTFTSince returns after which time from its arrival a stream has shown its first output, 0 if none has.
func (r *State) TTFTSince(arrival time.Duration) time.Duration {
	if r.FirstAt == 0 || !r.IsGood() {
		return 0
	}
	return max(1, r.FirstAt-arrival)
}
