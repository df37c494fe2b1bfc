package placement

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/simload"
)

// fitted is how close the simulated engine is to real ones.
type fitted struct {
	lines       []string
	ttft, token float64
}

// fit compares the simulated engine with what real ones had.
func fit() (*fitted, error) {
	f := &fitted{}
	ttft, cached, err := simload.LikeRealEngines(func(string, ...any) {})
	f.ttft = ttft
	f.lines = append(f.lines, fmt.Sprintf("fit: TTFT %.3f, cached %.3f", ttft, cached))
	return f, err
}
