package stats

import (
	"strconv"
	"testing"

	"github.com/warmgate/warmgate/plugin/measured"
)

// Nothing is allocated for a request whose names were seen before.
func TestNoAllocation(t *testing.T) {
	s := New(nothing{})
	q := stream()
	s.Measured(q)
	s.Flush()
	if n := testing.AllocsPerRun(100, func() { s.Measured(q); s.Flush() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// nothing are Metrics that cost nothing.
type nothing struct{}

func (nothing) Counter(string) uint32   { return 0 }
func (nothing) Gauge(string) uint32     { return 0 }
func (nothing) Histogram(string) uint32 { return 0 }
func (nothing) Add(uint32, int64)       {}
func (nothing) Set(uint32, uint64)      {}

// BenchmarkMeasured is what a stream costs without the gateway's part, eight values of histograms.
func BenchmarkMeasured(b *testing.B) {
	s := New(nothing{})
	qs := make([]*measured.Request, 8)
	for i := range qs {
		qs[i] = stream()
		qs[i].Model = "model-" + strconv.Itoa(i)
		qs[i].Endpoint = "10.0.0." + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := range b.N {
		s.Measured(qs[i%len(qs)])
		if i%1000 == 0 {
			s.Flush()
		}
	}
}
