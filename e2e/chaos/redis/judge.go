package redis

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
)

// What an outage of Redis may add to the 99th percentile of the time to answer, in the median of the outages, in ms.
// The first second has the requests that wait for Redis in vain; after it the breaker is open and none does.
const (
	targetFirstMS = 25
	targetLaterMS = 1
)

// Judgement compares the outages of a run with the targets. It is no violation to miss them: a time that is measured
// beside the model servers and the clients is also a measure of the machine.
type Judgement struct {
	Outages      int          `json:"outages"` // measured
	AddedFirstMS bench.Spread `json:"added_first_ms"`
	AddedLaterMS bench.Spread `json:"added_later_ms"`
	TargetsMet   bool         `json:"targets_met"`
}

// Judge returns nil if no outage was measured, before, in and after its first second.
func Judge(scenes []lab.Result) *Judgement {
	var first, later []float64
	for _, r := range scenes {
		if r.RedisResult != nil && r.Outage && r.BaseP99MS > 0 && r.FirstP99MS > 0 && r.LaterP99MS > 0 {
			first, later = append(first, r.AddedFirstMS), append(later, r.AddedLaterMS)
		}
	}
	if len(first) == 0 {
		return nil
	}
	j := &Judgement{Outages: len(first), AddedFirstMS: bench.SpreadOf(first), AddedLaterMS: bench.SpreadOf(later)}
	j.TargetsMet = j.AddedFirstMS.Median <= targetFirstMS && j.AddedLaterMS.Median <= targetLaterMS
	return j
}

// String puts it in one line.
func (j *Judgement) String() string {
	verdict := "targets met"
	if !j.TargetsMet {
		verdict = "TARGETS MISSED"
	}
	return fmt.Sprintf("%s: an outage added to the p99, over %d outages, %.1f ms in its first second in the median "+
		"(target %d, worst %.1f) and %.1f ms later (target %d, worst %.1f)",
		verdict, j.Outages, j.AddedFirstMS.Median, targetFirstMS, j.AddedFirstMS.Max, j.AddedLaterMS.Median,
		targetLaterMS, j.AddedLaterMS.Max)
}
