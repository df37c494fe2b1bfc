package scripted

import (
	"math"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// TestOnlyTheWindowIsMeasured has a request of a second and a half begin every second. One more fails.
func TestOnlyTheWindowIsMeasured(t *testing.T) {
	const second = time.Second
	var samples []loadgen.Sample
	for i := range 6 {
		samples = append(samples, loadgen.Sample{
			Status: 200, Due: time.Duration(i) * second, Total: second * 3 / 2, Tokens: 10, Endpoint: "a",
			Usage: loadgen.Usage{Prompt: 100, Cached: 10 * i},
		})
	}
	samples[3].Endpoint = "b"
	samples = append(samples, loadgen.Sample{Due: 0, Error: loadgen.ErrReset})
	// Sent at 2, 3 and 4 s; those of 1, 2 and 3 s end in the window.
	f := Window{2 * second, 5 * second}.Figures(samples)
	if f.Summary.OK != 3 || math.Abs(f.Cached-0.3) > 1e-9 || f.Rate != 10 || f.Failed != 1 {
		t.Errorf("%+v", f)
	}
	if got := f.Uneven(4); math.Abs(got-8./3) > 1e-9 {
		t.Errorf("the busiest of four servers has %v times the mean, want 2 of 3 requests", got)
	}
	if f := (Window{}).Figures(nil); f.Rate != 0 || f.Cached != 0 || f.Uneven(3) != 0 {
		t.Errorf("of nothing: %+v", f)
	}
}
