package loadgen

import (
	"math"
	"slices"
	"time"
)

// Quantiles are exact order statistics of a set of durations.
type Quantiles struct {
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
	Mean time.Duration `json:"mean_ns"`
}

// Summary is the result of one run.
type Summary struct {
	Requests  int            `json:"requests"`
	OK        int            `json:"ok"`
	Left      int            `json:"left"`     // clients that left as planned
	Errors    map[string]int `json:"errors"`   // by kind
	Endpoints map[string]int `json:"endpoint"` // complete answers by endpoint
	TTFT      Quantiles      `json:"ttft"`
	Latency   Quantiles      `json:"latency"`
	Tokens    int            `json:"tokens"`     // content events of complete answers
	Elapsed   time.Duration  `json:"elapsed_ns"` // first due time to last end
	Rate      float64        `json:"rate_rps"`   // complete answers per second
}

// Failed returns the number of requests that neither completed nor left as planned.
func (s *Summary) Failed() int {
	n := 0
	for _, k := range s.Errors {
		n += k
	}
	return n
}

// Summarize reduces samples. Latencies are those of complete answers: failures are counted, not averaged away.
func Summarize(samples []Sample) Summary {
	sum := Summary{Requests: len(samples), Errors: map[string]int{}, Endpoints: map[string]int{}}
	var ttft, total []time.Duration
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range samples {
		s := &samples[i]
		first, last = min(first, s.Due), max(last, s.Due+s.Total)
		switch {
		case s.Left:
			sum.Left++
			continue
		case s.Error != "":
			sum.Errors[s.Error]++
			continue
		}
		sum.OK++
		sum.Endpoints[s.Endpoint]++
		sum.Tokens += s.Tokens
		ttft, total = append(ttft, s.TTFT), append(total, s.Total)
	}
	sum.TTFT, sum.Latency = QuantilesOf(ttft), QuantilesOf(total)
	if len(samples) > 0 && last > first {
		sum.Elapsed = last - first
		sum.Rate = float64(sum.OK) / sum.Elapsed.Seconds()
	}
	return sum
}

// QuantilesOf sorts d in place and returns its quantiles; all are 0 if d is empty.
func QuantilesOf(d []time.Duration) Quantiles {
	if len(d) == 0 {
		return Quantiles{}
	}
	slices.Sort(d)
	var sum float64
	for _, x := range d {
		sum += float64(x)
	}
	return Quantiles{
		P50:  Quantile(d, 0.5),
		P90:  Quantile(d, 0.9),
		P99:  Quantile(d, 0.99),
		Max:  d[len(d)-1],
		Mean: time.Duration(sum / float64(len(d))),
	}
}

// Quantile returns the smallest element of the sorted slice that at least the share q of all elements does not exceed
// (nearest rank, no interpolation).
func Quantile[T any](sorted []T, q float64) T {
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
