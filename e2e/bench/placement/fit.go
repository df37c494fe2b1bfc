package placement

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/simload"
)

// fitted is how close the simulated engines on an H200 are to real ones.
type fitted struct{ ttft, token, single simload.Off }

// fit compares them.
func fit() (*fitted, error) {
	f := &fitted{}
	var err error
	f.ttft, f.token, f.single, err = simload.SharedError(func(string, ...any) {})
	return f, err
}

// line says so in words.
func (f *fitted) line() string {
	off := func(o simload.Off) string {
		return fmt.Sprintf("%.1f %% on average, %.1f %% at most", 100*o.Mean, 100*o.Most)
	}
	return "engines of the cells h200: of what real ones had (vLLM 0.26, a quarter of an H200 each; 20 runs of five " +
		"policies) the mean TTFT is off by " + off(f.ttft) + ", the mean time per token by " + off(f.token) +
		", TTFT and time per token of single prompts by " + off(f.single)
}
