package loadgen

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	ms := time.Millisecond
	samples := []Sample{
		{
			Due: 0, Sent: ms, TTFT: 10 * ms, Total: 100 * ms, Tokens: 3, Gaps: []time.Duration{20 * ms, 40 * ms},
			Endpoint: "a",
		},
		{Due: 100 * ms, Sent: 100 * ms, TTFT: 90 * ms, Total: 200 * ms, Tokens: 1, Endpoint: "b"},
		{Due: 200 * ms, Sent: 200 * ms, TTFT: 20 * ms, Total: 900 * ms, Tokens: 1, Endpoint: "a"},
		{Due: 300 * ms, Error: "status_503", Total: 5 * ms},
		{Due: 400 * ms, Left: true, Total: 5 * ms},
		{Due: 900 * ms, Error: ErrTruncated, Total: 1100 * ms},
	}
	s := Summarize(samples)
	if s.Requests != 6 || s.OK != 3 || s.Left != 1 || s.Failed() != 2 {
		t.Errorf("counts %+v", s)
	}
	if s.Errors["status_503"] != 1 || s.Errors[ErrTruncated] != 1 || s.Endpoints["a"] != 2 || s.Endpoints["b"] != 1 {
		t.Errorf("errors %v endpoints %v", s.Errors, s.Endpoints)
	}
	if s.TTFT.P50 != 20*ms || s.TTFT.Max != 90*ms || s.TTFT.Mean != 40*ms || s.Latency.P99 != 900*ms {
		t.Errorf("ttft %+v latency %+v", s.TTFT, s.Latency)
	}
	if s.Tokens != 5 {
		t.Errorf("tokens %d", s.Tokens)
	}
	if s.Elapsed != 2*time.Second || s.Rate != 1.5 {
		t.Errorf("elapsed %v rate %v", s.Elapsed, s.Rate)
	}
	if empty := Summarize(nil); empty.Requests != 0 || empty.Rate != 0 || empty.TTFT != (Quantiles{}) {
		t.Errorf("empty summary %+v", empty)
	}
}

// TestQuantileProperty checks the definition: at least the share q of the elements is ≤ the quantile, and less than
// that share is strictly below it.
func TestQuantileProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		d := make([]int, 1+r.IntN(300))
		for i := range d {
			d[i] = r.IntN(50)
		}
		slices.Sort(d)
		q := r.Float64()
		got := Quantile(d, q)
		notAbove, below := 0, 0
		for _, x := range d {
			if x <= got {
				notAbove++
			}
			if x < got {
				below++
			}
		}
		n := q * float64(len(d))
		if float64(notAbove) < n || float64(below) > n {
			t.Fatalf("quantile %.3f of %d elements = %d: %d are not above, %d below", q, len(d), got, notAbove, below)
		}
	}
}
