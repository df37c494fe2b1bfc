package placement

import (
	"context"
	"os/exec"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// A request's way through the plugin's code is measured natively and in V8, which takes longer. How long is no matter
// of a test: the machine may be busy.
func TestDecisionIsMeasured(t *testing.T) {
	harness.LongT(t)
	d, err := decide(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.inV8(context.Background(), 1, 1); err != nil {
		t.Fatal(err)
	}
	if d.micros <= 0 {
		t.Errorf("natively %.1f µs", d.micros)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no Node.js")
	}
	if d.wasm == nil || d.wasmMetrics == nil || d.wasm.Median <= 0 || d.wasmMetrics.Median <= 0 {
		t.Errorf("in V8 %+v and %+v", d.wasm, d.wasmMetrics)
	}
}
