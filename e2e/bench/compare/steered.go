package compare

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/loadgen"
)

// hostHeader has the endpoint that Warmgate chose, reasonHeader the reason for the choice or for none.
const (
	hostHeader   = "x-warmgate-host"
	reasonHeader = "x-warmgate-reason"
)

// mostUnsteered is the share of answers that Warmgate need not have chosen the endpoint of: while it learns the
// endpoints, or is too slow.
const mostUnsteered = 0.1

// Steered returns an error if the policy is one of Warmgate's, and the answers, with their [DebugHeaders], show that
// Warmgate did not choose who gave them: because it refused its configuration, for example, and requests fell back to
// native balancing.
func (p Policy) Steered(samples []loadgen.Sample) error {
	if p.Plugin == "" {
		return nil
	}
	answered, unsteered := 0, 0
	reasons := map[string]int{}
	for i := range samples {
		s := &samples[i]
		if !s.OK() {
			continue
		}
		answered++
		if s.Header.Get(hostHeader) == "" && s.Header.Get(RegionHeader) == "" {
			unsteered++
			reasons[s.Header.Get(reasonHeader)]++
		}
	}
	if float64(unsteered) > mostUnsteered*float64(answered) {
		return fmt.Errorf("compare: %s did not choose the endpoints of %d of %d answers, reasons %v", p.Name, unsteered,
			answered, reasons)
	}
	return nil
}
